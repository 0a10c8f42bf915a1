"""Matching: each row of Claude Code's table of matchers, and what a matcher means where the subject
is a file of the vault.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.hooks import Hook, HookEvent
from parachuted.hooks.matching import compile_hook

AT = datetime(2025, 1, 6, tzinfo=UTC)


def is_meant(event: str, matcher: str | None, data: Mapping[str, object]) -> bool:
    hook = Hook(id="h", event=event, command="true", matcher=matcher)
    return compile_hook(hook)(HookEvent(event=event, at=AT, data=data, vault=Path("/vault")))


def tool(name: str) -> dict[str, object]:
    return {"tool_name": name, "tool_input": {}}


@pytest.mark.parametrize("matcher", [None, "", "*"])
def test_a_matcher_that_is_missing_empty_or_a_star_means_everything(matcher: str | None):
    assert is_meant("tool.before", matcher, tool("Edit"))
    assert is_meant("file.modified", matcher, {"path": "a/b.md"})
    assert is_meant("session.start", matcher, {})


@pytest.mark.parametrize(
    ("matcher", "name", "expected"),
    [
        ("Edit", "Edit", True),
        ("Edit", "MultiEdit", False),
        ("Edit", "edit", False),
        ("Edit|Write", "Write", True),
        ("Edit|Write", "Edit", True),
        ("Edit|Write", "Writer", False),
        ("Edit, Write", "Write", True),
        ("Edit,Write", "Write", True),
        ("Edit | Write", "Write", True),
        ("mcp__brain__search", "mcp__brain__search", True),
        ("mcp__brain__search", "mcp__brain__search_all", False),
        ("update_context", "update_context", True),
        ("my-tool", "my-tool", True),
    ],
)
def test_a_matcher_of_plain_words_is_a_list_of_exact_names(matcher: str, name: str, expected: bool):  # noqa: FBT001  a table
    assert is_meant("tool.before", matcher, tool(name)) is expected


@pytest.mark.parametrize(
    ("matcher", "name", "expected"),
    [
        ("mcp__.*", "mcp__brain__search", True),
        ("^Note", "NotebookEdit", True),
        ("Edit.*", "MultiEdit", True),
        (".*Edit$", "NotebookEdit", True),
        ("edit.*", "Edit", False),
        ("(Edit|Write)", "Write", True),
        ("E.it", "xEditx", True),
    ],
)
def test_any_other_matcher_is_a_regular_expression_found_anywhere_with_its_case(
    matcher: str,
    name: str,
    expected: bool,  # noqa: FBT001  a table
):
    assert is_meant("tool.before", matcher, tool(name)) is expected


@pytest.mark.parametrize("matcher", ["Edit(", "^(?!Read).*", r"(a)\1"])
def test_an_expression_that_is_not_matched_here_is_reported(matcher: str):
    with pytest.raises(ValueError, match=r"is not a regular expression of RE2.s.*never matches"):
        is_meant("tool.before", matcher, tool("Edit("))


@pytest.mark.parametrize("event", ["prompt.before", "stop.before"])
def test_events_without_a_subject_pay_no_heed_to_a_matcher(event: str):
    assert is_meant(event, "nonsense", {"prompt": "x"})
    assert is_meant(event, "((((", {"prompt": "x"})


def test_an_event_of_ours_that_has_no_subject_pays_no_heed_to_a_matcher_either():
    assert is_meant("chat.session.created", "nonsense", {"title": "x"})


@pytest.mark.parametrize(
    ("event", "matcher", "data", "expected"),
    [
        ("session.start", "startup", {"source": "startup"}, True),
        ("session.start", "startup|resume", {"source": "resume"}, True),
        ("session.start", "resume", {"source": "startup"}, False),
        ("session.end", "clear", {"reason": "clear"}, True),
        ("session.end", "clear", {"reason": "logout"}, False),
        ("compact.before", "manual", {"trigger": "manual"}, True),
        ("compact.before", "manual", {}, False),
        ("tool.after", "Write", {"tool_name": "Write"}, True),
        ("module.load.before", "daily|chat", {"name": "chat"}, True),
        ("module.failed", "daily", {"module": "daily"}, True),
        ("vault.problem", "disk", {"subject": "disk"}, True),
    ],
)
def test_each_event_is_matched_by_its_own_subject(
    event: str,
    matcher: str,
    data: dict[str, object],
    expected: bool,  # noqa: FBT001  a table
):
    assert is_meant(event, matcher, data) is expected


@pytest.mark.parametrize(
    ("matcher", "path", "expected"),
    [
        ("AGENTS.md", "Projects/a/AGENTS.md", True),  # as FileChanged: the name alone
        ("AGENTS.md", "AGENTS.md", True),
        ("AGENTS.md|CLAUDE.md", "a/CLAUDE.md", True),
        ("AGENTS.md", "a/MYAGENTS.md", False),
        ("AGENTS.md", "a/AGENTSxmd", False),
        ("*.md", "a/b/c.md", True),
        ("*.md", "a/b/c.txt", False),
        ("Daily/**", "Daily/2025/a.md", True),
        ("Daily/**", "daily/2025/a.md", False),
        ("Daily/**", "Old/Daily/a.md", False),
        ("Daily/", "Daily/2025/a.md", True),
        ("Daily/*", "Daily/2025/a.md", False),
        ("**/Daily/**", "Old/Daily/a.md", True),
        ("./Daily/*", "Daily/a.md", True),
        ("Daily Notes/**|Work/*.md", "Daily Notes/May, 1.md", True),
        ("Daily Notes/**, Work/*.md", "Work/a.md", True),
        ("Work/?.md", "Work/a.md", True),
        ("^Daily/", "Daily/a.md", True),
        (".*\\.txt$", "a/b.txt", True),
        ("(Daily|Work)/", "Old/Work/b.md", True),
        ("Daily", "Daily/a.md", False),
    ],
)
@pytest.mark.parametrize("event", ["file.modified", "write.before", "daily.entry.created"])
def test_where_a_file_is_the_subject_a_matcher_is_a_glob_of_the_vault(
    event: str,
    matcher: str,
    path: str,
    expected: bool,  # noqa: FBT001  a table
):
    assert is_meant(event, matcher, {"path": path}) is expected


def test_a_watcher_is_matched_by_its_place():
    assert is_meant("bubble.before", "Projects/**", {"watcher": "Projects/a/AGENTS.md"})
    assert not is_meant("task.finished", "Projects/**", {"watcher": "AGENTS.md"})


@pytest.mark.parametrize("matcher", ["../**", "a//b", "/Daily/**", "a/**b"])
def test_a_glob_that_can_match_nothing_in_a_vault_is_reported(matcher: str):
    with pytest.raises(ValueError, match="pattern of paths"):
        is_meant("file.modified", matcher, {"path": "x"})
