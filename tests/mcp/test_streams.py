"""Streams: notifications over the stream of a session, and over an answer that goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp

from tests.api.calls import key_of
from tests.mcp.peers import RawMcpClient, client
from tests.stories.daemon_rig import Live, save

WAIT_S = 60


async def heard(answer: aiohttp.ClientResponse) -> dict:
    """The next message of a stream."""
    async with asyncio.timeout(WAIT_S):
        async for line in answer.content:
            if line.startswith(b"data: "):
                return json.loads(line.removeprefix(b"data: "))
    raise AssertionError("the stream ended")


async def test_a_session_hears_of_the_notes_that_it_subscribed_to(live: Live, vault: Path):
    save(vault / "a.md", "# A\n")
    save(vault / "b.md", "# B\n")
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        await daemon_rig.settled()
        bare = RawMcpClient(daemon_rig, session)
        named = await bare.open()
        await bare.ask("resources/subscribe", {"uri": "note:///a.md"}, **named)
        async with session.get(
            f"{daemon_rig.url}/mcp", headers={**bare.headers, **named}
        ) as answer:
            assert answer.content_type == "text/event-stream"
            await answer.content.readuntil(b"\n\n")
            save(vault / "b.md", "# B again\n")
            await daemon_rig.settled()
            save(vault / "a.md", "# A again\n")
            assert await heard(answer) == {
                "jsonrpc": "2.0",
                "method": "notifications/resources/updated",
                "params": {"uri": "note:///a.md"},
            }
            save(vault / "new.md", "# New\n")
            assert (await heard(answer))["method"] == "notifications/resources/list_changed"
            async with session.get(
                f"{daemon_rig.url}/mcp", headers={**bare.headers, **named}
            ) as second:
                async with asyncio.timeout(WAIT_S):
                    assert (await answer.content.read()).strip() == b""
                assert second.status == 200


async def test_a_stream_ends_with_its_key(live: Live, vault: Path):
    async with live() as daemon_rig, aiohttp.ClientSession() as session:
        key = key_of(daemon_rig, "vault:read")
        daemon_rig.daemon.authenticator.look()
        bare = RawMcpClient(daemon_rig, session, **key)
        named = await bare.open()
        async with session.get(
            f"{daemon_rig.url}/mcp", headers={**bare.headers, **named}
        ) as answer:
            await answer.content.readuntil(b"\n\n")
            daemon_rig.daemon.authenticator.ring.file.path.write_text("keys: []\n")
            daemon_rig.daemon.authenticator.look()
            async with asyncio.timeout(WAIT_S):
                assert (await answer.content.read()).strip() == b""


async def test_without_a_session_there_is_nothing_to_hear(live: Live):
    async with live() as daemon_rig, aiohttp.ClientSession(daemon_rig.url) as session:
        assert (await session.get("/mcp")).status == 404


async def test_a_client_of_the_package_hears_of_its_notes_in_the_newest_protocol(
    live: Live, vault: Path
):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig:
        await daemon_rig.settled()
        async with (
            client(daemon_rig, mode="auto") as peer,
            peer.listen(resource_subscriptions=["note:///a.md"]) as changes,
        ):
            save(vault / "a.md", "# A again\n")
            async with asyncio.timeout(WAIT_S):
                event = await anext(aiter(changes))
            assert event.uri == "note:///a.md"
