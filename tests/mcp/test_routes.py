"""Streamable HTTP at /mcp: a client of the `mcp` package, sessions, keys and hostile messages."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from mcp.shared.exceptions import MCPError

from tests.api.calls import ELSEWHERE, key_of
from tests.mcp.peers import (
    ACCEPT,
    INITIALIZE,
    RawMcpClient,
    call,
    client,
    listed,
    message,
    refused,
)
from tests.stories.daemon_rig import Live, save


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_reads_searches_and_writes(live: Live, vault: Path, mode: str):
    save(vault / "Work/plan.md", "# Plan\n\n## Facts\n\nBeans.\n")
    async with live() as daemon_rig, client(daemon_rig, mode=mode) as peer:
        await daemon_rig.settled()
        tools = await peer.list_tools()
        assert {"read_note", "list_notes", "search_notes"} <= {tool.name for tool in tools.tools}

        read = await call(peer, "read_note", path="Work/plan.md")
        assert read["text"] == "# Plan\n\n## Facts\n\nBeans.\n"
        assert await listed(peer, folder="Work") == ["Work/plan.md"]
        found = await call(peer, "search_notes", query="beans")
        assert [hit["path"] for hit in found["hits"]] == ["Work/plan.md"]

        await call(peer, "edit_section", path="Work/plan.md", section="Facts", text="Peas.")
        await call(peer, "set_key", path="Work/plan.md", key="status", value="open")
        await call(peer, "write_note", path="Work/new.md", text="# New\n")
        text = (vault / "Work/plan.md").read_text()
        assert "Peas." in text
        assert "Beans." not in text
        assert "status: open" in text
        assert (vault / "Work/new.md").read_text() == "# New\n"


async def test_no_key_from_elsewhere_and_a_foreign_page_are_refused(live: Live):
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        bare = RawMcpClient(daemon_rig, session)
        opening = message("initialize", INITIALIZE)

        assert (await bare.post(opening, **ELSEWHERE))[0] == 401
        assert (await bare.post(opening, Authorization="Bearer wrong"))[0] == 401
        assert (await bare.post(opening, Host="rebound.example"))[0] == 403
        assert (await bare.post(opening, Origin="https://evil.example"))[0] == 403
        key = key_of(daemon_rig, "daily:write")
        daemon_rig.daemon.authenticator.look()
        assert (await bare.post(opening, **key))[0] == 403
        assert (await bare.post(opening))[0] == 200


async def test_a_session_belongs_to_the_key_that_began_it_and_ends_with_delete(live: Live):
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        key, other = (key_of(daemon_rig, "vault:read", local=True) for _ in range(2))
        daemon_rig.daemon.authenticator.look()
        bare = RawMcpClient(daemon_rig, session, **key)
        named = await bare.open()
        listing = message("tools/list")

        assert (await bare.post(listing, **named))[0] == 200
        assert (await bare.post(listing, **{**named, **other}))[0] == 404
        assert (await bare.post(listing, **{"Mcp-Session-Id": "none"}))[0] == 404
        async with session.delete(
            f"{daemon_rig.url}/mcp", headers={**ACCEPT, **key, **named}
        ) as answer:
            assert answer.status == 204
        async with session.get(f"{daemon_rig.url}/mcp", headers={**ACCEPT, **key}) as answer:
            assert answer.status == 405, "nothing is sent unasked"
        status, _headers, answer = await bare.post(listing, **named)
        assert status == 404
        assert answer["error"]["message"] == "Session not found; send initialize again"


async def test_a_malformed_message_ends_nothing(live: Live, vault: Path):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        bare = RawMcpClient(daemon_rig, session)
        named = await bare.open()
        for body in (
            "",
            "{",
            "[]",
            "null",
            "[" * 5_000,
            '{"jsonrpc": "2.0"}',
            '{"jsonrpc": "2.0", "id": {}, "method": 5}',
            '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 7}',
            '{"jsonrpc": "2.0", "id": 1, "result": {}}',
            '{"jsonrpc": "2.0", "id": ' + "9" * 5_000 + ', "method": "tools/list"}',
            '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": []}}',
            b"\xff\xfe\x00",
            '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\\ud800"}}',
            '{"jsonrpc": "2.0", "id": 1, "method": "\\ud800"}',
        ):
            status, _headers, _answer = await bare.post(body, **named)
            assert status < 500, body
        too_long = message(
            "tools/call", {"name": "read_note", "arguments": {"path": "x" * 3_000_000}}
        )
        assert (await bare.post(too_long, **named))[0] == 413
        long = message("tools/call", {"name": "read_note", "arguments": {"path": "x" * 1_000_000}})
        status, _headers, answer = await bare.post(long, **named)
        assert (status, answer["result"]["isError"]) == (200, True)

        read = await bare.ask(
            "tools/call", {"name": "read_note", "arguments": {"path": "a.md"}}, **named
        )
        assert read["structuredContent"]["text"] == "# A\n"


@pytest.mark.parametrize(
    "number", [2**64, -(2**63) - 1, 10**400], ids=["2^64", "-2^63-1", "10^400"]
)
async def test_an_id_of_any_size_comes_back(live: Live, vault: Path, number: int):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        bare = RawMcpClient(daemon_rig, session)
        named = await bare.open()
        asked = message("tools/call", {"name": "read_note", "arguments": {"path": "a.md"}}, number)
        for body, headers, expected in (
            (asked, named, 200),
            (asked, {}, 200),
            (asked, {"Mcp-Session-Id": "gone"}, 404),
            (message("nothing", number=number), named, 200),
        ):
            status, _headers, answer = await bare.post(body, **headers)
            assert (status, answer["id"]) == (expected, number), answer


async def test_replies_never_cross_and_sessions_are_bounded(live: Live, vault: Path):
    for number in range(100):
        save(vault / f"n{number}.md", f"# Note {number}\n")
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        bare = RawMcpClient(daemon_rig, session)
        sessions = [await bare.open() for _ in range(100)]

        async def read(number: int) -> str:
            answer = await bare.ask(
                "tools/call",
                {"name": "read_note", "arguments": {"path": f"n{number}.md"}},
                **sessions[number],
            )
            return str(answer["structuredContent"]["text"])

        texts = await asyncio.gather(*(read(number) for number in range(100)))
        assert texts == [f"# Note {number}\n" for number in range(100)]
        for _ in range(200):
            await bare.open()
        assert (await bare.post(message("ping"), **sessions[0]))[0] == 404


async def test_a_revoked_key_reads_and_writes_no_more(live: Live, vault: Path):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig:
        key = key_of(daemon_rig, "vault:read,write")
        daemon_rig.daemon.authenticator.look()
        async with aiohttp.ClientSession() as session:
            bare = RawMcpClient(daemon_rig, session, **key)
            named = await bare.open()
            assert (await bare.post(message("ping"), **named))[0] == 200
            daemon_rig.daemon.authenticator.ring.file.path.write_text("keys: []\n")
            daemon_rig.daemon.authenticator.look()
            assert (await bare.post(message("ping"), **named))[0] == 401


async def test_a_key_with_paths_sees_its_notes_alone(live: Live, vault: Path):
    save(vault / "Work/plan.md", "# Plan\n\nBeans.\n")
    save(vault / "Private/diary.md", "# Diary\n\nBeans.\n")
    async with live() as daemon_rig:
        await daemon_rig.settled()
        await daemon_rig.until(lambda: not daemon_rig.daemon.vault.search.is_behind)
        key = key_of(daemon_rig, "vault:read,write", paths=["Work/**"])
        daemon_rig.daemon.authenticator.look()
        async with client(daemon_rig, headers=key) as peer:
            assert await listed(peer) == ["Work/plan.md"]
            found = await call(peer, "search_notes", query="beans")
            assert [hit["path"] for hit in found["hits"]] == ["Work/plan.md"]
            unknown = await refused(peer, "read_note", path="Private/diary.md")
            assert "Beans" not in unknown
            await refused(peer, "write_note", path="Private/new.md", text="x")
            await refused(peer, "read_note", path="Work/../Private/diary.md")
            resources = (await peer.list_resources()).resources
            assert [resource.uri for resource in resources] == ["note:///Work/plan.md"]
            with pytest.raises(MCPError):
                await peer.read_resource("note:///Private/diary.md")
        assert not (vault / "Private/new.md").exists()


async def test_a_key_that_may_only_read_is_offered_nothing_that_writes(live: Live):
    async with live() as daemon_rig:
        key = key_of(daemon_rig, "vault:read")
        daemon_rig.daemon.authenticator.look()
        async with client(daemon_rig, headers=key) as peer:
            tools = (await peer.list_tools()).tools
            assert all(tool.annotations.read_only_hint for tool in tools)
            assert "there is no tool" in await refused(peer, "write_note", path="a.md", text="x")
