"""Names: one event, three spellings, and nothing that is not understood goes by in silence."""

from __future__ import annotations

import pytest

from parachuted.errors import NotFoundError
from parachuted.hooks.hook import (
    CLAUDE_NAMES,
    parse_event,
    parse_script_name,
)


@pytest.mark.parametrize(
    ("claude", "ours"),
    [
        ("SessionStart", "session.start"),
        ("UserPromptSubmit", "prompt.before"),
        ("PreToolUse", "tool.before"),
        ("PostToolUse", "tool.after"),
        ("Stop", "stop.before"),
    ],
)
def test_an_event_with_the_same_meaning_has_both_names(claude: str, ours: str):
    assert parse_event(claude) == ours == parse_event(ours)
    assert CLAUDE_NAMES[ours] == claude


@pytest.mark.parametrize(
    "name", ["TeammateIdle", "SessionEnd", "Notification", "PostToolUseFailure", "PreCompact"]
)
def test_an_event_of_claude_code_without_a_counterpart_is_reported_by_name(name: str):
    with pytest.raises(NotFoundError, match=f"{name} has no counterpart here"):
        parse_event(name)


@pytest.mark.parametrize(
    "name",
    ["file.changed", "write.afterwards.before", "tool.befor", "nonsense", "Pretooluse", "", "a..b"],
)
def test_a_name_that_can_never_happen_is_refused(name: str):
    with pytest.raises(NotFoundError):
        parse_event(name)


@pytest.mark.parametrize(
    "name", ["telegram-bot.message", "weather.rain.expected", "daily.something.else"]
)
def test_a_dotted_name_may_be_a_modules_own(name: str):
    assert parse_event(name) == name


@pytest.mark.parametrize(
    ("script", "event"),
    [
        ("on-session-start.py", "session.start"),
        ("on-session-end.sh", "session.end"),
        ("on-daily-entry.py", "daily.entry.created"),
        ("on-context-limit.py", "context.limit.approaching"),
        ("on-project-mention.py", "brain.mention.detected"),
        ("on-daily-entry-created.sh", "daily.entry.created"),
        ("on-daily.entry.created.sh", "daily.entry.created"),
        ("on-daily.entry.created", "daily.entry.created"),
        ("on-file-modified", "file.modified"),
        ("on-write.before.py", "write.before"),
        ("on-module-load-before.py", "module.load.before"),
        ("on-PreToolUse.sh", "tool.before"),
        ("on-UserPromptSubmit", "prompt.before"),
        ("on-weather-rain.sh", "weather.rain"),
        ("on-telegram-bot.message.sh", "telegram-bot.message"),
    ],
)
def test_a_dropped_script_says_by_its_name_what_it_is_for(script: str, event: str):
    assert parse_script_name(script) == event


@pytest.mark.parametrize(
    "name", ["on-nonsense.py", "on-TeammateIdle.sh", "on-file-changed.py", "on-.py"]
)
def test_a_script_for_no_event_is_refused_by_name(name: str):
    with pytest.raises(NotFoundError):
        parse_script_name(name)
