"""What the running daemon has, and where it differs from this command."""

from __future__ import annotations

from parachuted.cli import main
from parachuted.cli.running import find_differences
from parachuted.config import load_settings
from tests.cli.typed import Typed


def test_auth_status_tells_of_the_running_daemon_and_not_of_this_terminal(typed: Typed):
    gateway = {"ANTHROPIC_AUTH_TOKEN": "sk-SECRET", "ANTHROPIC_BASE_URL": "http://localhost:1"}
    typed.does("start", "--vault", str(typed.vault), "--port", "0", **gateway)
    terminal = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-OTHER"}
    said = typed.does("auth", "status", **terminal)

    assert said.startswith(f"The daemon (pid {typed.started()[0]}, watching {typed.vault}):")
    assert "found    the environment variable ANTHROPIC_AUTH_TOKEN: set" in said
    assert (
        "Agent: claude, with the model server at http://localhost:1, with the key from the environment variable ANTHROPIC_AUTH_TOKEN."
        in said
    )
    assert "note  the daemon was started with ANTHROPIC_AUTH_TOKEN, which this terminal does not have" in said
    assert "note  this terminal has CLAUDE_CODE_OAUTH_TOKEN, which the daemon was started without; to use it: `parachute restart`" in said
    assert "SECRET" not in said + typed.does("auth", "status", "--json")


def test_doctor_tells_where_the_daemon_is_not_what_the_settings_say(running: Typed, monkeypatch):
    assert f"note     the daemon was started on {running.vault}; the settings say " in running.does("doctor")
    record = {"version": "0.0.9", "vault": str(running.vault), "started": "2000-01-01T00:00:00+00:00", "flags": {}}
    (running.home / "config.yaml").write_text("log_level: info\n")
    monkeypatch.setenv("PARACHUTE_HOME", str(running.home))
    said = find_differences(record, load_settings(running.home, {}, {"vault": str(running.vault)}))
    (running.home / "config.yaml").unlink()

    assert [one.split(";")[0] for one in said] == [
        "the daemon is version 0.0.9, this command is 0.1.0",
        "config.yaml was changed after the daemon started",
    ]


def test_status_tells_when_the_daemon_is_of_another_version(running: Typed, monkeypatch, capsys):
    monkeypatch.setenv("PARACHUTE_HOME", str(running.home))
    monkeypatch.setattr("parachuted.cli.status.__version__", "0.2.0")

    assert main(["status"]) == 0
    assert "version  this command is 0.2.0; `parachute restart` starts that one" in capsys.readouterr().out
