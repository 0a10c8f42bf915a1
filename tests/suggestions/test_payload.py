"""Payloads: what each would make of a text, and which are none."""

from __future__ import annotations

import pytest

from parachuted.errors import EditRefusedError, PathRefusedError
from parachuted.suggestions.payload import (
    LARGEST,
    changes_watch,
    check_payload,
    check_target,
    module_of,
    text_after,
)

NOTE = b"---\ntitle: A\n---\n# A\n\n## Facts\n\none\n"


@pytest.mark.parametrize(
    ("action", "payload", "after"),
    [
        ("create", {"text": "x\n"}, b"x\n"),
        ("create", {"base64": "AAE="}, b"\0\1"),
        ("update", {"text": "x\n"}, b"x\n"),
        ("update", {"section": "Facts", "content": "two"}, NOTE.replace(b"one", b"two")),
        (
            "update",
            {"section": "Facts", "content": "two", "append": True},
            NOTE.replace(b"one\n", b"one\ntwo\n"),
        ),
        ("update", {"key": "title", "value": "B"}, NOTE.replace(b"title: A", b"title: B")),
        ("link", {"to": "Kevin"}, NOTE + b"\n## Links\n\n- [[Kevin]]\n"),
        ("link", {"to": "Kevin", "section": "Facts", "label": "K"}, NOTE + b"- [[Kevin|K]]\n"),
        ("delete", {}, None),
    ],
)
def test_a_payload_makes_this_of_a_note(action, payload, after):
    assert text_after(action, check_payload(action, payload), NOTE) == after


@pytest.mark.parametrize(
    ("action", "payload"),
    [
        ("delete", {"text": "x"}),
        ("create", {}),
        ("create", {"section": "a", "content": "b"}),
        ("update", {"text": "a", "base64": ""}),
        ("update", {"section": "", "content": "b"}),
        ("update", {"section": "a", "content": 1}),
        ("update", {"key": "a", "value": {}}),
        ("update", {"key": "a", "value": [1]}),
        ("update", {"key": "a", "value": float("nan")}),
        ("link", {"to": " "}),
        ("link", {"to": 1}),
        ("update", {"section": "a", "content": "b", "append": "yes"}),
        ("update", {"text": "a\0b"}),
        ("update", {"text": "\ud800"}),
        ("update", {"text": "x" * LARGEST}),
        ("update", {"suggestions": ["s0000000001"]}),
    ],
)
def test_what_is_none_is_refused(action, payload):
    with pytest.raises(EditRefusedError):
        check_payload(action, payload)


def test_what_cannot_be_applied_is_refused_as_edits_are():
    with pytest.raises(EditRefusedError):
        text_after("update", {"section": "Facts", "content": "# Above"}, NOTE)
    with pytest.raises(EditRefusedError):
        text_after("create", {"base64": "?"}, None)
    with pytest.raises(EditRefusedError):
        text_after("link", {"to": "a]]\n# B"}, NOTE)


def test_the_name_of_a_key_cannot_be_several():
    after = text_after("update", {"key": "a: b\nwatch", "value": "Daily/**"}, NOTE)
    assert not changes_watch(NOTE, after)


def test_another_list_of_what_is_watched_is_seen():
    assert changes_watch(NOTE, b"---\nwatch: [Daily/**]\n---\n")
    assert changes_watch(b"---\nwatch: [Daily/**]\n---\n", None)
    assert not changes_watch(NOTE, b"---\ntitle: B\n---\n")
    assert not changes_watch(None, b"# New\n")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "~/x",
            ".git/hooks/pre-commit",
            "a/.claude/settings.json",
            ".mcp.json",
            "\u200b.mcp.json",
        ),
        *(
            "Modules/m/module.py",
            "MODULES/x",
            "Mod\u200bules/x",
            "Suggestions/x.md",
            ".parachute/x.md",
            "Projects/.claude/settings.json",
            "suggestions/x.md",
            "\uff33uggestions/x.md",
            "a\0b",
        ),
    ],
)
def test_what_decides_over_programs_is_not_to_be_suggested(path):
    with pytest.raises(PathRefusedError):
        check_target(path)


def test_a_name_that_no_file_of_a_suggestion_could_hold_is_refused():
    with pytest.raises(EditRefusedError):
        check_target("caf\udce9.md")


@pytest.mark.parametrize(
    ("path", "module"),
    [("Brain/a.md", "brain"), ("Daily/x/a.md", "daily"), ("chat/a.md", "chat"), ("a.md", "vault")],
)
def test_whose_note_it_is_is_distinguished_from_its_folder(path, module):
    assert (check_target(path), module_of(path)) == (path, module)
