"""Canary: that the system no longer reports changes comes to light, and the vault is walked
meanwhile.
"""

from __future__ import annotations

import os

import pytest
from inotify_simple import INotify

from parachuted.events.disk_scan import CANARY
from parachuted.events.watcher import ChangeHints, make_watcher
from parachuted.home_files.vault_state import state_folder
from tests.events.conftest import EventsRig


@pytest.fixture
async def rig(vault, home, engine):
    """With a real watcher, and a vault that has its id."""
    state_folder(home, vault)
    made = EventsRig(vault=vault, home=home, watcher=make_watcher(vault, engine))
    yield made
    made.history.close()


async def _several_touches(rig) -> None:
    before = (rig.vault / CANARY).stat().st_ctime_ns
    for _ in range(3):
        await rig.until(lambda: (rig.vault / CANARY).stat().st_ctime_ns > before)  # noqa: B023  it is called at once
        before = (rig.vault / CANARY).stat().st_ctime_ns


async def test_while_it_hears_that_nothing_is_wrong_and_it_is_left_as_it_was(rig):
    before, text = (rig.vault / CANARY).stat(), (rig.vault / CANARY).read_bytes()
    async with rig.detector(canary=0.02, heartbeat=0.5) as detector:
        await _several_touches(rig)
        assert rig.problems.open == {}
        assert not detector.polling
    after = (rig.vault / CANARY).stat()
    assert (after.st_mtime_ns, after.st_ino, (rig.vault / CANARY).read_bytes()) == (
        before.st_mtime_ns,
        before.st_ino,
        text,
    )
    assert rig.reported() == []


async def test_when_events_stop_coming_that_is_said_and_walks_find_changes(
    rig,
):
    async with rig.detector(canary=0.05, heartbeat=0.05) as detector:
        (rig.vault / "a.md").write_text("a")
        await rig.until(lambda: rig.reported() == [("created", "a.md")])
        with (
            INotify(nonblocking=True) as empty
        ):  # in the place of the watcher's queue, whose watches are gone, and nothing tells so
            os.dup2(empty.fileno(), rig.watcher._inotify.fileno())
        await rig.until(lambda: "no longer reports" in rig.problems.open.get("watching", ""))
        assert detector.polling
        (rig.vault / "b.md").write_text("b")
        await rig.until(lambda: ("created", "b.md") in rig.reported())

        rig.watcher._on_hints(ChangeHints(paths={CANARY: "closed"}))
        await rig.until(lambda: "watching" not in rig.problems.open)


async def test_a_vault_whose_id_cannot_be_touched_is_not_said_to_be_silent(rig):
    (rig.vault / CANARY).unlink()
    (rig.vault / CANARY).mkdir()
    async with rig.detector(canary=0.02, heartbeat=0.02) as detector:
        for _ in range(5):
            before = detector._canary._next
            await rig.until(lambda: detector._canary._next > before)  # noqa: B023  it is called at once
        assert rig.problems.open == {}
