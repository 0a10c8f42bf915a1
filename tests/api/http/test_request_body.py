"""Request bodies: modules read bytes and forms piece by piece, in the daemon's process and in one
of their own, and answer with files and bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from io import BytesIO

import aiohttp
import pytest
import pytest_asyncio

from tests.api.calls import call, code, error, expect, get, refused
from tests.api.routes.test_modules import run_module
from tests.stories.daemon_rig import DaemonRig

NAME = "recordings"
MODULE = """
import hashlib
from parachuted.modules import Body, BytesResponse, Module, route

class RecordingsModule(Module):
    read = 0
    ended = ""

    @route("POST", "/upload/{name...}", max_bytes=3_000_000)
    async def upload(self, name: str, body: Body, note: str = ""):
        found, size, self.read, self.ended = hashlib.sha256(), 0, 0, ""
        try:
            async for piece in body:
                found.update(piece)
                size += len(piece)
                self.read = size
        except BaseException as error:
            self.ended = type(error).__name__
            raise
        return {"name": name, "note": note, "size": size, "sha256": found.hexdigest(),
                "said": body.size, "type": body.content_type}

    @route("POST", "/ignore", max_bytes=3_000_000)
    async def ignore(self, body: Body):
        self.kept = body
        return {}

    @route("GET", "/ignored")
    async def ignored(self):
        return {"read": len(await self.kept.read())}

    @route("GET", "/state")
    async def state_of_it(self):
        return {"read": self.read, "ended": self.ended}

    @route("GET", "/bytes")
    async def some_bytes(self, size: int = 3, kind: str = "image/png") -> BytesResponse:
        return BytesResponse(data=b"x" * size, content_type=kind)
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["trusted", "untrusted"])
async def daemon_rig(
    request: pytest.FixtureRequest, file_daemon: DaemonRig, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DaemonRig]:
    """The file's daemon with the module, in its own process and in one of the module's own."""
    folder, reads = tmp_path_factory.mktemp("bodies"), "permissions: {read: [Assets/]}\n"
    await run_module(file_daemon, folder, NAME, MODULE, str(request.param), reads)
    yield file_daemon
    await expect(file_daemon, 200, "DELETE", f"/api/modules/{NAME}")


# a container takes bodies whole
IN_PIECES = pytest.mark.parametrize("daemon_rig", ["trusted"], indirect=True, scope="module")


async def test_a_body_comes_in_pieces_of_any_size_up_to_the_limit(daemon_rig: DaemonRig):
    data = bytes(range(256)) * 10_000

    async def pieces(size: int) -> AsyncIterator[bytes]:
        for start in range(0, size, 100_000):
            yield data[start : start + 100_000]

    expected = {
        "name": "a/b.wav",
        "note": "x",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "type": "audio/wav",
    }
    sent = {"headers": {"Content-Type": "audio/wav"}}
    url = f"/api/{NAME}/upload/a/b.wav?note=x"
    assert await call(daemon_rig, "POST", url, data=BytesIO(data), **sent) == (
        200,
        {**expected, "said": len(data)},
    )
    status, reported = await call(daemon_rig, "POST", url, data=pieces(len(data)), **sent)
    assert (status, reported | {"said": None}) == (200, {**expected, "said": None})
    status, reported = await call(daemon_rig, "POST", url, data=b"", **sent)
    assert (status, reported["size"]) == (200, 0)
    await expect(daemon_rig, 413, "POST", url, data=BytesIO(b"x" * 3_000_001))
    await expect(daemon_rig, 422, "POST", url, data=b"x", params={"odd": "1"})
    try:
        status = await error(daemon_rig, "POST", url, data=endless())
    except aiohttp.ClientError:
        status = 413  # it may be cut while we still send
    assert status == 413
    assert (await call(daemon_rig, "POST", url, data=b"more"))[1]["size"] == 4


async def endless() -> AsyncIterator[bytes]:
    """More than any route takes."""
    for _ in range(400):
        yield b"x" * 50_000


@IN_PIECES
async def test_a_body_that_is_cut_short_is_an_error_that_blames_no_module(daemon_rig: DaemonRig):
    before = (await get(daemon_rig, f"/api/modules/{NAME}"))["problem"]
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
    head = f"POST /api/{NAME}/upload/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
    writer.write(f"{head}\r\nsome of it".encode())
    await until_state(daemon_rig, {"read": 10, "ended": ""})
    writer.close()
    await until_state(daemon_rig, {"read": 10, "ended": "CancelledError"}, "RequestBodyError")
    reported = await get(daemon_rig, f"/api/modules/{NAME}")
    assert (reported["status"], reported["problem"]) == ("running", before)
    del reader


async def until_state(daemon_rig: DaemonRig, state: dict[str, object], *other: str) -> None:
    """Wait until the module says so, or that its reading ended in the other way."""
    states = [state, *({**state, "ended": ended} for ended in other)]
    async with asyncio.timeout(30):
        while (await get(daemon_rig, f"/api/{NAME}/state")) not in states:
            await asyncio.sleep(0.02)


@IN_PIECES
async def test_slow_senders_keep_no_other_client_from_the_module(daemon_rig: DaemonRig):
    slow = []
    for _ in range(70):
        _, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
        head = f"POST /api/{NAME}/upload/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
        writer.write(f"{head}\r\nsome of it".encode())
        slow.append(writer)
    await until_state(daemon_rig, {"read": 10, "ended": ""})

    async with asyncio.timeout(30):
        assert (await get(daemon_rig, f"/api/{NAME}/state"))["read"] == 10
    for writer in slow:
        writer.close()
    async with asyncio.timeout(30):  # their bodies are given up soon, and there is room again
        while await code(daemon_rig, "POST", f"/api/{NAME}/ignore", data=b"x") != 200:
            await asyncio.sleep(0.02)
    assert (await get(daemon_rig, f"/api/modules/{NAME}"))["status"] == "running"


@IN_PIECES
async def test_what_was_not_read_of_a_body_is_gone_with_its_request(daemon_rig: DaemonRig):
    assert await call(daemon_rig, "POST", f"/api/{NAME}/ignore", data=b"x" * 100_000) == (200, {})
    status, message = await refused(daemon_rig, "GET", f"/api/{NAME}/ignored")
    assert status in {400, 502}
    assert "until it is answered" in message or "failed in" in message


async def test_bytes_are_answered_with_their_type(daemon_rig: DaemonRig):
    async with aiohttp.ClientSession() as session:
        url = f"{daemon_rig.url}/api/{NAME}/bytes"
        for size in (3, 0, 9_000_000):
            async with session.get(url, params={"size": size}) as answer:
                assert (answer.content_type, len(await answer.read())) == ("image/png", size)
        async with session.get(url, params={"kind": "text/html"}) as answer:
            assert "attachment" in answer.headers["Content-Disposition"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        for kind in ("text/html\r\nX-Evil: 1", "no type", "IMAGE/PNG;x=y"):
            async with session.get(url, params={"kind": kind}) as answer:
                assert answer.status == 502
                assert "X-Evil" not in answer.headers
        async with session.get(url, params={"size": 17_000_000}) as answer:
            assert answer.status == 502
