"""Streamable HTTP at /mcp: a client of the `mcp` package, sessions, keys and hostile messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from parachuted import __version__
from tests.api.calls import ELSEWHERE, key_of
from tests.mcp.peers import (
    ACCEPT,
    INITIALIZE,
    RawMcpClient,
    call,
    client,
    client_with,
    listed,
    message,
    refused,
)
from tests.stories.daemon_rig import DaemonRig, save

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def bare(daemon_rig: DaemonRig, session: aiohttp.ClientSession) -> RawMcpClient:
    return RawMcpClient(daemon_rig, session)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_reads_searches_and_writes(daemon_rig: DaemonRig, mode: str):
    plan = daemon_rig.vault / mode / "plan.md"
    save(plan, f"# Plan\n\n## Facts\n\nBeans of {mode}.\n")
    await daemon_rig.settled()
    await daemon_rig.indexed()
    async with client(daemon_rig, mode=mode) as peer:
        assert (peer.server_info.name, peer.server_info.version) == ("parachute", __version__)
        assert "undo" in (peer.instructions or "")
        tools = {tool.name: tool for tool in (await peer.list_tools()).tools}
        assert {"read_note", "list_notes", "search_notes"} <= tools.keys()
        assert all(tool.description for tool in tools.values())
        hints = [tools[name].annotations.read_only_hint for name in ("read_note", "write_note")]
        assert hints == [True, False]

        path = f"{mode}/plan.md"
        read = await call(peer, "read_note", path=path)
        assert read["text"] == f"# Plan\n\n## Facts\n\nBeans of {mode}.\n"
        assert await listed(peer, folder=mode) == [path]
        found = await call(peer, "search_notes", query=f"beans {mode}")
        assert [hit["path"] for hit in found["hits"]] == [path]

        await call(peer, "edit_section", path=path, section="Facts", text="Peas.")
        await call(peer, "set_key", path=path, key="status", value="open")
        await call(peer, "write_note", path=f"{mode}/new.md", text="# New\n")
        text = plan.read_text()
        assert "Peas." in text
        assert "Beans" not in text
        assert "status: open" in text
        assert plan.with_name("new.md").read_text() == "# New\n"


async def test_no_key_from_elsewhere_and_a_foreign_page_are_refused(daemon_rig: DaemonRig, bare):
    opening = message("initialize", INITIALIZE)
    key = key_of(daemon_rig, "daily:write")
    daemon_rig.daemon.authenticator.look()
    for headers, status in (
        (ELSEWHERE, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "rebound.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        (key, 403),
        ({}, 200),
    ):
        assert (await bare.post(opening, **headers))[0] == status, headers


async def test_a_session_belongs_to_the_key_that_began_it_and_ends_with_delete(
    daemon_rig: DaemonRig, session: aiohttp.ClientSession
):
    key, other = (key_of(daemon_rig, "vault:read", local=True) for _ in range(2))
    daemon_rig.daemon.authenticator.look()
    bare = RawMcpClient(daemon_rig, session, **key)
    named = await bare.open()
    listing = message("tools/list")
    url, headers = f"{daemon_rig.url}/mcp", {**ACCEPT, **key}

    assert (await bare.post(listing, **named))[0] == 200
    assert (await bare.post(listing, **{**named, **other}))[0] == 404
    assert (await bare.post(listing, **{"Mcp-Session-Id": "none"}))[0] == 404
    async with session.delete(url, headers={**headers, **named}) as answer:
        assert answer.status == 204
    async with session.get(url, headers=headers) as answer:
        assert answer.status == 405, "nothing is sent unasked"
    status, _headers, answer = await bare.post(listing, **named)
    assert status == 404
    assert answer["error"]["message"] == "Session not found; send initialize again"


MALFORMED = (
    *("", "{", "[]", "null", "[" * 5_000, '{"jsonrpc": "2.0"}', b"\xff\xfe\x00"),
    '{"jsonrpc": "2.0", "id": {}, "method": 5}',
    '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 7}',
    '{"jsonrpc": "2.0", "id": 1, "result": {}}',
    '{"jsonrpc": "2.0", "id": ' + "9" * 5_000 + ', "method": "tools/list"}',
    '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": []}}',
    '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\\ud800"}}',
    '{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}',
)


def reading(path: str, number: int = 1) -> dict[str, object]:
    return message("tools/call", {"name": "read_note", "arguments": {"path": path}}, number)


async def test_a_malformed_message_ends_nothing(daemon_rig: DaemonRig, bare):
    save(daemon_rig.vault / "a.md", "# A\n")
    named = await bare.open()
    for body in MALFORMED:
        status, _headers, _answer = await bare.post(body, **named)
        assert status < 500, body
    assert (await bare.post(reading("x" * 3_000_000), **named))[0] == 413
    status, _headers, answer = await bare.post(reading("x" * 1_000_000), **named)
    assert (status, answer["result"]["isError"]) == (200, True)

    for number in (1, 2**64, -(2**63) - 1, 10**400):  # an id of any size comes back
        for body, headers, expected in (
            (reading("a.md", number), named, 200),
            (reading("a.md", number), {}, 200),
            (reading("a.md", number), {"Mcp-Session-Id": "gone"}, 404),
            (message("nothing", number=number), named, 200),
        ):
            status, _headers, answer = await bare.post(body, **headers)
            assert (status, answer["id"]) == (expected, number), answer
    _status, _headers, answer = await bare.post(reading("a.md"), **named)
    assert answer["result"]["structuredContent"]["text"] == "# A\n"


async def test_replies_never_cross(daemon_rig: DaemonRig, bare):
    sessions = [await bare.open() for _ in range(40)]
    for number in range(len(sessions)):
        save(daemon_rig.vault / f"n{number}.md", f"# Note {number}\n")

    async def read(number: int) -> str:
        _status, _headers, answer = await bare.post(reading(f"n{number}.md"), **sessions[number])
        return str(answer["result"]["structuredContent"]["text"])

    texts = await asyncio.gather(*map(read, range(len(sessions))))
    assert texts == [f"# Note {number}\n" for number in range(len(sessions))]


async def test_a_revoked_key_reads_and_writes_no_more(
    daemon_rig: DaemonRig, session: aiohttp.ClientSession
):
    key = key_of(daemon_rig, "vault:read,write")
    daemon_rig.daemon.authenticator.look()
    bare = RawMcpClient(daemon_rig, session, **key)
    named = await bare.open()
    assert (await bare.post(message("ping"), **named))[0] == 200
    daemon_rig.daemon.authenticator.ring.file.path.write_text("api_keys: []\n")
    daemon_rig.daemon.authenticator.look()
    assert (await bare.post(message("ping"), **named))[0] == 401


async def test_a_key_with_paths_sees_its_notes_alone(daemon_rig: DaemonRig):
    save(daemon_rig.vault / "Desk/plan.md", "# Plan\n\nLentils.\n")
    save(daemon_rig.vault / "Private/diary.md", "# Diary\n\nLentils.\n")
    await daemon_rig.settled()
    await daemon_rig.indexed()
    async with client_with(daemon_rig, "vault:read,write", paths=["Desk/**"]) as peer:
        assert await listed(peer) == ["Desk/plan.md"]
        found = await call(peer, "search_notes", query="lentils")
        assert [hit["path"] for hit in found["hits"]] == ["Desk/plan.md"]
        unknown = await refused(peer, "read_note", path="Private/diary.md")
        assert "Lentils" not in unknown
        await refused(peer, "write_note", path="Private/new.md", text="x")
        await refused(peer, "read_note", path="Desk/../Private/diary.md")
    assert not (daemon_rig.vault / "Private/new.md").exists()


async def test_a_key_that_may_only_read_is_offered_nothing_that_writes(daemon_rig: DaemonRig):
    async with client_with(daemon_rig, "vault:read") as peer:
        tools = (await peer.list_tools()).tools
        assert all(tool.annotations.read_only_hint for tool in tools)
        assert "there is no tool" in await refused(peer, "write_note", path="a.md", text="x")
