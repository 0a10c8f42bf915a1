"""Matching: names, or one regular expression, beside the subject of each kind of event."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.hooks import HookEvent
from parachuted.hooks.hook import Hook
from parachuted.hooks.matching import compile_hook

AT = datetime(2025, 1, 6, tzinfo=UTC)


def is_meant(event: str, matcher: str | None, data: Mapping[str, object]) -> bool:
    hook = Hook(id="h", event=event, command="true", matcher=matcher)
    return compile_hook(hook)(HookEvent(event=event, at=AT, data=data, vault=Path("/vault")))


@pytest.mark.parametrize(
    ("matcher", "matched", "passed_over"),
    [
        (None, "Edit", ""),
        ("", "Edit", ""),
        ("*", "Edit", ""),
        ("Edit", "Edit", "MultiEdit edit"),
        ("Edit|Write", "Edit Write", "Writer"),
        ("Edit, Write", "Edit Write", "Writer"),
        ("mcp__brain__search", "mcp__brain__search", "mcp__brain__search_all"),
        ("my-tool", "my-tool", "my"),
        ("mcp__.*", "mcp__brain__search", "search"),
        ("^Note", "NotebookEdit", "MyNote"),
        ("edit.*", "xedit", "Edit"),
        ("(Edit|Write)", "MultiEdit Write", "Read"),
        ("E.it", "xEditx", "edit"),
    ],
)
def test_a_tool_is_matched_by_names_or_by_an_expression(
    matcher: str | None, matched: str, passed_over: str
):
    for name in matched.split():
        assert is_meant("tool.before", matcher, {"tool_name": name})
    for name in passed_over.split():
        assert not is_meant("tool.before", matcher, {"tool_name": name})


@pytest.mark.parametrize(
    ("matcher", "matched", "passed_over"),
    [
        ("AGENTS.md", "AGENTS.md a/AGENTS.md", "a.md"),
        ("AGENTS.md|CLAUDE.md", "a/CLAUDE.md", "a.md"),
        ("Daily", "Daily/a.md Old/Daily/a.md", "Daily.md DailyNotes/a.md"),
        ("^Daily/", "Daily/a.md", "Old/Daily/a.md daily/a.md"),
        (r"\.txt$", "a/b.txt", "a/b.txt.md"),
    ],
)
@pytest.mark.parametrize("event", ["file.modified", "write.before", "daily.entry.created"])
def test_a_file_is_matched_by_a_name_in_its_path_or_by_an_expression(
    event: str, matcher: str, matched: str, passed_over: str
):
    for path in matched.split():
        assert is_meant(event, matcher, {"path": path})
    for path in passed_over.split():
        assert not is_meant(event, matcher, {"path": path})


@pytest.mark.parametrize(
    ("matcher", "says"),
    [
        ("Edit(", "not a regular expression"),
        ("^(?!Read).*", "not a regular expression"),
        (r"(a)\1", "not a regular expression"),
        ("Daily/**", "looks like a glob"),
        ("Daily/*.md", "looks like a glob"),
        ("*.md", "looks like a glob"),
    ],
)
def test_a_matcher_that_never_matches_is_reported(matcher: str, says: str):
    with pytest.raises(ValueError, match=says):
        is_meant("write.before", matcher, {"path": "Daily/a.md"})


def test_a_tool_is_also_known_by_the_name_that_the_model_sees():
    data = {"tool_name": "search", "full_name": "mcp__brain__search"}

    assert is_meant("tool.before", "mcp__brain__.*", data)
    assert is_meant("tool.before", "search", data)
    assert not is_meant("tool.before", "mcp__vault__.*", data)


def test_an_event_without_a_subject_pays_no_heed_to_a_matcher():
    assert is_meant("prompt.before", "nonsense", {"prompt": "x"})
    assert is_meant("chat.session.created", "nonsense", {"title": "x"})
