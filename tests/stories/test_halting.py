"""Halting: whatever the watch graph, a person's change leads to at most as many runs as the plan
said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parachuted.agents.job import Job
from parachuted.testing import Block, ScriptedBackend, use
from tests.stories.daemon_rig import DaemonRig, Live, save, seeded
from tests.stories.graphs import (
    Graph,
    always_edits,
    behind,
    digests,
    open_differences,
    planned,
    random_graph,
    runs_by_cause,
    touch_up,
    write,
)


async def woken_by(daemon_rig: DaemonRig, count: int) -> None:
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) >= count)
    await daemon_rig.settled()


def assert_each_at_most_once(daemon_rig: DaemonRig) -> None:
    for cause, watchers in runs_by_cause(daemon_rig).items():
        assert len(watchers) == len(set(watchers)), f"{cause} woke one twice: {sorted(watchers)}"


@dataclass(frozen=True, kw_only=True)
class WatchGraph:
    """What watches what; a is edited. `last` runs last, and is shown the changes of `shown`."""

    watched: Graph
    last: str = ""
    shown: Sequence[str] = ()

    def below(self, folder: str) -> dict[str, list[str]]:
        return {
            f"{folder}/{name}": [f"{folder}/{one}" for one in watched]
            for name, watched in self.watched.items()
        }


GRAPHS = {
    "each-other": WatchGraph(watched={"a": ["b"], "b": ["a"]}),
    "itself": WatchGraph(watched={"a": ["a"], "b": ["a", "b"]}),
    "itself-alone": WatchGraph(watched={"a": ["a"]}),
    "ring": WatchGraph(watched={"a": ["c"], "b": ["a"], "c": ["b"]}),
    "ring-with-a-way-in-and-out": WatchGraph(
        watched={"a": [], "b": ["a", "d"], "c": ["b"], "d": ["c"], "e": ["d"]}
    ),
    "diamond": WatchGraph(
        watched={"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, last="d", shown=["b", "c"]
    ),
    "short-way-and-long": WatchGraph(
        watched={"a": [], "b": ["a"], "c": ["b"], "d": ["a", "c"]}, last="d", shown=["a", "c"]
    ),
}


async def test_an_agent_that_always_edits_runs_as_often_as_planned_and_no_more(
    live: Live, vault: Path
):
    backend = always_edits()
    for name, graph in GRAPHS.items():
        write(vault, graph.below(name))
    budget = {"budget.runs_per_hour": 1000, "budget.runs_per_cause": 1000}
    async with live(backend, **budget) as daemon_rig:
        for name, graph in GRAPHS.items():
            done = len(daemon_rig.reported("run.finished"))
            plan = planned(daemon_rig, f"{name}/a")
            touch_up(vault, f"{name}/a", "- new", graph.below(name))
            await woken_by(daemon_rig, done + len(plan))

            ran = [str(run["watcher"]) for run in daemon_rig.reported("run.finished")[done:]]
            assert sorted(ran) == sorted(plan), name
            assert_each_at_most_once(daemon_rig)
            assert bool(ran) == (name != "itself-alone")
            if graph.last:
                job, shown = backend.jobs[-1], [f"{name}/{one}/AGENTS.md" for one in graph.shown]
                assert job.watcher == f"{name}/{graph.last}/AGENTS.md"
                assert [change.path for change in job.changes] == shown


async def test_a_note_that_is_being_written_is_not_looked_at(live: Live, vault: Path):
    """b and a watch each other; while the agent of one is at work, that of the other waits."""
    at_work: set[str] = set()
    together: list[set[str]] = []

    async def script(job: Job) -> list[Block]:
        at_work.add(job.watcher)
        together.append(set(at_work))
        for _ in range(20):
            await asyncio.sleep(0)
        at_work.discard(job.watcher)
        return [
            use(
                "update_context",
                file_path=job.watcher,
                section="Facts",
                content=f"- {len(together)}",
            )
        ]

    graph = {"a": ["b", "x"], "b": ["a", "x"], "x": []}
    write(vault, graph)
    async with live(ScriptedBackend(script), agent__concurrency=4) as daemon_rig:
        touch_up(vault, "x", "- new", graph)
        await woken_by(daemon_rig, 2)

        assert together == [{"a/AGENTS.md"}, {"b/AGENTS.md"}]


async def test_a_run_that_begins_while_its_change_is_recorded_is_shown_it(
    live: Live, vault: Path, monkeypatch
):
    """It waits for the index, or there would be nothing left to review."""
    backend, graph = always_edits(), {"a": [], "b": ["a"]}
    write(vault, graph)
    async with live(backend) as daemon_rig:
        reconciler = daemon_rig.daemon.loop.reconciler
        record = reconciler.record

        async def slowly(changes):
            publish_results = await record(changes)
            if str(changes[0].path) == "a/AGENTS.md":
                await daemon_rig.until(lambda: daemon_rig.reported("task.started"))
                for _ in range(50):
                    await asyncio.to_thread(int)
            return publish_results

        monkeypatch.setattr(reconciler, "record", slowly)
        touch_up(vault, "a", "- new", graph)
        await woken_by(daemon_rig, 1)

        assert [change.path for job in backend.jobs for change in job.changes] == ["a/AGENTS.md"]


async def test_a_hundred_watchers_of_everything_run_once_each(live: Live, vault: Path, torture):
    size = 100 if torture else 25
    graph: dict[str, list[str]] = {f"n{number}": ["**/*.md"] for number in range(size)}
    write(vault, graph)
    save(vault / "plan.md", "# Plan\n")
    budget = {"budget.runs_per_hour": 1000, "budget.runs_per_cause": 1000}
    async with live(always_edits(), **budget) as daemon_rig:
        save(vault / "plan.md", "# Plan\n\n- do it\n")
        await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) >= size, 600)
        await daemon_rig.settled(60)

        assert len(daemon_rig.reported("run.finished")) == size
        assert_each_at_most_once(daemon_rig)


async def test_random_graphs_stay_within_their_plans(live: Live, vault: Path, torture):
    """Many graphs at once, each in a corner of its own; a person edits some notes of each,
    twice.
    """
    seed, rng = seeded()
    graphs = {
        f"g{number}/": random_graph(rng, rng.randint(2, 60 if torture else 7), f"g{number}/")
        for number in range(60 if torture else 8)
    }
    for graph in graphs.values():
        write(vault, graph)
    first = digests(vault)
    seen: dict[tuple[str, str], str] = {}
    budget = {
        "budget.runs_per_hour": 100_000,
        "budget.runs_per_day": 100_000,
        "budget.runs_per_cause": 100_000,
    }
    async with live(always_edits(seen, vault), agent__concurrency=8, **budget) as daemon_rig:
        for turn in range(2):
            before = len(daemon_rig.reported("run.finished"))
            edited = [
                name
                for graph in graphs.values()
                for name in rng.sample(sorted(graph), min(len(graph), rng.randint(1, 3)))
            ]
            plans = {name: set(planned(daemon_rig, name)) for name in edited}
            for name in edited:
                touch_up(vault, name, f"- turn {turn}", graphs[name.partition("/")[0] + "/"])
            await daemon_rig.settled(600 if torture else 30)

            allowed = set().union(*plans.values())
            ran = [str(run["watcher"]) for run in daemon_rig.reported("run.finished")[before:]]
            causes = {
                str(cause)
                for change in daemon_rig.reported("file.modified")
                if change["by"] == "person"
                for cause in change["causes"]
            }
            assert set(ran) == allowed, f"seed {seed}"
            assert len(ran) <= len(allowed) * len(causes), f"seed {seed}"
            for cause, watchers in runs_by_cause(daemon_rig).items():
                assert len(watchers) == len(set(watchers)), f"seed {seed}: {cause}"
            assert open_differences(daemon_rig) == behind(daemon_rig, first, seen), f"seed {seed}"
