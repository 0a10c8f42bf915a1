"""Graphs: vaults of notes that watch one another, an agent that always edits, and what a cascade
must come to.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from parachuted.agents.job import Job
from parachuted.bubbling import plan_for
from parachuted.testing import Block, ScriptedBackend, use
from parachuted.vault import digest_of
from tests.stories.daemon_rig import DaemonRig, note, save

Graph = Mapping[str, Sequence[str]]
"""For each note (its folder) what it watches."""


def always_edits(
    seen: dict[tuple[str, str], str] | None = None, vault: Path | None = None
) -> ScriptedBackend:
    """An agent that writes something new into its note at every run, and remembers in `seen` the
    digests of what it was shown.
    """
    numbers = itertools.count()

    async def script(job: Job) -> list[Block]:
        if seen is not None and vault is not None:
            seen.update(
                {
                    (job.watcher, change.path): digest_of(
                        shown_text((vault / change.path).read_bytes(), change.diff)
                    )
                    for change in job.changes
                }
            )
        return [
            use(
                "update_context",
                file_path=job.watcher,
                section="Current Focus",
                content=f"- edit {next(numbers)}",
            )
        ]

    return ScriptedBackend(script)


def shown_text(present: bytes, diff: str) -> bytes:
    """The note as the difference shows it, which another run may have changed since: notes here
    differ in one line.
    """
    [line] = re.findall(r"^\+(- .+)$", diff, re.MULTILINE)
    return re.sub(rb"^- .+$", line.encode(), present, count=1, flags=re.MULTILINE)


def write(vault: Path, graph: Graph) -> None:
    """Save every note of the graph."""
    for name, watched in graph.items():
        save(vault / name / "AGENTS.md", note(name, watch=list(watched)))


def touch_up(vault: Path, name: str, focus: str, graph: Graph) -> None:
    """A person's edit of one note that means something."""
    save(vault / name / "AGENTS.md", note(name, watch=list(graph[name]), focus=focus))


def random_graph(rng: random.Random, size: int, prefix: str = "") -> dict[str, list[str]]:
    """Notes of which each watches some others, rings and itself included."""
    names = [f"{prefix}n{number}" for number in range(size)]
    edges = rng.choice([0.5, 1.0, 1.5, 2.5])
    return {name: rng.sample(names, min(size, round(rng.expovariate(1 / edges)))) for name in names}


def planned(daemon_rig: DaemonRig, name: str) -> list[str]:
    """Whom `bubble plan` says a change of that note can wake."""
    return [
        run.watcher
        for run in plan_for(
            f"{name}/AGENTS.md", daemon_rig.daemon.loop.watches, most_cost_usd=0.1
        ).runs
    ]


def runs_by_cause(daemon_rig: DaemonRig) -> dict[str, list[str]]:
    """For each cause, the watchers of the runs that carried it."""
    found: dict[str, list[str]] = {}
    for document in daemon_rig.daemon.watched.history.runs(limit=5000):
        for cause in document["causes"]:
            found.setdefault(cause["id"], []).append(document["watcher"])
    return found


def digests(vault: Path) -> dict[str, str]:
    """The digest of every note."""
    return {
        path.relative_to(vault).as_posix(): digest_of(path.read_bytes())
        for path in vault.rglob("*.md")
    }


def behind(
    daemon_rig: DaemonRig, first: Mapping[str, str], seen: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], str]:
    """Each watcher with each note whose present text it has not seen, and what it saw last: at
    first contact, or when it ran.
    """
    pairs = [
        (one.watcher, path)
        for one in daemon_rig.daemon.loop.watches.all()
        for path in daemon_rig.daemon.loop.watches.watched_by(one.watcher)
    ]
    last = {pair: seen.get(pair, first[pair[1]]) for pair in pairs}
    return {
        pair: digest
        for pair, digest in last.items()
        if digest != digest_of((daemon_rig.vault / pair[1]).read_bytes())
    }


def open_differences(daemon_rig: DaemonRig) -> dict[tuple[str, str], str | None]:
    """The same as the daemon has it."""
    reviews = daemon_rig.daemon.loop.reviews
    return {
        (review.watcher, review.path): review.base
        for watcher in reviews.watchers()
        for review in reviews.of(watcher)
    }
