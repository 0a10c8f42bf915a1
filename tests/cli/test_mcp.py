"""`parachute mcp` (cli/mcp.py): a client of the `mcp` package over stdio."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import Implementation

from tests.cli.command_line import PARACHUTE, CommandLine
from tests.mcp.peers import INITIALIZE, call, listed, message, refused

WAIT_S = 60


@contextlib.asynccontextmanager
async def client(
    command_line: CommandLine, *words: str, mode: str = "legacy"
) -> AsyncIterator[Client]:
    """A client that started the command."""
    server = StdioServerParameters(
        command=PARACHUTE[0],
        args=[*PARACHUTE[1:], "mcp", *words],
        env=command_line.env(),
        cwd=str(command_line.folder),
    )
    info = Implementation(name="stdio", version="1")
    async with Client(server, mode=mode, client_info=info) as connected:
        yield connected


@contextlib.contextmanager
def serving(command_line: CommandLine) -> Iterator[subprocess.Popen[bytes]]:
    """The command, with its pipes in our hands."""
    process = subprocess.Popen(
        [*PARACHUTE, "mcp"],
        env=command_line.env(),
        cwd=command_line.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        yield process
        process.stdin.close()
        assert process.wait(WAIT_S) == 0


def say(process: subprocess.Popen[bytes], line: object) -> None:
    process.stdin.write((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[bytes]) -> dict:
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_reads_and_writes_by_the_running_daemon(running: CommandLine, mode: str):
    async with client(running, mode=mode) as peer:
        path = f"Projects/{mode}.md"
        wrote = await call(peer, "write_note", path=path, text="# By stdio\n\n## Ä\n\nx\n")
        assert (await call(peer, "read_note", path=path, section="Ä"))["text"] == "## Ä\n\nx\n"
        why = running.json("why", path)
        assert why["lines"][0]["by"] == "mcp:stdio"
        assert why["lines"][0]["run"] == wrote["run"]
    assert '"mcp.' not in (running.home / "logs/daemon.log").read_text()  # no line for each call


async def test_a_key_bounds_what_its_client_sees(running: CommandLine):
    made = running.json(
        "keys", "create", "an agent", "--scope", "vault:read", "--path", "Projects/**"
    )
    async with client(running, "--key", made["key"]) as peer:
        paths = await listed(peer)
        assert paths
        assert all(path.startswith("Projects/") for path in paths)
        await refused(peer, "write_note", path="Projects/no.md", text="x")


def test_lines_that_are_no_messages_are_answered_and_end_nothing(running: CommandLine):
    with serving(running) as process:
        for line in ("{", "[]", '"x"', "", "   ", "[" * 100_000):
            say(process, line)
        said = [heard(process) for _ in range(4)]
        assert {one["error"]["code"] for one in said} == {-32700}
        say(process, message("tools/call", {"name": "y" * 9_000_000}, 7))
        assert (too_long := heard(process))["id"] == 7
        assert too_long["error"]["code"] == -32000
        say(process, message("initialize", INITIALIZE))
        assert heard(process)["result"]["serverInfo"]["name"] == "parachute"
        say(process, message("ping", None, 3))
        assert heard(process) == {"jsonrpc": "2.0", "id": 3, "result": {}}


def test_where_no_daemon_runs_it_starts_one_and_finds_the_next(command_line: CommandLine):
    command_line.does("init", str(command_line.vault))
    (command_line.home / "config.yaml").write_text(f"vault: {command_line.vault}\nport: 0\n")
    with serving(command_line) as process:
        say(process, message("initialize", INITIALIZE))
        assert heard(process)["result"]["serverInfo"]["name"] == "parachute"
        say(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        with serving(command_line) as second:
            say(second, message("initialize", INITIALIZE))
            assert heard(second)["result"]["serverInfo"]["name"] == "parachute"
        command_line.does("restart")
        say(process, message("tools/list", None, 2))
        assert heard(process)["result"]["tools"]
    assert command_line.does("stop") == "Stopped.\n"


def test_without_a_vault_each_request_is_answered_with_what_to_do(
    command_line: CommandLine, tmp_path: Path
):
    (command_line.home / "config.yaml").write_text(f"vault: {tmp_path / 'none'}\nport: 0\n")
    process = subprocess.run(
        [*PARACHUTE, "mcp"],
        env=command_line.env(),
        cwd=command_line.folder,
        input=json.dumps(message("initialize", INITIALIZE)).encode() + b"\n",
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert process.returncode == 1
    assert "parachute init" in json.loads(process.stdout)["error"]["message"]


def test_the_settings_that_a_program_needs_are_printed_with_the_key(command_line: CommandLine):
    printed = command_line.does("mcp", "install", "--key", 'a"b')
    command = shlex.split(printed.split("\n")[1])
    server = json.loads(command[-1])

    assert command[:4] == ["claude", "mcp", "add-json", "--scope"]
    assert server["args"][-1] == "mcp"
    assert server["env"] == {"PARACHUTE_HOME": str(command_line.home), "PARACHUTE_KEY": 'a"b'}
    assert json.loads(printed[printed.index("\n{") :])["mcpServers"]["parachute"] == server
