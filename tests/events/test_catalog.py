"""The catalogue: the one place that names the events."""

from __future__ import annotations

import re

from parachuted.events import CATALOG, FACTS


def test_names_are_dotted_and_each_is_there_once():
    assert all(re.fullmatch(r"[a-z]+(\.[a-z]+)+", name) for name in CATALOG)
    assert [kind.name for kind in CATALOG.values()] == list(CATALOG)


def test_each_event_tells_something_in_a_sentence_and_has_fields():
    assert all(kind.tells.endswith(".") and kind.fields for kind in CATALOG.values())


def test_the_events_of_the_loop_are_all_there():
    changes = {f"file.{kind}" for kind in ("created", "modified", "moved", "deleted")}
    others = {
        "watch.declared",
        "watch.removed",
        "task.queued",
        "task.started",
        "task.finished",
        "run.finished",
        "run.undone",
    }

    assert set(CATALOG) >= changes | others | {"vault.problem", "budget.exceeded"}


def test_what_may_be_refused_shows_in_the_name_and_is_not_a_fact():
    assert {name for name, kind in CATALOG.items() if kind.blocks} == {
        name for name in CATALOG if name.endswith(".before")
    }
    assert set(CATALOG) - set(FACTS) == {name for name in CATALOG if name.endswith(".before")}


def test_the_events_that_claude_code_has_too_are_known_by_its_names():
    claude = {kind.claude: name for name, kind in CATALOG.items() if kind.claude}

    assert claude == {
        "SessionStart": "session.start",
        "UserPromptSubmit": "prompt.before",
        "PreToolUse": "tool.before",
        "PostToolUse": "tool.after",
        "Stop": "stop.before",
    }
