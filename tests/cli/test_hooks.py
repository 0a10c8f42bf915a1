"""`parachute hooks`, answered by a daemon."""

from __future__ import annotations

import asyncio

import pytest

from parachuted.processes.presence import Presence
from tests.cli.command_line import CommandLine
from tests.hooks.serving import drop, put_settings, serving

HELLO = '#!/bin/sh\n# Says hello\nread line\necho "hello $PARACHUTE_EVENT"\n'
OBJECTS = "#!/bin/sh\necho 'not on Sundays' >&2\nexit 2\n"


@pytest.fixture
async def hooks(command_line: CommandLine):
    """Types `parachute hooks ...` beside a daemon; its code, and what it says."""
    presence = Presence(str(command_line.home), str(command_line.vault))
    async with serving(command_line.home, command_line.vault) as served:
        port = int(served.url.rpartition(":")[2])
        record = {"pid": 1, "host": "127.0.0.1", "port": port, "vault": str(command_line.vault)}
        presence.announce(record)

        async def run(*words: str) -> tuple[int, str]:
            done = await asyncio.to_thread(command_line, "hooks", *words)
            assert "Traceback" not in done.stderr, done.stderr
            return done.returncode, done.stdout + done.stderr

        yield run
    presence.release()


def test_without_a_daemon_only_the_events_are_shown(command_line: CommandLine):
    command_line.environ["PARACHUTE_VAULT"] = str(command_line.vault)
    for words in (["list"], ["test", "session.end"], ["history"], ["replay", "h1"], ["approve"]):
        assert "No daemon is running; start one" in command_line.fails(3, "hooks", *words)
    listed = command_line.does("hooks", "docs")
    assert "tool.before" in listed
    assert "PreToolUse" in listed
    event = command_line.does("hooks", "docs", "PreToolUse")
    assert event.startswith("tool.before, in Claude Code PreToolUse\n")
    assert "Exit code 2 stops it" in event
    assert '"hook_event_name": "PreToolUse"' in event
    assert command_line.json("hooks", "docs", "write.before")["sample"]["event"] == "write.before"
    assert "has no counterpart here" in command_line.fails(1, "hooks", "docs", "TeammateIdle")


async def test_a_hook_is_dropped_listed_tried_looked_at_and_run_again(hooks, home):
    assert (await hooks("list"))[1].startswith("No hooks. A script named on-<event>.py or .sh in ")
    assert await hooks("history") == (0, "No hook has run yet.\n")
    drop(home, "on-session-start.sh", HELLO)
    bye = "{command: echo bye, description: Says goodbye}"
    put_settings(home, f"hooks:\n  session.end:\n    - command: echo over\n    - {bye}\n")
    said = (await hooks("test", "session.start"))[1]
    assert "on-session-start.sh on session.start, run h00000001: done (exit code 0, " in said
    assert '"event": "session.start"' in said
    assert "    hello session.start\n" in said
    assert said.endswith("session.start: it would go on.\n")

    said = (await hooks("list"))[1]
    assert "1, slowest " in said
    assert [("echo" in said, "over" in said), ("Says goodbye" in said, "bye" in said)] == [
        (True, False),  # an argument may be a secret
        (True, True),
    ]
    assert "h00000001" in (await hooks("history"))[1]
    assert "hello session.start" in (await hooks("history", "h00000001"))[1]
    assert "run h00000002: done" in (await hooks("replay", "h00000001"))[1]
    for words in (["history", "h00000009"], ["replay", "h00000009"], ["history", "../x"]):
        code, said = await hooks(*words)
        assert (code, said.startswith("parachute: ")) == (1, True), said


async def test_a_hook_that_objects_is_not_a_failure_and_one_that_fails_is(hooks, home, tmp_path):
    drop(home, "on-write-before.sh", OBJECTS)
    drop(home, "on-session-end.sh", "#!/bin/sh\nexit 1\n")
    sample = tmp_path / "sample.json"
    sample.write_text('{"path": "Sunday.md"}')

    code, said = await hooks("test", "write.before", "--data", str(sample))
    assert (code, '"path": "Sunday.md"' in said) == (0, True), said
    assert "blocked: not on Sundays (exit code 2, " in said
    assert said.endswith("write.before: it would be stopped.\n")
    assert (await hooks("test", "session.end"))[0] == 1
    assert "No hook is for file.modified" in (await hooks("test", "file.modified"))[1]
    for words, why in (
        (["nonsense"], "there is no event 'nonsense'"),
        (["write.before", "--data", str(home / "hooks/on-write-before.sh")], "is not JSON"),
        (["write.before", "--data", "nowhere.json"], "cannot be read"),
    ):
        code, said = await hooks("test", *words)
        assert (code, why in said) == (1, True), said


async def test_a_changed_script_waits_for_its_approval(hooks, home):
    drop(home, "on-session-start.sh", HELLO)
    await hooks("test", "session.start")
    path = drop(home, "on-session-start.sh", OBJECTS)

    assert "not run" in (await hooks("test", "session.start"))[1]
    problem = f"on-session-start.sh does not run: {path} has changed since it was approved"
    assert problem in (await hooks("list"))[1]
    assert (await hooks("approve"))[1] == f"approved  {path}\n"
    assert (await hooks("approve"))[1] == "Nothing had changed since it was approved.\n"
    assert "there is no hook 'x'" in (await hooks("approve", "x"))[1]
