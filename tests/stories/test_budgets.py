"""Budgets: how much a daemon may do, what it says when that is used up, and what it makes of agents
that cannot work.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from parachuted.agents.job import Job
from parachuted.errors import AgentUnavailableError
from parachuted.testing import Block, ScriptedBackend, use
from tests.api.calls import get
from tests.stories.daemon_rig import Clock, DaemonRig, Live
from tests.stories.graphs import always_edits, touch_up, write


@pytest.fixture
def clock() -> Clock:
    return Clock()


def star(vault: Path, count: int) -> dict[str, list[str]]:
    """One note that so many watch."""
    graph: dict[str, list[str]] = {"x": [], **{f"w{number}": ["x"] for number in range(count)}}
    write(vault, graph)
    return graph


async def health(daemon_rig: DaemonRig) -> dict:
    return await get(daemon_rig, "/api/health?detailed=true")


def ran(daemon_rig: DaemonRig) -> list[str]:
    return [str(run["watcher"]) for run in daemon_rig.reported("run.finished")]


@pytest.mark.parametrize(("span", "hours"), [("hour", 1.01), ("day", 25)])
async def test_over_budget_tasks_wait_for_room_also_after_a_restart(
    live: Live, vault: Path, clock: Clock, span: str, hours: float
):
    graph, budget = star(vault, 5), {f"budget.runs_per_{span}": 3}
    async with live(always_edits(), clock=clock, **budget) as daemon_rig:
        touch_up(vault, "x", "- new", graph)
        await daemon_rig.until(
            lambda: (
                daemon_rig.reported("budget.exceeded") and not daemon_rig.daemon.agents.worker.busy
            )
        )
        reported = await health(daemon_rig)

        assert len(ran(daemon_rig)) == 3
        reasons = [item["reason"] for item in reported["waiting"]]
        assert reasons == [f"the budget of 3 runs per {span} is used up"] * 2
        assert reported["budget"]["runs_last_hour"] == 3
    async with live(always_edits(), clock=clock, **budget) as daemon_rig:
        await daemon_rig.until(lambda: daemon_rig.reported("budget.exceeded"))
        assert ran(daemon_rig) == []
        clock.forward(daemon_rig, hours=hours)
        await daemon_rig.until(lambda: len(ran(daemon_rig)) == 2)
        await daemon_rig.settled()
        assert len(daemon_rig.reported("budget.exceeded")) == 1


async def test_a_paused_daemon_begins_nothing_also_after_a_restart(live: Live, vault: Path):
    graph = star(vault, 1)
    async with live(always_edits()) as daemon_rig:
        daemon_rig.daemon.agents.worker.pause()
        touch_up(vault, "x", "- new", graph)
        await daemon_rig.until(lambda: daemon_rig.reported("task.queued"))
    async with live(always_edits()) as daemon_rig:
        assert daemon_rig.daemon.agents.worker.paused
        assert [task.watcher for task in daemon_rig.daemon.loop.queue.all()] == ["w0/AGENTS.md"]
        touch_up(vault, "x", "- newer", graph)
        await daemon_rig.until(lambda: daemon_rig.reported("file.modified"))
        assert daemon_rig.reported("task.started") == []

        daemon_rig.daemon.agents.worker.resume()
        await daemon_rig.until(lambda: ran(daemon_rig))
        await daemon_rig.settled()
        assert not daemon_rig.daemon.agents.worker.paused


async def test_an_agent_that_is_unavailable_is_tried_later_in_the_same_run(
    live: Live, vault: Path, clock: Clock
):
    """It counts once, and goes on after a restart."""
    attempts: list[str] = []

    async def script(job: Job) -> list[Block]:
        attempts.append(job.id)
        if len(attempts) < 3:
            raise AgentUnavailableError("no login was found")
        return [use("no_change", reason="fine")]

    graph = star(vault, 1)
    async with live(ScriptedBackend(script), clock=clock) as daemon_rig:
        touch_up(vault, "x", "- new", graph)
        for number in (1, 2):
            await daemon_rig.until(
                lambda count=number: (
                    len(attempts) == count and not daemon_rig.daemon.agents.worker.busy
                )
            )
            assert [item["reason"] for item in (await health(daemon_rig))["waiting"]] == [
                "no login was found"
            ]
            if number == 1:
                clock.forward(daemon_rig, seconds=61)
    clock.ahead += timedelta(seconds=61)
    async with live(ScriptedBackend(script), clock=clock) as daemon_rig:
        await daemon_rig.until(lambda: ran(daemon_rig))
        await daemon_rig.settled()

        assert len(set(attempts)) == 1
        assert (await health(daemon_rig))["budget"]["runs_last_hour"] == 1
        assert [run["outcome"] for run in daemon_rig.daemon.watched.history.runs()] == ["unchanged"]


async def test_a_clock_that_is_set_back_by_years_stops_nothing(
    live: Live, vault: Path, clock: Clock
):
    """Tasks due then are due now, and the runs of the last hour count on, whatever date they
    have.
    """
    graph = star(vault, 2)
    clock.ahead = timedelta(days=5000)
    async with live(always_edits(), clock=clock, budget__runs_per_hour=4) as daemon_rig:
        touch_up(vault, "x", "- new", graph)
        await daemon_rig.until(lambda: len(ran(daemon_rig)) == 2)
        await daemon_rig.settled()
        daemon_rig.daemon.agents.worker.pause()
        touch_up(vault, "x", "- newer", graph)
        await daemon_rig.until(lambda: len(daemon_rig.daemon.loop.queue.all()) == 2)
        clock.ahead = timedelta()
        daemon_rig.daemon.agents.worker.resume()
        await daemon_rig.until(lambda: len(ran(daemon_rig)) == 4)
        assert (
            str(daemon_rig.daemon.agents.budget.exceeded())
            == "the budget of 4 runs per hour is used up"
        )
