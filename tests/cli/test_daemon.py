"""start, stop, restart, logs: a daemon in the background."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine


@pytest.fixture
def busy():
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


STAND_IN = """
import os, signal, sys, threading, time
from parachuted.processes.presence import Presence
ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
presence = Presence(sys.argv[1], sys.argv[2])
presence.announce({"pid": os.getpid(), "host": "127.0.0.1", "port": 1, "vault": sys.argv[2], "flags": {"vault": sys.argv[2], "port": 0}})
print("there", flush=True)
ending.wait()
os.unlink(sys.argv[1] + "/run/daemon.json")
time.sleep(1)  # the lock outlives the record
"""  # noqa: E501


@contextmanager
def stand_in(command_line: CommandLine):
    """A daemon that ends slowly: its record goes a second before its lock."""
    words = [sys.executable, "-c", STAND_IN, str(command_line.home), str(command_line.vault)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=command_line.env()) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def start(command_line: CommandLine) -> int:
    command_line.start()
    return command_line.started()[0]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_daemon_is_started_listed_restarted_and_stopped(command_line: CommandLine):
    """With an interpreter of its own, as a person's."""
    command_line = replace(command_line, forks_daemon=False)
    new = command_line.vault / "new"
    new.mkdir()
    said = command_line.does("start", "--vault", str(new), "--port", "0")
    (first,) = command_line.started()

    assert f"Started: pid {first}, http://127.0.0.1:" in said
    assert "Agent: offline" in said
    assert "`parachute open` opens it in a browser" in said
    assert command_line.json("status")["pid"] == first
    assert [
        file.stat().st_mode & 0o077
        for file in (command_line.home, command_line.home / "logs", command_line.home / "run")
    ] == [0, 0, 0]

    assert command_line.does("vault").startswith(
        f"{new}\nThe daemon that is running was started on it; the settings say "
    )
    assert f"watching {new}." in command_line.does("restart")
    (second,) = command_line.started()
    command_line.until(lambda: is_gone(first))
    assert second != first

    assert command_line.does("stop") == "Stopped.\n"
    command_line.until(lambda: is_gone(second), 30)
    assert not (command_line.home / "run/daemon.json").exists()
    assert "nothing to stop" in command_line.fails(3, "stop")


def test_a_second_daemon_is_refused_and_the_first_goes_on(command_line: CommandLine, tmp_path):
    pid, other = start(command_line), {"PARACHUTE_HOME": str(tmp_path / "other home")}
    vault = ["--vault", str(command_line.vault), "--port", "0"]
    another = ["--vault", str(tmp_path / "another"), "--port", "0"]
    assert "already running" in command_line.fails(1, "start", *another)
    assert "already running" in command_line.fails(1, "start", "--foreground", *vault)
    assert "one writer" in command_line.fails(1, "start", *vault, **other)
    assert "one writer" in command_line.fails(1, "start", "--foreground", *vault, **other)

    assert not (tmp_path / "another").exists()
    assert command_line.json("status")["pid"] == pid


def test_what_keeps_a_daemon_from_starting_is_said_and_nothing_runs(
    command_line: CommandLine, busy, tmp_path
):
    home, words = command_line.home, ["start", "--vault", str(command_line.vault), "--port"]
    said = command_line.fails(1, *words, str(busy))
    assert said.startswith(f"parachute: the daemon did not start: port {busy} cannot be used (")
    assert said.endswith("choose another with --port\n")

    (home / "config.yaml").write_text("port: many\nvaults: x\nbudget:\n  runs_per_hour: -1\n")
    said = command_line.fails(2, "start", "--port", "99999", PARACHUTE_AGENT_TIMEOUT_S="soon")
    for mistake in ("line 1: port", "line 2: ", "line 4: budget.runs_per_hour", "99999"):
        assert mistake in said
    assert "PARACHUTE_AGENT_TIMEOUT_S" in said
    (home / "config.yaml").unlink()

    (tmp_path / "file").write_text("")
    no_folder = ["start", "--vault", str(tmp_path / "file"), "--port", "0"]
    assert "there is no vault at" in command_line.fails(1, *no_folder)
    assert command_line.started() == []

    pid = start(command_line)
    command_line.does("stop")
    command_line.until(lambda: is_gone(pid))
    (state,) = (home / "state").iterdir()
    (state / "clock.json").unlink(missing_ok=True)
    (state / "clock.json").mkdir()
    said = command_line.fails(1, *words, "0")
    assert "the daemon did not start: " in said
    assert "cannot be written" in said, "though it watched already"
    assert command_line.started() == []


@pytest.mark.parametrize("how", [(), ("--foreground",), ("--foreground", "--make-default")])
def test_a_vault_that_is_away_is_not_made_and_what_to_do_is_said(
    command_line: CommandLine, tmp_path, how
):
    away = tmp_path / "not mounted" / "Notes"
    for words, env in ((("--vault", str(away)), {}), ((), {"PARACHUTE_VAULT": str(away)})):
        said = command_line.fails(1, "start", *how, "--port", "0", *words, **env)
        assert f"`parachute init '{away}'` makes a new one" in said
        assert "mount it" in said
    no_vault = command_line.fails(1, "service", "install", PARACHUTE_VAULT=str(away))
    assert "there is no vault" in no_vault
    assert not away.parent.exists()


