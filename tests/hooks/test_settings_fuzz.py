"""Settings: whatever stands in the file, and whatever a hook prints, nothing but the mistakes that
are named comes of it.
"""

from __future__ import annotations

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from parachuted.events import CATALOG
from parachuted.home_files import YamlRejectedError
from parachuted.hooks import Hook, ProcessResult, combine, read_answer
from parachuted.hooks.matching import compile_matcher
from parachuted.hooks.rules import compile_rule
from parachuted.hooks.settings import read_settings

WORDS = st.sampled_from(
    [
        "hooks",
        "Stop",
        "PreToolUse",
        "file.modified",
        "type",
        "command",
        "args",
        "matcher",
        "if",
        "timeout",
        "once",
        "x",
        "",
        "30",
        "true",
        "async",
        "onFailure",
        "block",
        "Bash(git *)",
        "a(",
        "Daily/**",
        "http",
        "hookSpecificOutput",
        "hookEventName",
        "permissionDecision",
        "deny",
        "continue",
        "decision",
        "updatedInput",
        "additionalContext",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | WORDS
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)
EVENTS = st.sampled_from(sorted(CATALOG))


@given(VALUES)
def test_any_json_is_hooks_and_problems_or_refused_in_words(value: object):
    text = json.dumps({"hooks": value})
    with contextlib.suppress(YamlRejectedError):
        found = read_settings(text, places={"HOME": "/h"})
        assert all(isinstance(hook, Hook) for hook in found.hooks)
        assert all(problem.startswith("line ") for problem in found.problems)
        assert len({hook.id for hook in found.hooks}) == len(found.hooks)


@given(st.text(max_size=200))
def test_any_text_is_hooks_and_problems_or_refused_in_words(text: str):
    with contextlib.suppress(YamlRejectedError):
        read_settings(text, places={})


@given(st.text(max_size=40), EVENTS)
def test_any_matcher_and_any_condition_is_one_or_a_value_error(text: str, event: str):
    with contextlib.suppress(ValueError):
        compile_matcher(text, event)("Daily/a.md")
    with contextlib.suppress(ValueError):
        compile_rule(text, event)


@given(
    st.binary(max_size=100) | VALUES.map(lambda value: json.dumps(value).encode()),
    EVENTS,
    st.sampled_from([0, 1, 2, -9, None]),
)
def test_whatever_a_hook_prints_is_an_answer_and_only_a_guard_can_stop_anything(
    stdout: bytes, event: str, code: int | None
):
    hook = Hook(id="h", event=event, command="x")
    decision = combine(
        event,
        [
            read_answer(
                hook, ProcessResult(exit_code=code, stdout=stdout, stderr=stdout, took_ms=1.0)
            )
        ],
    )

    assert decision.allowed or event.endswith(".before")
    assert decision.allowed or decision.reason
