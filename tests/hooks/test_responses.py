"""What is shown of hooks has every field, and nothing of the machine to those who may only read."""

from __future__ import annotations

from datetime import UTC, datetime

from parachuted.events.catalog import CATALOG
from parachuted.hooks import Hook, HookError, HookRunRecord, HookStatus
from parachuted.hooks.hook import BLOCKING, CLAUDE_NAMES
from parachuted.hooks.responses import show_error, show_events, show_hook, show_run, show_whole_run

AT = datetime(2026, 1, 6, 12, tzinfo=UTC)
RECORD = HookRunRecord(
    id="h00000001",
    hook="a",
    event="file.modified",
    at=AT,
    decision="done",
    exit_code=0,
    timed_out=False,
    problem=None,
    took_ms=1.5,
    stdin="in",
    stdout="out",
    stderr="err",
    is_stdout_cut=True,
)


def listed(**more):
    hook = Hook(
        id="tool.before[0]",
        event="tool.before",
        command="curl -H 'X-Key: secret' http://localhost",
        matcher="Bash",
    )
    return HookStatus(hook=hook, claude="PreToolUse", blocking=True, **more)


def test_a_hook_is_shown_whole_to_those_who_may_administer():
    shown = show_hook(listed(problem="/home/me/x has changed"), is_whole=True)

    assert (shown["name"], shown["events"], shown["blocking"]) == (
        "tool.before[0]",
        ["tool.before"],
        True,
    )
    assert "secret" in shown["command"]
    assert shown["problem"] == "/home/me/x has changed"


def test_others_see_neither_what_is_run_nor_where_it_lies():
    shown = show_hook(listed(problem="/home/me/x has changed"), is_whole=False)

    assert shown["command"] is None
    assert "/home" not in str(shown)
    assert shown["problem"]
    assert show_hook(listed(), is_whole=False)["problem"] is None


def test_an_error_has_all_the_names_that_apps_read():
    shown = show_error(HookError(hook="a", message="b", timestamp=AT))

    assert shown == {
        "hook": "a",
        "hook_name": "a",
        "message": "b",
        "error": "b",
        "timestamp": "2026-01-06T12:00:00Z",
    }


def test_a_listed_run_has_no_texts_and_a_whole_one_says_what_was_cut():
    assert {"stdin", "stdout", "stderr"}.isdisjoint(show_run(RECORD))
    assert show_whole_run(RECORD) == {
        **show_run(RECORD),
        "stdin": "in",
        "stdout": "out",
        "stderr": "err",
        "cut": ["stdout"],
    }


def test_every_event_is_shown_with_claude_codes_name_and_whether_it_may_be_stopped():
    shown = {one["name"]: one for one in show_events()}

    assert shown.keys() >= CATALOG.keys()
    assert {name for name, one in shown.items() if one["may_block"]} == BLOCKING
    assert {name: one["claude"] for name, one in shown.items() if one["claude"]} == dict(
        CLAUDE_NAMES
    )
    assert all(one["tells"] for one in shown.values())
