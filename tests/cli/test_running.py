"""What the running daemon has, and where it differs from this command."""

from __future__ import annotations

import stat
import subprocess

from parachuted.cli import main
from parachuted.cli.setup import find_differences
from parachuted.config import load_settings
from tests.cli.command_line import PARACHUTE, CommandLine


def test_auth_status_tells_of_the_running_daemon_and_not_of_this_terminal(
    command_line: CommandLine,
):
    gateway = {"ANTHROPIC_AUTH_TOKEN": "sk-SECRET", "ANTHROPIC_BASE_URL": "http://localhost:1"}
    command_line.does("start", "--vault", str(command_line.vault), "--port", "0", **gateway)
    terminal = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-OTHER"}
    said = command_line.does("auth", "status", **terminal)

    assert said.startswith(
        f"The daemon (pid {command_line.started()[0]}, watching {command_line.vault}):"
    )
    assert "found    the environment variable ANTHROPIC_AUTH_TOKEN: set" in said
    assert (
        "Agent: claude, with the model server at http://localhost:1, with the key from the "
        "environment variable ANTHROPIC_AUTH_TOKEN." in said
    )
    assert (
        "note  the daemon was started with ANTHROPIC_AUTH_TOKEN, which this terminal does not have"
        in said
    )
    assert (
        "note  this terminal has CLAUDE_CODE_OAUTH_TOKEN, which the daemon was started without; "
        "to use it: `parachute restart`" in said
    )
    assert "SECRET" not in said + command_line.does("auth", "status", "--json")


def test_doctor_tells_where_the_daemon_is_not_what_the_settings_say(
    running: CommandLine, monkeypatch
):
    said_by_doctor = running.does("doctor", PARACHUTE_VAULT="/srv/notes")
    assert (
        f"note     the daemon was started on {running.vault}; the settings say /srv/notes"
        in said_by_doctor
    )
    record = {
        "version": "0.0.9",
        "vault": str(running.vault),
        "started": "2000-01-01T00:00:00+00:00",
        "flags": {},
    }
    (running.home / "config.yaml").touch()
    monkeypatch.setenv("PARACHUTE_HOME", str(running.home))
    said = find_differences(record, load_settings(running.home, {}, {"vault": str(running.vault)}))

    assert [one.split(";")[0] for one in said] == [
        "the daemon is version 0.0.9, this command is 0.1.0",
        "config.yaml was changed after the daemon started",
    ]


def test_status_tells_when_the_daemon_is_of_another_version(
    running: CommandLine, monkeypatch, capsys
):
    monkeypatch.setenv("PARACHUTE_HOME", str(running.home))
    monkeypatch.setattr("parachuted.cli.status.__version__", "0.2.0")

    assert main(["status"]) == 0
    assert (
        "version  this command is 0.2.0; `parachute restart` starts that one"
        in capsys.readouterr().out
    )


def test_a_login_for_a_service_is_kept_in_the_home_and_found_by_the_daemon(
    command_line: CommandLine,
):
    words = [*PARACHUTE, "auth", "set", "ANTHROPIC_API_KEY"]
    subprocess.run(
        words,
        env=command_line.env(),
        input="sk-SECRET\n",
        text=True,
        check=True,
        capture_output=True,
    )
    file = command_line.home / "logins.env"
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (
        "ANTHROPIC_API_KEY=sk-SECRET\n",
        0o600,
    )

    command_line.does("start", "--vault", str(command_line.vault), "--port", "0")
    said = command_line.does("auth", "status")
    assert f"found    the environment variable ANTHROPIC_API_KEY: set in {file}" in said
    assert f"Agent: claude, with the login from ANTHROPIC_API_KEY in {file}." in said
    assert "note" not in said

    file.chmod(0o644)
    assert f"{file} can be read by others, so it is not used; `chmod 600` it" in command_line.does(
        "restart"
    ) + command_line.does("auth", "status")
    subprocess.run(
        words, env=command_line.env(), input="\n", text=True, check=True, capture_output=True
    )
    assert file.read_text() == ""
