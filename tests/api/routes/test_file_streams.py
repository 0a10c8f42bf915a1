from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import psutil
import pytest

from tests.api.calls import call, digest, error, expect, get, key_of, refused
from tests.stories.daemon_rig import DaemonRig, save


def left_behind(daemon_rig: DaemonRig) -> list[str]:
    """Whatever an upload could leave in the vault or beside the objects."""
    unfinished = daemon_rig.daemon.watched.objects._folder / "unfinished"
    beside = [file.name for file in unfinished.iterdir()] if unfinished.exists() else []
    return [
        name for _, _, names in os.walk(daemon_rig.vault) for name in names if ".parachute-" in name
    ] + beside


async def answered(
    daemon_rig: DaemonRig, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{daemon_rig.url}/api/files/{path}", headers=headers) as answer,
    ):
        return answer.status, answer.headers, await answer.read()


async def pieces(size: int, piece: bytes) -> AsyncIterator[bytes]:
    for _ in range(size // len(piece)):
        yield piece


async def test_a_file_is_streamed_with_its_digest_as_its_tag(vault, daemon_rig: DaemonRig):
    data = os.urandom(700_000)
    (vault / "clip.wav").write_bytes(data)
    status, headers, body = await answered(daemon_rig, "clip.wav")
    assert (status, body) == (200, data)
    assert headers["ETag"] == f'"{digest(data)}"'
    assert (headers["Content-Length"], headers["Content-Type"]) == ("700000", "audio/wav")
    status, headers, body = await answered(daemon_rig, "clip.wav", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, "700000", b"")
    same = await answered(daemon_rig, "clip.wav", **{"If-None-Match": headers["ETag"]})
    assert same[::2] == (304, b"")


async def test_a_range_is_the_bytes_asked_for_and_another_is_refused(vault, daemon_rig: DaemonRig):
    (vault / "ten.bin").write_bytes(b"0123456789")
    for asked, status, reported, part in (
        ("bytes=0-3", 206, "bytes 0-3/10", b"0123"),
        ("bytes=4-", 206, "bytes 4-9/10", b"456789"),
        ("bytes=-2", 206, "bytes 8-9/10", b"89"),
        ("bytes=8-99", 206, "bytes 8-9/10", b"89"),
        ("bytes=-99", 206, "bytes 0-9/10", b"0123456789"),
        ("bytes=10-", 416, "bytes */10", None),
        ("bytes=-0", 416, "bytes */10", None),
        ("lines=1-2", 200, None, b"0123456789"),
    ):
        got, headers, body = await answered(daemon_rig, "ten.bin", Range=asked)
        assert (got, headers.get("Content-Range")) == (status, reported), asked
        assert part is None or body == part, asked
    older = {"Range": "bytes=0-1", "If-Range": '"older"'}
    assert (await answered(daemon_rig, "ten.bin", **older))[::2] == (200, b"0123456789")


async def test_a_file_that_changes_while_it_is_sent_is_cut_off_not_mixed(
    vault, daemon_rig: DaemonRig
):
    with (vault / "log.bin").open("wb") as file:
        file.truncate(64 << 20)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{daemon_rig.url}/api/files/log.bin") as answer,
    ):
        await answer.content.readexactly(1000)
        with (vault / "log.bin").open("r+b") as file:
            file.write(b"another version")
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()


async def test_a_file_that_is_replaced_while_it_is_sent_is_sent_as_it_was(
    vault, daemon_rig: DaemonRig
):
    (vault / "log.bin").write_bytes(b"x" * (16 << 20))
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{daemon_rig.url}/api/files/log.bin") as answer,
    ):
        await answer.content.readexactly(1000)
        await call(daemon_rig, "PUT", "/api/files/log.bin", data=b"another version")
        rest = await answer.content.read()

    assert rest == b"x" * ((16 << 20) - 1000)
    assert (vault / "log.bin").read_bytes() == b"another version"


async def test_what_a_browser_could_run_is_handed_over_to_be_saved(vault, daemon_rig: DaemonRig):
    names = ["page.html", "drawing.svg", "script.js", "page.xhtml", "feed.xml", "noname", "x.HTM"]
    for name in names:
        (vault / name).write_text("<script>alert(1)</script>")
        _, headers, _ = await answered(daemon_rig, name)
        assert headers["Content-Type"] == "application/octet-stream"
        assert headers["Content-Disposition"] == f"attachment; filename*=UTF-8''{name}"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in headers["Content-Security-Policy"]


async def test_an_upload_makes_and_replaces_a_file_and_history_has_the_old_one(
    vault, daemon_rig: DaemonRig
):
    first, second = os.urandom(6 << 20), os.urandom(5 << 20)
    path, watched = "new/clip.wav", daemon_rig.daemon.watched

    async def put(status: int, data: bytes, **headers: str) -> dict:
        sent = {"data": io.BytesIO(data), "headers": headers}
        return await expect(daemon_rig, status, "PUT", f"/api/files/{path}", **sent)

    made = await put(201, first)
    again = await put(200, second, **{"If-Match": digest(first)})
    same = await put(200, second)

    said = {"path": path, "size": 6 << 20, "hash": digest(first)}
    assert made == {**said, "created": True, "replaced": None}
    said = {"path": path, "size": 5 << 20, "hash": digest(second)}
    assert again == {**said, "created": False, "replaced": digest(first)}
    assert same["replaced"] is None
    assert (vault / path).read_bytes() == second
    assert watched.objects.get(digest(first)) == first
    assert digest(second) not in watched.objects  # the vault has it; it is kept once replaced
    assert [
        (write.before, write.after, write.state) for write in watched.history.writes_of(path)
    ] == [
        (None, digest(first), "done"),
        (digest(first), digest(second), "done"),
    ]
    assert [event["by"] for event in daemon_rig.reported("file.")] == ["person", "person"]
    assert left_behind(daemon_rig) == []


