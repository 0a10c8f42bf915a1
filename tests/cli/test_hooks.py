"""`parachute hooks`: with a daemon and without."""

from __future__ import annotations

import asyncio
import json

import pytest

from parachuted.cli.hooks import recorder_folder
from parachuted.home_files.vault_state import state_folder
from parachuted.processes.presence import Presence
from tests.cli.command_line import CommandLine
from tests.hooks.serving import drop, serving

HELLO = '#!/bin/sh\n# Says hello\nread line\necho "hello $PARACHUTE_EVENT"\n'
OBJECTS = "#!/bin/sh\necho 'not on Sundays' >&2\nexit 2\n"


@pytest.fixture
def alone(command_line: CommandLine):
    """Types commands where no daemon runs."""
    command_line.environ["PARACHUTE_VAULT"] = str(command_line.vault)
    return command_line


def test_the_first_hook_is_dropped_listed_tried_and_looked_at_again(alone):
    assert alone.does("hooks", "list").startswith(
        "No hooks. A script named on-<event>.py or .sh in "
    )
    drop(alone.home, "on-session-start.sh", HELLO)

    assert alone.does("hooks", "list").splitlines()[1].split() == [
        "on-session-start.sh",
        "session.start",
        "no",
        "Says",
        "hello",
    ]
    (alone.home / "hooks.yaml").write_text(
        "hooks:\n  session.end:\n    - command: echo over\n"
        "    - {command: echo bye, description: Says goodbye}\n"
    )
    said = alone.does("hooks", "list")
    assert [("echo" in said, "over" in said), ("Says goodbye" in said, "bye" in said)] == [
        (True, False),  # an argument may be a secret
        (True, True),
    ]
    said = alone.does("hooks", "test", "session.start")
    assert "on-session-start.sh on session.start, run h00000001: done (exit code 0, " in said
    assert '"event": "session.start"' in said
    assert "    hello session.start\n" in said
    assert said.endswith("session.start: it would go on.\n")
    assert "h00000001" in alone.does("hooks", "history")
    assert "hello session.start" in alone.does("hooks", "history", "h00000001")
    assert "run h00000002: done" in alone.does("hooks", "replay", "h00000001")


def test_a_sample_may_be_given_in_a_file_or_on_stdin(alone):
    drop(alone.home, "on-write-before.sh", "#!/bin/sh\ncat\n")
    sample = alone.folder / "sample.json"
    sample.write_text('{"path": "Sunday.md"}')

    (run,) = json.loads(
        alone.does("hooks", "test", "write.before", "--data", str(sample), "--json")
    )["runs"]
    assert json.loads(run["stdin"])["data"]["path"] == "Sunday.md"
    assert "is not JSON" in alone.fails(
        1,
        "hooks",
        "test",
        "write.before",
        "--data",
        str(alone.home / "hooks" / "on-write-before.sh"),
    )
    assert "cannot be read" in alone.fails(
        1, "hooks", "test", "write.before", "--data", "nowhere.json"
    )


def test_a_hook_that_objects_is_not_a_failure_and_one_that_fails_is(alone):
    drop(alone.home, "on-write-before.sh", OBJECTS)
    drop(alone.home, "on-session-end.sh", "#!/bin/sh\nexit 1\n")

    said = alone.does("hooks", "test", "write.before")
    assert "blocked: not on Sundays (exit code 2, " in said
    assert said.endswith("write.before: it would be stopped.\n")
    assert alone("hooks", "test", "session.end").returncode == 1
    assert "there is no event 'nonsense'" in alone.fails(1, "hooks", "test", "nonsense")
    assert (
        alone.does("hooks", "test", "file.modified")
        == "No hook is for file.modified; `parachute hooks list` lists the hooks.\n"
    )


def test_the_list_says_which_hooks_never_run_and_why(alone):
    drop(alone.home, "on-write-before.sh", OBJECTS)
    (alone.home / "hooks.yaml").write_text(
        "hooks: {PreToolUse: [{command: 'true', matcher: TodoWrite}]}"
    )
    (alone.home / "hooks.yaml").chmod(0o600)

    notes = [line for line in alone.does("hooks", "list").splitlines() if line.startswith("note")]
    assert notes == ["note     PreToolUse[0] never runs: its matcher 'TodoWrite' fits no tool here"]


def test_a_changed_script_waits_for_its_approval(alone):
    drop(alone.home, "on-session-start.sh", HELLO)
    alone.does("hooks", "test", "session.start")
    path = drop(alone.home, "on-session-start.sh", OBJECTS)

    assert (
        f"problem  on-session-start.sh does not run: {path} has changed since it was approved"
        in alone.does("hooks", "list")
    )
    assert "not run" in alone("hooks", "test", "session.start").stdout
    assert alone.does("hooks", "approve") == f"approved  {path}\n"
    assert alone.does("hooks", "approve") == "Nothing had changed since it was approved.\n"
    assert "there is no hook 'x'" in alone.fails(1, "hooks", "approve", "x")


def test_the_events_are_documented_with_what_a_hook_reads(alone):
    listed = alone.does("hooks", "docs")
    assert "tool.before" in listed
    assert "PreToolUse" in listed
    one = alone.does("hooks", "docs", "PreToolUse")
    assert one.startswith("tool.before, in Claude Code PreToolUse\n")
    assert "Exit code 2 stops it" in one
    assert '"hook_event_name": "PreToolUse"' in one
    assert (
        json.loads(alone.does("hooks", "docs", "write.before", "--json"))["sample"]["event"]
        == "write.before"
    )
    assert "has no counterpart here" in alone.fails(1, "hooks", "docs", "TeammateIdle")


def test_a_run_that_is_not_there_is_reported(alone):
    assert alone.does("hooks", "history") == "No hook has run yet.\n"
    assert "unknown or deleted run h00000009" in alone.fails(1, "hooks", "history", "h00000009")
    assert "there is no run" in alone.fails(1, "hooks", "replay", "h00000009")
    assert "is not a run" in alone.fails(1, "hooks", "replay", "../x")


def test_runs_are_kept_where_the_daemon_keeps_them(home, vault):
    folder = state_folder(home, vault)
    assert recorder_folder(home, vault) == folder / "hooks"


async def test_a_running_daemon_is_asked(alone):
    drop(alone.home, "on-session-start.sh", HELLO)
    presence = Presence(str(alone.home), str(alone.vault))
    try:
        async with serving(alone.home, alone.vault) as served:
            presence.announce(
                {
                    "pid": 1,
                    "host": "127.0.0.1",
                    "port": int(served.url.rpartition(":")[2]),
                    "vault": str(alone.vault),
                }
            )

            async def does(*words):
                return await asyncio.to_thread(alone.does, "hooks", *words)

            tried = json.loads(await does("test", "session.start", "--json"))
            assert [run["stdout"] for run in tried["runs"]] == ["hello session.start\n"]
            assert served.hooks.listed[0].runs == 1
            assert "1, slowest " in await does("list")
            assert "h00000001" in await does("history")
            assert "hello session.start" in await does("history", "h00000001")
            assert "run h00000002" in await does("replay", "h00000001")
            assert served.hooks.listed[0].runs == 2
            drop(alone.home, "on-session-start.sh", OBJECTS)
            assert (await does("approve")).startswith("approved  ")
    finally:
        presence.release()
