"""Sessions: the contexts chosen for each, kept through restarts and bounded."""

from __future__ import annotations

import errno
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parachuted.context import sessions as subject
from parachuted.context.sessions import MOST_CHOSEN, SessionContexts
from parachuted.errors import StorageFailedError
from parachuted.state import open_state
from parachuted.state.journal import SYSTEM, JournalDisk
from parachuted.vault import IndexEntry, VaultIndex, VaultPath

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


class ContextSessionsRig:
    """A state on the disk, an index, and a clock that goes an hour further at each look."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.index, self.looks = folder, VaultIndex(), 0
        self.state = open_state(folder / "state.journal")
        self.sessions = self.opened()

    def opened(self) -> SessionContexts:
        return SessionContexts(self.state, self.index, self.clock)

    def reopen(self, **disk: JournalDisk) -> None:
        self.state.close()
        self.state = open_state(self.folder / "state.journal", **disk)
        self.sessions = self.opened()

    def clock(self) -> datetime:
        self.looks += 1
        return NOW + timedelta(hours=self.looks)

    def choose(self, session: str, *paths: str) -> None:
        self.sessions.choose(session, map(VaultPath, paths))

    def chosen(self, session: str) -> list[str]:
        return [one.folder_path for one in self.sessions.of(session)]

    def rows(self) -> list[tuple[str, str]]:
        return [
            (row["session_id"], row["folder_path"]) for row in self.state.table("session_contexts")
        ]


@pytest.fixture
def desk(tmp_path: Path) -> ContextSessionsRig:
    return ContextSessionsRig(tmp_path)


def test_what_is_chosen_is_kept_in_its_order_through_a_restart(desk: ContextSessionsRig):
    desk.choose("s", "b", "", "a", "b")
    desk.choose("t", "c")
    with pytest.raises(ValueError, match="at most 100"):
        desk.choose("t", *map(str, range(MOST_CHOSEN + 1)))
    desk.reopen()

    assert (desk.chosen("s"), desk.chosen("t"), desk.chosen("none")) == (["b", "", "a"], ["c"], [])
    assert sorted(desk.rows()) == [("s", ""), ("s", "a"), ("s", "b"), ("t", "c")]
    desk.choose("s")
    assert (desk.chosen("s"), desk.rows()) == ([], [("t", "c")]), "nothing chosen is forgotten"


def test_each_choice_says_since_when_it_stands(desk: ContextSessionsRig):
    desk.choose("s", "a")
    desk.choose("s", "b", "a")

    assert [(one.folder_path, one.added_at) for one in desk.sessions.of("s")] == [
        ("b", "2026-11-22T05:00:00+00:00"),
        ("a", "2026-11-22T04:00:00+00:00"),
    ]


def test_beyond_so_many_sessions_or_choices_the_oldest_is_forgotten(
    desk: ContextSessionsRig, monkeypatch
):
    monkeypatch.setattr(subject, "_MOST_SESSIONS", 3)
    monkeypatch.setattr(subject, "_MOST_ROWS", 5)
    for session in "abc":
        desk.choose(session, "x")
    desk.choose("a", "y")
    desk.choose("d", "x")
    assert [bool(desk.chosen(session)) for session in "abcd"] == [True, False, True, True]
    desk.choose("e", "1", "2", "3", "4")
    assert [session for session in "abcde" if desk.chosen(session)] == ["d", "e"]
    assert len(desk.rows()) == 5


def test_a_choice_that_the_disk_refuses_was_not_made(desk: ContextSessionsRig):
    def refuse(*_arguments: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    desk.choose("s", "a")
    desk.reopen(disk=replace(SYSTEM, write=refuse))

    with pytest.raises(StorageFailedError):
        desk.choose("s", "b")
    assert desk.chosen("s") == ["a"]


def test_an_old_file_that_was_moved_is_followed_and_comes_back_with_it(desk: ContextSessionsRig):
    old, folder = VaultPath("Chat/contexts/a.md"), VaultPath("Projects/a")
    desk.choose("s", old, "b")
    desk.choose("t", folder, old)

    assert desk.sessions.follow({old: folder}) == 2
    assert (desk.chosen("s"), desk.chosen("t")) == (["b", folder], [folder])
    desk.sessions = desk.opened()
    desk.index.set(old, IndexEntry(0, 0, 1, 1, "d"))
    assert (desk.chosen("s"), desk.chosen("t")) == (["b", old], [folder])


def test_the_many_sessions_of_one_key_push_out_its_own_alone(desk: ContextSessionsRig, monkeypatch):
    monkeypatch.setattr(subject, "_MOST_SESSIONS_EACH", 5)
    monkeypatch.setattr(subject, "_MOST_SESSIONS", 8)
    for session in ("mine-1", "mine-2"):
        desk.sessions.choose(session, [VaultPath("a")], "me")
    for number in range(40):
        desk.sessions.choose(f"flood-{number}", [VaultPath("a"), VaultPath("b")], "another")
    assert desk.chosen("mine-1") == desk.chosen("mine-2") == ["a"]
    left = [number for number in range(40) if desk.chosen(f"flood-{number}")]
    assert left == [35, 36, 37, 38, 39]
    assert len(desk.rows()) == 2 + 5 * 2

    # who chose first is who it is counted for
    desk.sessions.choose("flood-39", [VaultPath("c")], "me")
    desk.sessions = desk.opened()
    for number in range(40, 50):
        desk.sessions.choose(f"flood-{number}", [VaultPath("a")], "another")
    assert (desk.chosen("mine-1"), desk.chosen("flood-39")) == (["a"], [])


def test_one_key_s_choices_are_so_many_in_all(desk: ContextSessionsRig, monkeypatch):
    monkeypatch.setattr(subject, "_MOST_ROWS_EACH", 5)
    desk.sessions.choose("mine", [VaultPath("a")], "me")
    for number in range(4):
        desk.sessions.choose(f"flood-{number}", map(VaultPath, ("a", "b")), "another")
    assert (desk.chosen("mine"), desk.chosen("flood-1"), desk.chosen("flood-2")) == (
        ["a"],
        [],
        ["a", "b"],
    )
