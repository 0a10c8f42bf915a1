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
    command_line.start(**gateway)
    said = command_line.does("auth", "status", CLAUDE_CODE_OAUTH_TOKEN="sk-OTHER")  # noqa: S106

    (pid,) = command_line.started()
    assert said.startswith(f"The daemon (pid {pid}, watching {command_line.vault}):")
    other = "CLAUDE_CODE_OAUTH_TOKEN"
    server = "Agent: claude, with the model server at http://localhost:1"
    for part in (
        "found    the environment variable ANTHROPIC_AUTH_TOKEN: set",
        f"{server}, with the key from the environment variable ANTHROPIC_AUTH_TOKEN.",
        "note  the daemon was started with ANTHROPIC_AUTH_TOKEN, which this terminal does not have",
        f"note  this terminal has {other}, which the daemon was started without; to use it: `para",
    ):
        assert part in said
    assert "SECRET" not in said + command_line.does("auth", "status", "--json")


def test_doctor_and_status_tell_where_the_daemon_differs_from_settings(
    running: CommandLine, monkeypatch, capsys
):
    said = running.does("doctor", PARACHUTE_VAULT="/srv/notes")
    differs = f"the daemon was started on {running.vault}; the settings say /srv/notes"
    assert f"note     {differs}" in said
    vault, long_ago = str(running.vault), "2000-01-01T00:00:00+00:00"
    record = {"version": "0.0.9", "vault": vault, "started": long_ago, "flags": {}}
    (running.home / "config.yaml").touch()
    monkeypatch.setenv("PARACHUTE_HOME", str(running.home))
    said = find_differences(record, load_settings(running.home, {}, {"vault": vault}))
    assert [sentence.split(";")[0] for sentence in said] == [
        "the daemon is version 0.0.9, this command is 0.1.0",
        "config.yaml was changed after the daemon started",
    ]
    monkeypatch.setattr("parachuted.cli.status.__version__", "0.2.0")
    assert main(["status"]) == 0
    version = "version  this command is 0.2.0; `parachute restart` starts that one"
    assert version in capsys.readouterr().out


def test_a_login_for_a_service_is_in_the_home_and_found_by_the_daemon(command_line: CommandLine):
    def set_login(typed: str) -> None:
        words = [*PARACHUTE, "auth", "set", "ANTHROPIC_API_KEY"]
        subprocess.run(words, env=command_line.env(), input=typed, text=True, check=True)

    set_login("sk-SECRET\n")
    file = command_line.home / "logins.env"
    assert file.read_text() == "ANTHROPIC_API_KEY=sk-SECRET\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    command_line.start()
    said = command_line.does("auth", "status")
    assert f"found    the environment variable ANTHROPIC_API_KEY: set in {file}" in said
    assert "Agent: claude, with the login from the environment variable ANTHROPIC_API_KEY." in said
    assert "note" not in said

    file.chmod(0o644)
    said = command_line.does("restart") + command_line.does("auth", "status")
    assert f"not used: others may read or change {file}; `chmod 600 {file}` mends that" in said
    set_login("\n")
    assert file.read_text() == ""
