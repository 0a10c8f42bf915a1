"""`parachute mcp install`: a plan first, one entry added, all else left."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from parachuted.cli.mcp import add_server
from parachuted.errors import ParachuteError
from tests.cli.command_line import CommandLine

ENTRY = {"type": "stdio", "command": "parachute", "args": ["mcp"]}


def test_the_plan_is_shown_first_and_written_with_yes(command_line: CommandLine):
    install, file = ("mcp", "install"), command_line.folder / ".claude.json"
    plan = command_line.does(*install)
    assert str(file) in plan
    assert "Nothing has been written" in plan
    assert not file.exists()

    assert "Written to" in command_line.does(*install, "--yes")
    server = json.loads(file.read_text())["mcpServers"]["parachute"]
    assert server["args"][-1] == "mcp"
    assert server["env"]["PARACHUTE_HOME"] == str(command_line.home)
    assert "has it already" in command_line.does(*install, "--yes")


def test_other_programs_are_shown_what_they_need_and_a_key_is_passed_on(command_line: CommandLine):
    def shown(client: str) -> str:
        words = ("--client", client, "--yes", "--key", 'a"b')
        return command_line.does("mcp", "install", *words).partition("\n")[2]

    for client in ("cursor", "claude-desktop", "other"):
        server = json.loads(shown(client))["mcpServers"]["parachute"]
        assert server["env"]["PARACHUTE_KEY"] == 'a"b'
    server = tomllib.loads(shown("codex"))["mcp_servers"]["parachute"]
    assert server["env"]["PARACHUTE_KEY"] == 'a"b'
    assert "parachute" in json.loads(shown("vscode"))["servers"]
    assert {file.name for file in command_line.folder.iterdir()} <= {"home", "vault"}


def test_all_else_in_the_file_stays_and_so_do_its_mode_and_link(tmp_path: Path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text('{"a": "ä", "mcpServers": {"x": 1}}', "utf-8")
    real.chmod(0o640)
    link.symlink_to(real)

    assert add_server(link, ENTRY)
    servers = {"x": 1, "parachute": ENTRY}
    assert json.loads(real.read_text("utf-8")) == {"a": "ä", "mcpServers": servers}
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert not add_server(link, ENTRY)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link.json", "real.json"]


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": []}', '"x"'])
def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path, text: str):
    file = tmp_path / "claude.json"
    file.write_text(text)

    with pytest.raises(ParachuteError):
        add_server(file, ENTRY)
    assert file.read_text() == text