def test_make_run_makes_the_default_vault_once_and_not_again(command_line: CommandLine, tmp_path):
    makefile = (Path(__file__).resolve().parents[2] / "Makefile").read_text()
    assert "set -- start --foreground --make-default;" in makefile
    words, default = ["start", "--foreground", "--make-default", "--port", "0"], "Parachute"
    process = command_line.begin(*words)
    command_line.until(command_line.started)
    process.send_signal(signal.SIGTERM)
    assert f"Made {tmp_path / default}" in process.communicate(timeout=20)[0]
    assert (tmp_path / default / "AGENTS.md").is_file()

    (tmp_path / default).rename(tmp_path / "moved")
    assert "there is no vault" in command_line.fails(1, *words)
    assert not (tmp_path / default).exists()


def test_a_start_on_a_copy_asks_which_vault_it_is_and_takes_the_answer(
    command_line: CommandLine, tmp_path
):
    start(command_line)
    command_line.does("stop")
    copy = tmp_path / "a copy"
    shutil.copytree(command_line.vault, copy)
    for how in ((), ("--foreground",)):
        said = command_line.fails(1, "start", *how, "--vault", str(copy), "--port", "0")
        assert f"`parachute vault separate '{copy}'`" in said
        assert f"`parachute vault adopt '{copy}'`" in said
    assert "nothing is unclear" in command_line.fails(1, "vault", "adopt", str(command_line.vault))

    command_line.does("vault", "separate", str(copy))
    command_line.does("start", "--vault", str(copy), "--port", "0")
    command_line.does("stop")
    start(command_line)
    assert len(list((command_line.home / "state").iterdir())) == 2


def test_a_killed_daemon_leaves_no_lock_and_no_record_that_counts(command_line: CommandLine):
    pid = start(command_line)
    os.kill(pid, signal.SIGKILL)
    again = ("start", "--vault", str(command_line.vault), "--port", "0")
    command_line.until(
        lambda: command_line(*again).returncode == 0
    )  # the kernel frees the lock a little later

    assert command_line.started()[0] != pid
    assert command_line.json("status")["status"] == "ok"


def test_the_log_has_json_lines_and_is_followed_until_interrupted(
    command_line: CommandLine,
):
    assert "no log yet" in command_line.fails(1, "logs")
    start(command_line)
    logs = command_line.home / "logs"
    for line in command_line.does("logs", "-n", "5", "--json").splitlines():
        assert isinstance(json.loads(line), dict)
    lines = command_line.does("logs", "-n", "5").splitlines()
    assert any(line[:4].isdigit() and " info " in line for line in lines)
    assert (logs / "start.log").read_bytes() == b""
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700

    with (logs / "daemon.log").open("a") as log:
        log.write('{"at": "2026-01-31 12:00:00,000", "level": "info", "message": "first"}\n')
    following = command_line.begin("logs", "-f", "-n", "1")
    assert following.stdout.readline() == "2026-01-31 12:00:00 info    first\n"
    with (logs / "daemon.log").open("a") as log:
        log.write("second\n")
    assert following.stdout.readline() == "second\n"
    following.send_signal(signal.SIGTERM)
    following.communicate(timeout=30)


def test_restart_waits_until_the_earlier_daemon_has_let_its_home_go(command_line: CommandLine):
    with stand_in(command_line) as earlier:
        said = command_line.does("restart")

    assert f"watching {command_line.vault}." in said
    assert command_line.started() not in ([], [earlier.pid])


def test_a_restart_that_cannot_work_leaves_the_daemon_running(command_line: CommandLine, busy):
    pid = start(command_line)
    away = command_line.vault.with_name("away")

    command_line.does("config", "set", "vault", str(command_line.vault))
    refusals = [
        command_line.fails(1, "restart", "--vault", str(away)),
        command_line.fails(1, "restart", "--port", str(busy)),
    ]

    assert refusals[0].startswith(f"parachute: there is no vault at {away}. ")
    assert "The daemon that is running goes on" in refusals[0]
    assert f"port {busy} cannot be used" in refusals[1]
    assert command_line.json("status")["pid"] == pid


def test_a_daemon_in_a_terminal_restarts_in_its_terminal(command_line: CommandLine):
    process = command_line.begin(
        "start", "--foreground", "--vault", str(command_line.vault), "--port", "0"
    )
    try:
        command_line.until(command_line.started)
        began = command_line.json("status")["uptime"]

        assert f"Started: pid {process.pid}, " in command_line.does("restart")
        assert command_line.started() == [process.pid]
        assert command_line.json("status")["uptime"] < began + 5
    finally:
        process.send_signal(signal.SIGINT)
        assert "Restarting." in process.communicate(timeout=20)[0]


def test_a_vault_and_a_home_by_relative_paths_are_those_of_this_folder(
    command_line: CommandLine, tmp_path
):
    (tmp_path / "notes").mkdir()
    for words, env in ((("--vault", "notes"), {}), ((), {"PARACHUTE_VAULT": "notes"})):
        said = command_line.does(
            "start", *words, "--port", "0", cwd=tmp_path, PARACHUTE_HOME="home", **env
        )
        assert f"watching {tmp_path / 'notes'}." in said
        command_line.does("stop")
