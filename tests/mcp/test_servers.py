"""Other people's MCP servers: approved by content, behind walls, as small as they were shown."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from parachuted.agents.sandbox import Sandboxes
from parachuted.errors import ActRefusedError, ConflictError, ModuleFailedError, NotFoundError
from parachuted.hooks import HookApprovals
from parachuted.mcp.registry import ServerRegistry
from parachuted.mcp.servers import APPROVALS, COMMAND, McpServers, ServerCalls
from parachuted.vault import VaultRoot
from tests.mcp.sums import SCRIPT, declare


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """A vault whose `.mcp.json` declares one server, in a file of the vault."""
    folder = tmp_path / "vault"
    folder.mkdir()
    shutil.copy(SCRIPT, folder / "sums_server.py")
    (folder / "sums_server.py").chmod(0o644)
    declare(folder)
    return folder


@pytest.fixture
async def servers(vault: Path, tmp_path: Path, sandboxes: Sandboxes) -> McpServers:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return McpServers(
        ServerRegistry(VaultRoot(vault), home),
        HookApprovals(home, APPROVALS, COMMAND),
        sandboxes,
        vault=vault,
        home=home,
        env=dict(os.environ),
    )


def problem(servers: McpServers, name: str = "sums") -> str | None:
    return servers.problem(servers.registry.get(name))


async def approve(servers: McpServers, name: str):
    known = {one.name: one for one in servers.registry.all()}
    digest = servers.digest(known[name]) if name in known else ""
    return await servers.approve(name, digest or "")


@contextlib.asynccontextmanager
async def calls_of(servers: McpServers) -> AsyncIterator[ServerCalls]:
    calls = servers.open()
    yield calls
    await calls.close()


async def test_a_server_runs_once_approved_and_reaches_no_network_and_no_note(
    servers, vault, tmp_path
):
    secrets = vault / "Secret.md", tmp_path / "home/token"
    for secret in secrets:
        secret.write_text("no")
    declare(vault, sums={"command": sys.executable, "args": ["sums_server.py", "."]})
    assert "has not been approved" in (problem(servers) or "")
    assert servers.tools() == []
    with pytest.raises(ActRefusedError, match="has not been approved"):
        await servers.look("sums")

    approved = await approve(servers, "sums")

    assert [one.name for one in approved] == ["sums__add", "sums__reach"]
    assert problem(servers) is None
    async with calls_of(servers) as calls:
        answer = await calls.call("sums", "add", {"one": 2, "other": 3})
        assert (answer.text, answer.is_error) == ("The sum is 5.", False)
        assert (await calls.call("sums", "add", {"one": "two"})).is_error
        for secret in secrets:
            answer = await calls.call("sums", "reach", {"path": str(secret)})
            assert answer.text == "reached: nothing", secret
        answer = await calls.call("sums", "reach", {"path": "/dev/null"})
        assert answer.text == "reached: file"


async def test_what_changed_does_not_run_until_it_is_approved_as_it_is_shown(servers, vault):
    shown = servers.digest(servers.registry.get("sums"))
    await approve(servers, "sums")
    script, settings = vault / "sums_server.py", vault / ".mcp.json"
    kept = {file: file.read_text() for file in (script, settings)}

    async def is_refused() -> None:
        assert "has changed since it was approved" in (problem(servers) or "")
        assert servers.tools() == []
        with pytest.raises(ActRefusedError, match="has changed"):
            await servers.look("sums")
        with pytest.raises(ConflictError, match="has changed since it was shown"):
            await servers.approve("sums", shown)
        assert "has changed since it was approved" in (problem(servers) or "")

    script.write_text(kept[script] + "\n# more\n")
    await is_refused()
    script.write_text(kept[script])
    assert problem(servers) is None
    declare(vault, sums={"command": sys.executable, "args": ["sums_server.py", "--more"]})
    await is_refused()

    await approve(servers, "sums")
    assert problem(servers) is None


async def test_a_program_that_ends_or_says_nothing_that_can_be_read_is_reported(servers, vault):
    declare(
        vault,
        ends={"command": sys.executable, "args": ["-c", "print('x'); raise SystemExit(3)"]},
        gone={"command": "there-is-no-such-program"},
        far={"type": "http", "url": "ftp://example.org/mcp"},
        parachute={"command": sys.executable},
    )
    with pytest.raises(ModuleFailedError, match="ended with code 3"):
        await approve(servers, "ends")
    assert "has not been approved" in (problem(servers, "ends") or "")
    for name, why in (
        ("gone", "no program"),
        ("far", "an address such as"),
        ("parachute", "the daemon's own"),
    ):
        assert why in (problem(servers, name) or ""), name
        with pytest.raises(ActRefusedError, match=why):
            await approve(servers, name)
    with pytest.raises(NotFoundError):
        await approve(servers, "nobody")
    (vault / ".mcp.json").write_text("{")
    [row] = servers.registry.all()
    assert row.definition is None
    assert "cannot be read" in (row.problem or "")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("Diary.md", "is a note or hidden"),
        (".obsidian/app.json", "is a note or hidden"),
        ("../other.txt", "outside the vault"),
        ("../home/token", "the home of parachuted"),
    ],
)
async def test_a_server_is_given_no_file_that_is_not_its_own(servers, vault, path, why):
    file = vault / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("no\n")
    file.chmod(0o600)
    declare(vault, more={"command": sys.executable, "args": ["sums_server.py", path]})

    with pytest.raises(ActRefusedError, match=why):
        await approve(servers, "more")
    if path == "../other.txt":
        digest = servers.digest(servers.registry.get("more"))
        await servers.approve("more", digest, is_here=True, is_trusted=True)
        assert problem(servers, "more") is None


async def test_what_lies_around_its_program_or_comes_later_is_not_given_to_it(
    servers, vault, tmp_path
):
    around = tmp_path / "tool"
    (around / "bin").mkdir(parents=True)
    (around / "notes.txt").write_text("no")
    program = around / "bin/sums"
    program.write_text(f"#!{sys.executable}\n{(vault / 'sums_server.py').read_text()}")
    program.chmod(0o755)
    mine = {"command": str(program), "args": ["later.txt"]}
    declare(vault, sums=mine)
    await approve(servers, "sums")
    async with calls_of(servers) as calls:
        answer = await calls.call("sums", "reach", {"path": str(around / "notes.txt")})
    assert answer.text == "reached: nothing"

    (vault / "later.txt").write_text("no")
    (vault / "later.txt").chmod(0o600)
    other = {"command": sys.executable, "args": ["sums_server.py", "./later.txt"]}
    declare(vault, sums=mine, other=other)
    await approve(servers, "other")
    assert "has changed since" in (problem(servers) or "")


async def test_a_trusted_server_runs_outside_a_container_by_a_persons_word(servers, vault):
    (vault / "Secret.md").write_text("no")
    digest = servers.digest(servers.registry.get("sums")) or ""
    with pytest.raises(ActRefusedError, match="on the command line"):
        await servers.approve("sums", digest, is_trusted=True)
    await servers.approve("sums", digest, is_here=True, is_trusted=True)
    async with calls_of(servers) as calls:
        answer = await calls.call("sums", "reach", {"path": str(vault / "Secret.md")})
    assert "file" in answer.text


async def test_a_server_with_a_url_is_asked_with_its_token(servers, vault):
    async def answer(request):
        assert request.headers["Authorization"] == "Bearer t-1"
        if request.method != "POST":
            return web.Response(status=405)
        asked = await request.json()
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "far", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "seen"}]},
        }
        if "id" not in asked:
            return web.Response(status=202)
        return web.json_response(
            {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
        )

    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("/mcp"))
        declare(vault, far={"url": url, "headers": {"Authorization": "Bearer t-1"}})
        digest = servers.digest(servers.registry.get("far")) or ""
        with pytest.raises(ActRefusedError, match="on the command line"):
            await servers.approve("far", digest, is_here=True, is_trusted=True)

        assert [tool.name for tool in await approve(servers, "far")] == ["far__look"]
        async with calls_of(servers) as calls:
            assert (await calls.call("far", "look", {})).text == "seen"
    declare(vault, far={"url": url, "headers": {"Authorization": "Bearer t-2"}})
    assert "has changed since" in (problem(servers, "far") or "")