async def test_conditions_hold(vault, daemon_rig: DaemonRig):
    """As test_preconditions.py has them for each call; and these."""
    (vault / "a.bin").write_bytes(b"old")
    old = f'"{digest(b"old")}"'
    for path, match, status in (("none.bin", old, 409), ("a.bin", "*", 400), ("a.bin", old, 200)):
        sent = {"data": b"new", "headers": {"If-Match": match}}
        await expect(daemon_rig, status, "PUT", f"/api/files/{path}", **sent)
        assert (vault / "a.bin").read_bytes() == (b"old" if status >= 400 else b"new")


async def test_an_upload_that_is_cut_short_leaves_nothing(vault, daemon_rig: DaemonRig):
    for head in (b"Content-Length: 1000000", b"Transfer-Encoding: chunked"):
        _, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
        writer.write(
            b"PUT /api/files/cut.bin HTTP/1.1\r\nHost: localhost\r\n"
            + head
            + b"\r\n\r\n10000\r\n"
            + b"x" * 60_000
        )
        await writer.drain()
        await daemon_rig.until(lambda: left_behind(daemon_rig))
        writer.transport.abort()
        await daemon_rig.until(lambda: not left_behind(daemon_rig))

    assert not (vault / "cut.bin").exists()


@pytest.mark.parametrize("place", ["files/cut.bin", "notes/cut.md"])
async def test_a_key_that_is_revoked_while_its_upload_comes_writes_nothing(
    vault, place, daemon_rig: DaemonRig
):
    key = key_of(daemon_rig, "vault:write")
    daemon_rig.daemon.authenticator.look()
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
    head = f"PUT /api/{place} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
    shown = "".join(f"{name}: {value}\r\n" for name, value in key.items())
    writer.write(f"{head}Content-Type: text/markdown\r\n{shown}\r\n12345".encode())
    await writer.drain()
    await asyncio.sleep(0.1)
    (only,) = (await get(daemon_rig, "/api/auth/keys"))["keys"]
    await call(daemon_rig, "DELETE", f"/api/auth/keys/{only['id']}")
    writer.write(b"67890")
    assert (await reader.readline()).startswith(b"HTTP/1.1 401")
    writer.close()

    assert list(vault.glob("cut.*")) == []


async def test_what_is_hidden_or_outside_does_not_exist(vault, daemon_rig: DaemonRig):
    save(vault / ".claude/settings.json", "{}")
    (vault / "passwd").symlink_to("/etc/passwd")
    (vault / "secrets").symlink_to(".claude")
    for path in (".parachute/x", ".claude/settings.json", "a/.env", "passwd", "secrets/x"):
        unknown = (404, f"{path} is not in the vault")
        assert await refused(daemon_rig, "GET", f"/api/files/{path}") == unknown
        assert await refused(daemon_rig, "PUT", f"/api/files/{path}", data=b"x") == unknown


async def test_a_folder_is_not_a_file(vault, daemon_rig: DaemonRig):
    save(vault / "folder/note.md", "x")
    await expect(daemon_rig, 400, "GET", "/api/files/folder")
    await expect(daemon_rig, 400, "PUT", "/api/files/folder", data=b"x")
    assert await error(daemon_rig, "PUT", "/api/files/folder/note.md/deeper", data=b"x") in {
        400,
        404,
        409,
    }
    assert left_behind(daemon_rig) == []


async def test_large_files_go_in_and_out_in_constant_memory(
    vault: Path, torture, daemon_rig: DaemonRig
):
    size, piece = (200 << 20 if torture else 48 << 20), os.urandom(1 << 20)
    process = psutil.Process()
    async with aiohttp.ClientSession() as session:
        before = most = process.memory_info().rss

        async def watched(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            nonlocal most
            async for part in body:
                most = max(most, process.memory_info().rss)
                yield part

        for _ in range(2):  # made, then replaced
            async with session.put(
                f"{daemon_rig.url}/api/files/large.bin", data=watched(pieces(size, piece))
            ) as answer:
                assert answer.status in {200, 201}
            piece = piece[::-1]
            most = max(most, process.memory_info().rss)
        whole = hashlib.sha256()
        async with session.get(f"{daemon_rig.url}/api/files/large.bin") as answer:
            async for part in watched(answer.content.iter_chunked(1 << 20)):
                whole.update(part)
            assert answer.headers["ETag"] == f'"{whole.hexdigest()}"'

    assert most - before < 24 << 20
    assert (vault / "large.bin").stat().st_size == size
