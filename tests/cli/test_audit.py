"""`parachute audit`, typed: with a daemon and without one."""

from __future__ import annotations

import json
import os
import signal

from tests.cli.command_line import TIMEOUT_S, CommandLine


def test_what_was_done_is_listed_drawn_and_held_while_the_daemon_runs(running: CommandLine):
    running.json("watches")
    running.until(lambda: "GET /api/watches" in running.does("audit"))

    listed = running.does("audit")
    assert "a person" in listed
    assert "curator.update_context AGENTS.md" in listed
    assert "vault.modified Projects/garden/AGENTS.md" in listed
    assert "│ agent curator │" in running.does("audit", "graph")
    assert running.json("audit", "verify")["holds"]


def test_it_can_be_narrowed(running: CommandLine):
    writes = running.json("audit", "--type", "write", "--source", "agent", "-n", "2")["events"]
    assert [event["target_module"] for event in writes] == ["vault", "vault"]
    assert writes[0]["seq"] < writes[1]["seq"]
    assert (
        running.json("audit", "--path", "Projects/garden", "--type", "write", "--since", "1d")[
            "count"
        ]
        == 1
    )
    assert running.does("audit", "--module", "nothing") == "Nothing was done.\n"
    assert "is not a time" in running.fails(1, "audit", "--since", "yesterday")


def test_what_comes_is_shown_as_it_comes(running: CommandLine):
    with running.begin("audit", "--follow", "--json", "-n", "1") as following:
        assert json.loads(following.stdout.readline())["seq"]
        running.json("tasks")

        seen = json.loads(following.stdout.readline())

        assert (seen["target_endpoint"], seen["source_id"]) == ("GET /api/tasks", "cli")
        following.send_signal(signal.SIGINT)
        assert following.wait(TIMEOUT_S) == 130


def test_a_kill_is_no_harm_and_what_was_done_to_the_files_is_found(
    command_line: CommandLine,
):
    command_line.start()
    for _ in range(3):
        command_line.json("tasks")
    folder = command_line.vault / ".parachute/audit"
    command_line.until(
        lambda: (
            sum(day.read_bytes().count(b"GET /api/tasks") for day in folder.glob("*.jsonl")) == 3
        )
    )
    day = next(folder.glob("*.jsonl"))
    (pid,) = command_line.started()
    os.kill(pid, signal.SIGKILL)
    command_line.until(lambda: not command_line.started())
    command_line.until(
        lambda: command_line("vault", "set", str(command_line.vault)).returncode == 0
    )

    assert command_line.does("audit", "verify").splitlines()[-1].startswith("The audit holds: ")
    lines = day.read_bytes().splitlines(keepends=True)
    day.write_bytes(b"".join([*lines[:1], *lines[2:-1]]))
    done = command_line("audit", "verify")

    assert done.returncode == 1
    assert "seq 2 to 2 are missing" in done.stdout
    assert f"WRONG    the end: seq {len(lines) - 1} is last" in done.stdout


def test_what_stands_in_the_files_moves_no_cursor(command_line: CommandLine):
    (folder := command_line.vault / ".parachute/audit").mkdir(parents=True)
    command_line.does("vault", "set", str(command_line.vault))
    (command_line.home / "machine-name").write_text("laptop")
    event = {
        "seq": 1,
        "timestamp": "2026-11-22T12:00:00.000000Z",
        "event_type": "api_call",
        "source_type": "\x1b[2J",
        "source_id": "\u202e",
        "target_module": "\x07",
        "target_endpoint": "\r\x9b",
        "success": True,
        "prev": "0" * 64,
        "hash": "0" * 64,
    }
    (folder / "2026-11-22.laptop.jsonl").write_text(json.dumps(event, separators=(",", ":")) + "\n")

    for words in (["audit"], ["audit", "graph", "--since", "2026-01-01"]):
        printed = command_line.does(*words)
        assert all(one == "\n" or one.isprintable() for one in printed), printed
        assert "\\x1b" in printed


def test_where_there_is_no_vault_it_says_so(command_line: CommandLine):
    command_line.does("vault", "set", str(command_line.vault))
    command_line.vault.rmdir()

    assert "no vault at" in command_line.fails(1, "audit")
