"""Hooks are tried on a sample: what they would decide is told, and nothing else happens."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.errors import NotFoundError
from parachuted.hooks.trials import HookTrialError, try_hooks
from tests.hooks.serving import drop, running_hooks

AT = datetime(2026, 1, 6, 12, tzinfo=UTC)
OBJECTS = "#!/bin/sh\necho 'not there' >&2\nexit 2\n"
AGREES = "#!/bin/sh\nexit 0\n"


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
            hooks, "PreToolUse", vault=vault, at=AT, given={"tool_name": "Bash"}
        )

    assert (trial.event, trial.allowed) == ("tool.before", True)
    assert '"tool_name": "Bash"' in trial.runs[0].stdout


async def test_one_whose_matcher_does_not_mean_it_is_passed_over_unless_it_is_named(home, vault):
    (home / "hooks.yaml").write_text(
        'write.before:\n  - {type: command, command: "exit 2", matcher: "Daily/**"}\n'
    )
    (home / "hooks.yaml").chmod(0o600)
    async with running_hooks(home, vault) as hooks:
        (name,) = [listed.hook.id for listed in hooks.listed]
        unmeant = await try_hooks(hooks, "write.before", vault=vault, at=AT)
        meant = await try_hooks(
            hooks, "write.before", vault=vault, at=AT, given={"path": "Daily/x.md"}
        )
        named = await try_hooks(hooks, "write.before", vault=vault, at=AT, only=name)

    assert (unmeant.runs, unmeant.passed_over, unmeant.allowed) == ((), (name,), True)
    assert (meant.allowed, meant.passed_over, named.allowed, named.passed_over) == (
        False,
        (),
        False,
        (),
    )


@pytest.mark.parametrize(
    "says",
    [
        '"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}',
        '"continue": false',
    ],
)
async def test_what_no_one_can_be_asked_and_a_stop_are_reported_as_the_refusals_that_they_are(
    home, vault, says
):
    drop(home, "on-PreToolUse.sh", f"#!/bin/sh\necho '{{{says}}}'\n")
    async with running_hooks(home, vault) as hooks:
        trial = await try_hooks(hooks, "PreToolUse", vault=vault, at=AT)

    assert not trial.allowed


async def test_an_event_or_a_hook_that_is_not_there_is_reported(home, vault):
    drop(home, "on-session-end.sh", AGREES)
    async with running_hooks(home, vault) as hooks:
        with pytest.raises(HookTrialError, match="there is no event"):
            await try_hooks(hooks, "nonsense", vault=vault, at=AT)
        with pytest.raises(HookTrialError, match="has no counterpart"):
            await try_hooks(hooks, "TeammateIdle", vault=vault, at=AT)
        with pytest.raises(HookTrialError, match="cwd should be a text"):
            await try_hooks(hooks, "session.end", vault=vault, at=AT, given={"data": {}, "cwd": 5})
        with pytest.raises(NotFoundError, match=r"for write\.before"):
            await try_hooks(hooks, "write.before", vault=vault, at=AT, only="on-session-end.sh")
