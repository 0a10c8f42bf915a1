"""Trials: hooks run on a sample of an event, which has all its fields."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from parachuted.errors import NotFoundError
from parachuted.events.catalog import CATALOG
from parachuted.hooks.hook_event import document
from parachuted.hooks.trials import make_sample, try_hooks
from tests.hooks.serving import drop, put_settings, running_hooks

AT = datetime(2026, 1, 6, 12, tzinfo=UTC)
OBJECTS = "#!/bin/sh\necho 'not there' >&2\nexit 2\n"


async def test_all_hooks_of_the_event_run_and_one_objection_is_enough(home, vault):
    drop(home, "on-write-before.sh", OBJECTS)
    drop(home, "on-write.before.py", "import sys; sys.exit(0)\n")
    async with running_hooks(home, vault) as hooks:
        trial = await try_hooks(hooks, "write.before", vault=vault, at=AT)

    assert not trial.allowed
    assert sorted(run.decision for run in trial.runs) == ["allowed", "blocked: not there"]


async def test_claude_codes_name_will_do(home, vault):
    drop(home, "on-PreToolUse.sh", "#!/bin/sh\ncat\n")
    async with running_hooks(home, vault) as hooks:
        trial = await try_hooks(
            hooks, "PreToolUse", vault=vault, at=AT, values={"tool_name": "Bash"}
        )

    assert (trial.event, trial.allowed) == ("tool.before", True)
    assert '"tool_name": "Bash"' in trial.runs[0].stdout


async def test_a_hook_whose_matcher_does_not_match_is_passed_over_unless_named(home, vault):
    hook = '{type: command, command: "exit 2", matcher: "^Daily/"}'
    put_settings(home, f"write.before:\n  - {hook}\n")
    name = "write.before[0]"
    async with running_hooks(home, vault) as hooks:
        unmeant = await try_hooks(hooks, "write.before", vault=vault, at=AT)
        meant = await try_hooks(
            hooks, "write.before", vault=vault, at=AT, values={"path": "Daily/x.md"}
        )
        named = await try_hooks(hooks, "write.before", vault=vault, at=AT, only=name)

    assert (unmeant.runs, unmeant.passed_over, unmeant.allowed) == ([], [name], True)
    for trial in (meant, named):
        assert (trial.allowed, trial.passed_over) == (False, [])


async def test_an_event_or_a_hook_that_is_not_there_is_reported(home, vault):
    async with running_hooks(home, vault) as hooks:
        for event, says in (("nonsense", "there is no event"), ("TeammateIdle", "no counterpart")):
            with pytest.raises(NotFoundError, match=says):
                await try_hooks(hooks, event, vault=vault, at=AT)
        with pytest.raises(NotFoundError, match=r"for write\.before"):
            await try_hooks(hooks, "write.before", vault=vault, at=AT, only="on-session-end.sh")


@pytest.mark.parametrize("event", sorted(CATALOG))
def test_every_event_has_a_sample_that_is_json(event, tmp_path):
    sample = document(make_sample(event, vault=tmp_path, at=AT))

    assert json.loads(json.dumps(sample, allow_nan=False)) == sample
    assert sample["event"] == event
    assert "a digest" not in sample["data"].values()
    assert sample["data"].get("by", "person") == "person"
    assert sample["data"].get("operation", "ReplaceSection") == "ReplaceSection"
    assert sample["data"].keys() >= set(CATALOG[event].fields)


@pytest.mark.parametrize("values", [{"path": "x.md"}, {"event": "y", "data": {"path": "x.md"}}])
def test_some_of_the_data_or_all_that_a_hook_reads_may_be_given(values, tmp_path):
    sample = make_sample("write.before", vault=tmp_path, at=AT, values=values)

    assert (sample.data["path"], sample.subject) == ("x.md", "x.md")
    assert "operation" in sample.data


def test_an_event_of_a_module_has_the_data_that_is_given(tmp_path):
    values = {"what": 1}

    assert make_sample("weather.rain", vault=tmp_path, at=AT, values=values).data == values
