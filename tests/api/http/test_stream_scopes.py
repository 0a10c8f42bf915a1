"""The event stream of a key: what it may see, while it may, and no longer."""

from __future__ import annotations

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta

import aiohttp

from parachuted.keys import KeyFile
from tests.api.calls import expect, key_of, messages
from tests.stories.daemon_rig import DaemonRig, Live, note, save

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SOON = 1.0  # the seconds within which a stream ends with its key
READ = "    - read\n"
CHANGES = {
    "other scope": lambda text: text.replace(READ, "    - admin\n"),
    "paths": lambda text: text.replace(READ, f"{READ}    paths:\n    - Projects/**\n"),
    "over": lambda text: text.replace("scopes:", "expires: '2020-01-01T00:00:00Z'\n  scopes:"),
    "no document": lambda text: text.replace("---", "--"),
    "empty": lambda _text: "",
}


@contextlib.asynccontextmanager
async def reading(daemon_rig: DaemonRig, headers: dict[str, str]):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{daemon_rig.url}/api/events", headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        stream = messages(answer)
        assert (await anext(stream)).comment == "parachuted"
        yield stream


async def reported_until(stream, path: str) -> list:
    """All messages up to the one about that file."""
    found = []
    async with asyncio.timeout(30):
        async for message in stream:
            found.append(message)
            if message.data and message.data["data"].get("path") == path:
                return found
    raise AssertionError


async def ended(stream) -> float:
    """The seconds until the stream ends."""
    began = time.monotonic()
    async with asyncio.timeout(30):
        with contextlib.suppress(aiohttp.ClientPayloadError):
            async for _ in stream:
                pass
    return time.monotonic() - began


async def test_a_key_learns_of_its_paths_and_never_of_others(vault, daemon_rig: DaemonRig):
    async with reading(daemon_rig, key_of(daemon_rig, "*:read", paths=["Projects/**"])) as stream:
        save(vault / "Private/diary.md", note("Secret", watch=["Projects/*"]))
        save(vault / "Projects/a/AGENTS.md", note("A", watch=["../../Private/*.md"]))
        await daemon_rig.settled()
        (vault / "Private/diary.md").rename(vault / "Projects/moved.md")
        await daemon_rig.settled()
        (vault / "Projects/moved.md").rename(vault / "Private/back.md")
        await daemon_rig.settled()
        save(vault / "Projects/last.md", "last")
        got = await reported_until(stream, "Projects/last.md")
        everything = [event.event for event in daemon_rig.events]

    assert "file.moved" in everything
    kinds = [
        (message.event, message.data["data"].get("path"))
        for message in got
        if message.event.startswith("file.")
    ]
    assert ("file.created", "Projects/moved.md") in kinds
    assert ("file.deleted", "Projects/moved.md") in kinds
    assert not [
        message for message in got if "diary" in str(message.data) or "back.md" in str(message.data)
    ]
    assert len({message.id for message in got}) == len(got)


async def test_what_a_key_missed_is_replayed_as_it_would_have_been_sent(
    vault, daemon_rig: DaemonRig
):
    key = key_of(daemon_rig, "vault:read", paths=["Projects/**"])
    async with reading(daemon_rig, key) as stream:
        save(vault / "Projects/first.md", "first")
        last = (await reported_until(stream, "Projects/first.md"))[-1].id
    save(vault / "Private/x.md", "secret")
    await daemon_rig.settled()
    save(vault / "Projects/second.md", "second")
    await daemon_rig.settled()
    for given in (last, "nonsense"):
        async with reading(daemon_rig, {**key, "Last-Event-ID": given}) as stream:
            got = await reported_until(stream, "Projects/second.md")
            assert "Private" not in str(got)
            assert (got[0].event == "reset") is (given == "nonsense")


async def test_a_stream_ends_with_its_key(daemon_rig: DaemonRig):
    file = KeyFile(daemon_rig.daemon.watched.home)
    gone, stays = key_of(daemon_rig, "*:read"), key_of(daemon_rig, "vault:read")
    async with reading(daemon_rig, gone) as stream, reading(daemon_rig, stays) as other:
        file.remove(file.load().keys[0].id)
        assert await ended(stream) < SOON
        save(daemon_rig.vault / "a.md", "a")
        assert await reported_until(other, "a.md")
    await expect(daemon_rig, 401, "GET", "/api/watches", headers=gone)
    (kept,) = file.load().keys
    async with reading(daemon_rig, stays) as stream:
        await expect(daemon_rig, 200, "DELETE", f"/api/auth/keys/{kept.id}")
        assert await ended(stream) < 0.2, "over HTTP it ends at once"


async def test_nothing_after_a_change_of_a_key_is_reported_to_its_streams(daemon_rig: DaemonRig):
    file = KeyFile(daemon_rig.daemon.watched.home).path
    event = {"by": "person", "run": None, "causes": [], "digest": None}
    async with reading(daemon_rig, key_of(daemon_rig, "vault:read")) as stream:
        file.write_text(CHANGES["paths"](file.read_text()))
        bus = daemon_rig.daemon.watched.bus
        bus.publish("file.created", path="Private/diary.md", **event)
        assert [message async for message in stream] == []


async def test_a_stream_ends_when_its_key_says_otherwise(daemon_rig: DaemonRig):
    file = KeyFile(daemon_rig.daemon.watched.home).path
    for name, change in CHANGES.items():
        file.unlink(missing_ok=True)
        async with reading(daemon_rig, key_of(daemon_rig, "vault:read")) as stream:
            text = file.read_text()
            file.write_text(change(text))
            assert file.read_text() != text, name
            assert await ended(stream) < SOON, name
    file.unlink()
    async with reading(daemon_rig, key_of(daemon_rig, "vault:read")) as stream:
        file.chmod(0o640)
        assert await ended(stream) < SOON


async def test_a_stream_ends_when_its_key_is_over(live: Live):
    times, end = [NOW], NOW + timedelta(hours=1)
    async with (
        live(clock=lambda: times[0]) as daemon_rig,
        reading(daemon_rig, key_of(daemon_rig, "vault:read", expires=end)) as stream,
    ):
        times[0] = end
        assert await ended(stream) < SOON


async def test_a_stream_without_a_key_ends_when_everyone_needs_one(daemon_rig: DaemonRig):
    key, body = key_of(daemon_rig, "*:read,write,admin"), {"auth_mode": "always"}
    async with reading(daemon_rig, {}) as stream, reading(daemon_rig, key) as other:
        await expect(daemon_rig, 200, "PUT", "/api/auth/settings", json=body, headers=key)
        assert await ended(stream) < SOON
        daemon_rig.daemon.authenticator.ring.flush()  # nor does what notes a use end one
        daemon_rig.daemon.authenticator.look()
        save(daemon_rig.vault / "a.md", "a")
        assert await reported_until(other, "a.md")


async def test_listeners_with_keys_and_without_hear_the_same_of_what_all_may_see(
    daemon_rig: DaemonRig,
):
    async with contextlib.AsyncExitStack() as stack:
        keys = [key_of(daemon_rig, "vault:read", paths=["Projects/**"]) for _ in range(3)] + [
            key_of(daemon_rig, "*:read,write,admin"),
            {},
            {},
        ]
        streams = [await stack.enter_async_context(reading(daemon_rig, key)) for key in keys]
        save(daemon_rig.vault / "Projects/a.md", "a")
        reported = [(await reported_until(stream, "Projects/a.md"))[-1] for stream in streams]

    assert len({message.id for message in reported}) == 1
    assert len({str(message.data) for message in reported}) == 1
