"""A hook: what its event is called, and when it is meant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError
from parachuted.hooks import HookEvent
from parachuted.hooks.hook import Hook, compile_matcher, is_meant, parse_event, parse_script_name
from parachuted.hooks.hook_event import CLAUDE_NAMES

AT = datetime(2025, 1, 6, tzinfo=UTC)


def meant(event: str, matcher: str | None, data: Mapping[str, object]) -> bool:
    hook = Hook(id="h", event=event, words=("true",), command="", matches=compile_matcher(matcher))
    return is_meant(hook, HookEvent(event=event, at=AT, data=data, vault=Path("/vault")))


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
    ],
)
def test_a_tool_is_matched_by_names_or_by_an_expression(
    matcher: str | None, matched: str, passed_over: str
):
    for name in matched.split():
        assert meant("tool.before", matcher, {"tool_name": name})
    for name in passed_over.split():
        assert not meant("tool.before", matcher, {"tool_name": name})


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
        assert meant(event, matcher, {"path": path})
    for path in passed_over.split():
        assert not meant(event, matcher, {"path": path})


@pytest.mark.parametrize("matcher", ["Edit(", "^(?!Read).*", r"(a)\1", "Daily/**", "*.md"])
def test_a_matcher_that_never_matches_is_reported(matcher: str):
    with pytest.raises(ValueError, match="not a regular expression"):
        compile_matcher(matcher)


def test_a_tool_is_also_known_by_the_name_that_the_model_sees():
    data = {"tool_name": "search", "full_name": "mcp__brain__search"}

    assert meant("tool.before", "mcp__brain__.*", data)
    assert meant("tool.before", "search", data)
    assert not meant("tool.before", "mcp__vault__.*", data)


def test_an_event_without_a_subject_pays_no_heed_to_a_matcher():
    assert meant("prompt.before", "nonsense", {"prompt": "x"})
    assert meant("chat.session.created", "nonsense", {"title": "x"})


def test_an_event_with_the_same_meaning_has_both_names():
    assert CLAUDE_NAMES == {
        "session.start": "SessionStart",
        "prompt.before": "UserPromptSubmit",
        "tool.before": "PreToolUse",
        "tool.after": "PostToolUse",
        "stop.before": "Stop",
    }
    for ours, claude in CLAUDE_NAMES.items():
        assert parse_event(claude) == ours == parse_event(ours)


@pytest.mark.parametrize(
    "name",
    ["file.changed", "write.afterwards.before", "tool.befor", "nonsense", "Pretooluse", "", "a..b"],
)
def test_a_name_that_can_never_happen_is_refused(name: str):
    with pytest.raises(NotFoundError):
        parse_event(name)
    with pytest.raises(NotFoundError, match="PreCompact has no counterpart here"):
        parse_event("PreCompact")


@pytest.mark.parametrize("name", ["telegram-bot.message", "daily.something.else"])
def test_a_dotted_name_may_be_a_modules_own(name: str):
    assert parse_event(name) == name


@pytest.mark.parametrize(
    ("script", "event"),
    [
        ("on-session-start.py", "session.start"),
        ("on-daily-entry.py", "daily.entry.created"),
        ("on-context-limit.py", "context.limit.approaching"),
        ("on-project-mention.py", "brain.mention.detected"),
        ("on-daily-entry-created.sh", "daily.entry.created"),
        ("on-daily.entry.created", "daily.entry.created"),
        ("on-file-modified", "file.modified"),
        ("on-write.before.py", "write.before"),
        ("on-module-load-before.py", "module.load.before"),
        ("on-PreToolUse.sh", "tool.before"),
        ("on-weather-rain.sh", "weather.rain"),
        ("on-telegram-bot.message.sh", "telegram-bot.message"),
        *dict.fromkeys(
            (
                *("helpers.py", "online.py", "session-start.py", ".on-session-start.py"),
                *("on-session-end.py~", "on-session-end.py.bak", "on-session-start.md"),
            )
        ).items(),
    ],
)
def test_a_dropped_script_says_by_its_name_what_it_is_for(script: str, event: str | None):
    assert parse_script_name(script) == event


@pytest.mark.parametrize("name", ["on-nonsense.py", "on-TeammateIdle.sh", "on-.py"])
def test_a_script_for_no_event_is_refused_by_name(name: str):
    with pytest.raises(NotFoundError):
        parse_script_name(name)
