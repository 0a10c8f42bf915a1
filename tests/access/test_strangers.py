"""Strangers' text: a folder or a note's own frontmatter says so, and what has read some stays
tainted.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parachuted.access.strangers import SessionTaints, Strangers, Taint, marked, says_stranger
from parachuted.errors import EditRefusedError
from parachuted.state import open_state

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("path", "is_place"),
    [
        ("Daily/a.md", False),
        ("Inbox/a.md", True),
        ("Clippings/deep/er/a.md", True),
        ("Imports/a.pdf", True),
        ("inbox/x.md", True),
        ("INBOX/Mail/x.md", True),
        ("Inbox /x.md", True),
        ("Inboxes/x.md", False),
        ("Notes/inbox/x.md", False),
    ],
)
def test_a_folder_is_untrusted_by_any_name_a_disk_takes_for_its_own(path, is_place):
    assert Strangers().is_place(path) is is_place
    assert Strangers().is_text(path, b"---\norigin: you\n---\n") is is_place


def test_the_setting_names_other_folders():
    assert Strangers(["Mail/**", "post/*.md"]).is_place("Mail/a.md")
    assert Strangers(["Mail/**", "post/*.md"]).is_place("Post/A.MD")
    assert not Strangers(["Mail/**"]).is_place("Inbox/a.md")
    with pytest.raises(ValueError, match="pattern"):
        Strangers(["../**"])


@pytest.mark.parametrize(
    "pattern", ["Mail\uff0f", "\uff0a\uff0aa", "\uff0e\uff0e/b", "\uff5e/x", "\u00df" * 700]
)
def test_a_pattern_that_folds_to_no_pattern_is_taken_as_it_is(pattern: str):
    assert Strangers([pattern]).is_place(pattern)


@pytest.mark.parametrize(
    ("frontmatter", "says"),
    [
        ("origin: stranger", True),
        ("origin: web", True),
        ("Origin:  Bot ", True),
        ("origin: [imported]", True),
        ('"\\x6frigin": web', True),
        ("origin: you", False),
        ("origin: agent", False),
        ("origin: Ethiopia", False),
        ("origin: 7", False),
        ("origin: {a: b}", False),
        ("origin: null", False),
        ("title: A", False),
    ],
)
def test_a_note_says_so_in_each_way_in_which_it_ever_was_written(frontmatter, says):
    data = f"---\n{frontmatter}\n---\n# A\n".encode()

    assert says_stranger(data) is says
    assert Strangers().is_text("Daily/a.md", data) is says
    assert marked("a.md", data) is data or not says
    assert says_stranger(marked("a.md", data))
    assert marked("a.md", data).endswith(b"# A\n")
    assert marked("a.csv", data) is data


def test_what_cannot_be_marked_is_refused():
    with pytest.raises(EditRefusedError):
        marked("a.md", b"---\n- a list\n---\nx\n")


def test_taint_stays_and_names_the_first_text():
    taint, done = Taint(), []
    taint.at_first(lambda: done.append(bool(taint)))
    assert not taint
    taint.read("Inbox/a\x1b.md")
    taint.read("b.pdf")

    assert taint
    assert done == [True]
    assert taint.why() == r"this run has read text of strangers (Inbox/a\x1b.md)"


def test_what_other_work_read_is_not_named():
    asked, other = Taint(), Taint()
    asked.read_by(other, "by who asked it")
    assert not asked
    other.read("Private/mail.md")
    asked.read_by(other, "by who asked it")

    assert "Private" not in asked.why()


def test_a_tainted_session_is_tainted_when_it_is_resumed(tmp_path: Path):
    state = open_state(tmp_path / "journal")
    state.table("session_taint").put("old", {"agent": "bot/a", "sources": {"x": "web"}})
    state.table("session_taint").put("clean", {"agent": "bot/a", "sources": {}})
    SessionTaints(state, lambda: NOON).keep("s-1", Taint("a mail"), agent="bot/a")
    SessionTaints(state, lambda: NOON).keep("s-2", Taint(), agent="bot/a")
    state.close()

    state = open_state(tmp_path / "journal")
    taints, found = SessionTaints(state, lambda: NOON), {}
    for session in ("s-1", "s-2", "old", "clean", "unknown"):
        taints.recall(session, taint := Taint())
        found[session] = (bool(taint), taints.owner(session))
    state.close()
    assert found == {
        "s-1": (True, "bot/a"),
        "s-2": (False, "bot/a"),
        "old": (True, "bot/a"),
        "clean": (False, "bot/a"),
        "unknown": (False, None),
    }


def test_sessions_unused_for_months_go_and_one_in_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("parachuted.access.strangers._FEW", 20)
    now = [NOON]
    state = open_state(tmp_path / "journal")
    taints = SessionTaints(state, lambda: now[0])
    for number in range(21):
        taints.keep(f"s-{number}", Taint("a mail"), agent="bot/a")
    for _ in range(10):
        now[0] += timedelta(days=80)
        taints.keep("s-7", Taint("a mail"), agent="bot/a")
    taints.recall("s-7", taint := Taint())
    assert taint
    assert len(state.table("session_taint").items()) < 10
    state.close()
