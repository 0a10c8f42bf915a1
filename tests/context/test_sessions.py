"""Sessions: the contexts chosen for each, kept through restarts and bounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parachuted.context import sessions as subject
from parachuted.context.sessions import MOST_CHOSEN, SessionContexts
from parachuted.errors import StorageFailedError
from parachuted.state import open_state
from parachuted.vault import VaultPath
from tests.state.full_disk import fill_disk

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


class ContextSessionsRig:
    """A state on the disk, and a clock that goes an hour further at each look."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.looks = folder, 0
        self.state = open_state(folder / "state.db")
        self.sessions = self.opened()

    def opened(self) -> SessionContexts:
        return SessionContexts(self.state, self.clock)

    def reopen(self) -> None:
        self.state.close()
        self.state = open_state(self.folder / "state.db")
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


def test_beyond_so_many_sessions_the_oldest_is_forgotten(desk: ContextSessionsRig, monkeypatch):
    monkeypatch.setattr(subject, "_MOST_SESSIONS", 3)
    for session in "abc":
        desk.choose(session, "x")
    desk.choose("a", "x", "y")
    desk.choose("d", "x")
    assert [bool(desk.chosen(session)) for session in "abcd"] == [True, False, True, True]
    assert len(desk.rows()) == 4


def test_a_choice_that_the_disk_refuses_was_not_made(desk: ContextSessionsRig):
    desk.choose("s", "a")
    fill_disk(desk.state, lambda: True)

    with pytest.raises(StorageFailedError):
        desk.choose("s", "b")
    assert desk.chosen("s") == ["a"]


def test_an_old_file_that_was_moved_is_followed_to_its_folder(desk: ContextSessionsRig):
    old, folder = VaultPath("Chat/contexts/a.md"), VaultPath("Projects/a")
    desk.choose("s", old, "b")
    desk.choose("t", folder, old)

    assert desk.sessions.follow({old: folder}) == 2
    desk.reopen()
    assert (desk.chosen("s"), desk.chosen("t")) == (["b", folder], [folder])
