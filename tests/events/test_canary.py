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
async def events_rig(vault, home, engine):
    """With a real watcher, and a vault that has its id."""
    state_folder(home, vault)
    made = EventsRig(vault=vault, home=home, watcher=make_watcher(vault, engine))
    yield made
    made.history.close()


async def _several_touches(events_rig) -> None:
    before = (events_rig.vault / CANARY).stat().st_ctime_ns
    for _ in range(3):
        await events_rig.until(lambda: (events_rig.vault / CANARY).stat().st_ctime_ns > before)  # noqa: B023  it is called at once
        before = (events_rig.vault / CANARY).stat().st_ctime_ns


async def test_while_it_hears_that_nothing_is_wrong_and_it_is_left_as_it_was(events_rig):
    before, text = (events_rig.vault / CANARY).stat(), (events_rig.vault / CANARY).read_bytes()
    async with events_rig.detector(canary=0.02, heartbeat=0.5) as detector:
        await _several_touches(events_rig)
        assert events_rig.problems.open == {}
        assert not detector.polling
    after = (events_rig.vault / CANARY).stat()
    assert (after.st_mtime_ns, after.st_ino, (events_rig.vault / CANARY).read_bytes()) == (
        before.st_mtime_ns,
        before.st_ino,
        text,
    )
    assert events_rig.reported() == []


async def test_when_events_stop_coming_that_is_said_and_walks_find_changes_until_they_come_again(
    events_rig,
):
    async with events_rig.detector(canary=0.05, heartbeat=0.05) as detector:
        (events_rig.vault / "a.md").write_text("a")
        await events_rig.until(lambda: events_rig.reported() == [("created", "a.md")])
        with (
            INotify(nonblocking=True) as empty
        ):  # in the place of the watcher's queue, whose watches are gone, and nothing tells so
            os.dup2(empty.fileno(), events_rig.watcher._inotify.fileno())
        await events_rig.until(
            lambda: "no longer reports" in events_rig.problems.open.get("watching", "")
        )
        assert detector.polling
        (events_rig.vault / "b.md").write_text("b")
        await events_rig.until(lambda: ("created", "b.md") in events_rig.reported())

        events_rig.watcher._on_hints(ChangeHints(paths={CANARY: "closed"}))
        await events_rig.until(lambda: "watching" not in events_rig.problems.open)


async def test_a_vault_whose_id_cannot_be_touched_is_not_said_to_be_silent(events_rig):
    (events_rig.vault / CANARY).unlink()
    (events_rig.vault / CANARY).mkdir()
    async with events_rig.detector(canary=0.02, heartbeat=0.02) as detector:
        for _ in range(5):
            before = detector._canary._next
            await events_rig.until(lambda: detector._canary._next > before)  # noqa: B023  it is called at once
        assert events_rig.problems.open == {}
