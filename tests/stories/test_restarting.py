"""Restarting: a daemon may die at any step of a cascade; the next one ends where an undisturbed one
would have.
"""

from __future__ import annotations

import asyncio
import re
import subprocess

import pytest

from tests.stories.apart import started
from tests.stories.daemon_rig import note, save, seeded
from tests.stories.restart_rig import RestartRig, restart_rig

QUICK = {"PARACHUTE_BUBBLE_QUIET_S": "0.02"}
GRAPH = {"b": ["p"], "c": ["p"], "d": ["b", "c"], "e": ["d", "p"]}
"""Two levels beside each other, a diamond, and one that watches the first and the last; the vault's
own note watches all of them.
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, program: subprocess.Popen[bytes]) -> RestartRig:
    place = restart_rig(tmp_path_factory.mktemp("restarting"), program)
    save(place.vault / "p/AGENTS.md", note("P"))
    for name, watched in GRAPH.items():
        save(place.vault / f"{name}/AGENTS.md", note(name.upper(), watch=watched))
    save(place.vault / "AGENTS.md", note("All", watch=["*"]))
    place.live()
    place.keep()
    return place


def put_back(place: RestartRig) -> None:
    """How it was, and then a person's edit that no one has noticed yet."""
    place.put_back()
    save(place.vault / "p/AGENTS.md", note("P", focus="- sow"))


@pytest.mark.timeout(900)
def test_a_cascade_cut_short_at_any_step_ends_as_if_nothing_had_been(place: RestartRig, torture):
    """At every step in turn, or at some of them; and sometimes the next daemon dies too, and the
    one after that.
    """
    put_back(place)
    _died, steps = place.live()
    expected, runs = place.files(), place.runs()
    assert [watcher for watcher, _outcome in runs] == [
        "AGENTS.md",
        "b/AGENTS.md",
        "c/AGENTS.md",
        "d/AGENTS.md",
        "e/AGENTS.md",
    ]
    seed, rng = seeded()
    chosen = range(1, steps + 1) if torture else sorted(rng.sample(range(1, steps + 1), 3))
    for step in chosen:
        put_back(place)
        deaths = [step]
        died, _steps = place.live(step)
        while died and len(deaths) < 3 and rng.random() < 0.5:
            deaths.append(rng.randrange(1, steps))
            died, _steps = place.live(deaths[-1])
        if died:
            place.live()

        assert place.files() == expected, f"seed {seed}, died at {deaths} of {steps}"
        assert place.runs() == runs, f"seed {seed}, died at {deaths} of {steps}"


@pytest.mark.timeout(900)
async def test_a_daemon_killed_at_random_moments_ends_as_if_nothing_had_been(
    place: RestartRig, torture
):
    """The real command, and a real SIGKILL at a moment that no one chose."""
    put_back(place)
    place.live()
    expected, runs = timeless(place.files()), place.runs()
    seed, rng = seeded()
    for turn in range(100 if torture else 1):
        put_back(place)
        for _ in range(rng.randint(1, 3)):
            async with started(place.vault, place.home, **QUICK) as (process, _record):
                await asyncio.sleep(rng.uniform(0, 0.6))
                process.kill()
        place.live()  # the same but for its clock, and it waits until all is settled

        assert timeless(place.files()) == expected, f"seed {seed}, turn {turn}"
        assert place.runs() == runs, f"seed {seed}, turn {turn}"


def timeless(files: dict[str, bytes]) -> dict[str, set[bytes]]:
    """The lines but those that hold the time, without days: two notes that were written on one day
    have a line in common, which a digest of both has twice, and not where a kill came between them.
    """
    return {
        path: {
            re.sub(rb"20\d\d-\d\d-\d\d", b"DAY", line)
            for line in data.splitlines()
            if not line.startswith(b"<!-- Added by")
        }
        for path, data in files.items()
    }
