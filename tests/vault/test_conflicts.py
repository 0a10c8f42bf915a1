"""Conflicts: which names and texts are a conflict's, and which only look like one."""

from __future__ import annotations

import pytest

from parachuted.vault.conflict_copies import is_conflict_copy
from parachuted.vault.note import conflict_line

CONFLICT = b"<<<<<<< HEAD\n- ours\n=======\n- theirs\n>>>>>>> laptop\n"


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("Tea.sync-conflict-20261122-101500-ABCDEF7.md", True),
        ("Tea (conflicted copy 2026-11-22 101500).md", True),
        ("Tea (Anna's conflicted copy 2026-11-22).md", True),
        ("Tea (Case Conflict).md", True),
        ("Tea (SFConflict anna@example 2026-11-22-10-15-00).md", True),
        ("Tea_conflict-20261122-101500.md", True),
        ("Tea (Conflicted copy phone 202611221015).md", True),
        ("Tea (Conflicted copy parachute 20261121231502).md", True),
        ("A/B/Tea_Nas_Nov-22-2026-1015_Conflict.md", True),
        ("Conflict.md", False),
        ("Conflicts/Tea.md", False),
        ("Role conflict (notes).md", False),
        ("Tea (2).md", False),
        ("on conflicted copying.md", False),
    ],
)
def test_the_names_that_sync_programs_give_are_known_and_notes_are_notes(name, is_known):
    assert is_conflict_copy(name) is is_known


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"# A\n\n" + CONFLICT, 3),
        (CONFLICT.replace(b"\n", b"\r\n"), 1),
        (CONFLICT.replace(b"=======", b"||||||| base\n- old\n======="), 1),
        (b"---\n<<<<<<< HEAD\nwatch: a\n=======\nwatch: b\n>>>>>>> x\n---\n", 2),
        (b"```\n" + CONFLICT + b"```\n\n" + CONFLICT, 9),
        (b"```\n" + CONFLICT + b"```\n", None),
        (b"<<<<<<< HEAD\nno end\n=======\n", None),
        (b"Title\n=======\n>>>>>>> deep quote\n", None),
        (b"# A\n", None),
    ],
)
def test_conflict_markers_are_found_by_line_but_for_examples_in_a_fence(data, line):
    assert conflict_line(data) == line


def test_what_looks_like_endless_markers_is_decided_at_once():
    assert conflict_line(b"<<<<<<< a\n" * 20_000) is None
    assert conflict_line(b"<<<<<<< a\n" + b"=======\n" * 100_000) is None
