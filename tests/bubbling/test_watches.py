"""Watches: what was declared is kept, and so is who waits for whom."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parachuted.bubbling import WatchRegistry
from parachuted.errors import StorageFailedError
from parachuted.state import StateStore, open_state
from parachuted.vault import IndexEntry, VaultIndex
from tests.bubbling.conftest import loop_timed

ENTRY = IndexEntry(0, 0, 1, 1, "d")


@pytest.fixture
def index() -> VaultIndex:
    index = VaultIndex()
    for path in (
        "AGENTS.md",
        "a/AGENTS.md",
        "a/plan.md",
        "b/CLAUDE.md",
        "c/AGENTS.md",
        "c/CLAUDE.md",
    ):
        index.set(path, ENTRY)
    return index


@pytest.fixture
def watches(state: StateStore, index: VaultIndex) -> WatchRegistry:
    seconds = itertools.count()
    return WatchRegistry(
        state,
        index,
        lambda: datetime(2026, 1, 5, 12, 0, tzinfo=UTC) + timedelta(seconds=next(seconds)),
    )


def test_what_a_note_declares_is_known_both_ways(watches: WatchRegistry):
    declared = watches.declare("AGENTS.md", ("*", "new.md"))

    assert declared is not None
    assert {pattern.text for pattern in declared.now.patterns} == {"*", "new.md"}
    assert watches.watched_by("AGENTS.md") == ["a/AGENTS.md", "b/CLAUDE.md", "c/AGENTS.md"]
    assert len(watches) == 1
    not_there_yet = ("d/AGENTS.md", "d/CLAUDE.md", "new.md")
    for path in ("b/CLAUDE.md", *not_there_yet):
        assert list(watches.downstream(path)) == ["AGENTS.md"]
    for path in ("c/CLAUDE.md", "a/plan.md"):
        assert list(watches.downstream(path)) == []


@pytest.mark.parametrize("again", [("a", "b"), ("b", "a"), ("a", "b", "a")])
def test_the_same_patterns_in_any_order_are_nothing_new(
    watches: WatchRegistry, again: tuple[str, ...]
):
    watches.declare("AGENTS.md", ("a", "b"))

    assert watches.declare("AGENTS.md", again) is None


def test_a_note_that_declares_nothing_is_not_a_watcher(watches: WatchRegistry):
    assert watches.declare("a/AGENTS.md", ()) is None
    watches.declare("a/AGENTS.md", ("b",))
    declared = watches.declare("a/AGENTS.md", ())

    assert declared is not None
    assert declared.now is None
    assert (len(watches), watches.of("a/AGENTS.md")) == (0, None)
    assert list(watches.downstream("b/CLAUDE.md")) == []


def test_a_restart_knows_it_and_since_when_without_reading_a_note(
    watches: WatchRegistry, state: StateStore, index: VaultIndex, tmp_path: Path
):
    watches.declare("AGENTS.md", ("a", "../x", "c#Facts"))
    watches.declare("AGENTS.md", ("b", "a", "c#Facts"))
    watches.declare("a/AGENTS.md", ("b",))
    state.close()

    again = WatchRegistry(open_state(tmp_path / "state.db"), index, lambda: datetime.now(UTC))

    assert [(one.watcher, set(one.patterns)) for one in again.all()] == [
        (one.watcher, set(one.patterns)) for one in watches.all()
    ]
    for registry in (watches, again):  # since its oldest pattern
        assert registry.since("AGENTS.md") == "2026-01-05T12:00:00+00:00"
        assert registry.since("b/CLAUDE.md") is None
    assert again.declare("AGENTS.md", ("b", "a", "c#Facts")) is None


def test_who_waits_for_whom_follows_from_who_watches_whom(watches: WatchRegistry):
    watches.declare("a/AGENTS.md", ("c",))
    watches.declare("AGENTS.md", ("a",))
    assert watches.blockers(["AGENTS.md", "a/AGENTS.md"]) == {"AGENTS.md": "a/AGENTS.md"}

    watches.declare("c/AGENTS.md", ("a",))
    assert watches.blockers(["a/AGENTS.md", "c/AGENTS.md"]) == {}  # in a ring no one waits


async def test_the_order_follows_the_declarations_once_it_is_prepared(watches: WatchRegistry):
    watches.declare("AGENTS.md", ("a",))
    watches.declare("a/AGENTS.md", ("c",))
    await watches.prepare()
    assert watches.blockers(["AGENTS.md", "a/AGENTS.md"]) == {"AGENTS.md": "a/AGENTS.md"}
    reach = watches.reach

    watches.declare("AGENTS.md", ())
    assert watches.reach is reach
    await watches.prepare()

    assert watches.blockers(["AGENTS.md", "a/AGENTS.md"]) == {}


async def test_the_order_is_prepared_while_declarations_go_on_changing(watches: WatchRegistry):
    names = [f"n{number}/AGENTS.md" for number in range(60)]
    for name in names:
        watches.declare(name, ("*",))

    async def change() -> None:
        for number in range(200):
            watches.declare(f"m{number}/AGENTS.md", ("*",))
            await asyncio.sleep(0)

    await asyncio.gather(watches.prepare(), change())

    assert watches.blockers(names) == {}


async def test_hundreds_of_watchers_of_everything_do_not_hold_the_loop(watches: WatchRegistry):
    """Where everybody watches everybody there are edges by the million: seconds of work, which
    others must not have to wait for.
    """
    for number in range(300):
        watches.declare(f"n{number}/AGENTS.md", ("*",))
    async with loop_timed() as longest:
        await watches.prepare()

    assert longest() < 0.5  # 0.1 s is the goal; a loaded machine has its own moments


def test_a_batch_that_is_undone_leaves_the_watches_as_they_were(
    watches: WatchRegistry, state: StateStore
):
    watches.declare("AGENTS.md", ("a",))

    def fail() -> None:
        with state.batch():
            watches.declare("AGENTS.md", ("b",))
            watches.declare("a/AGENTS.md", ("c",))
            raise StorageFailedError

    with pytest.raises(StorageFailedError):
        fail()
    assert [pattern.text for one in watches.all() for pattern in one.patterns] == ["a"]
    assert watches.declare("AGENTS.md", ("b",)) is not None


def test_a_vault_may_change_while_it_is_asked_what_a_note_watches(
    watches: WatchRegistry, index: VaultIndex
):
    """What a thread asks while the loop takes in changes."""
    watches.declare("AGENTS.md", ("**",))
    folders = index.folders

    def change_and_tell(folder: str) -> set[str]:
        names = folders(folder)
        index.set(f"new{len(index)}/AGENTS.md", ENTRY)
        return names

    index.folders = change_and_tell  # type: ignore[method-assign]

    assert "a/AGENTS.md" in watches.watched_by("AGENTS.md")
