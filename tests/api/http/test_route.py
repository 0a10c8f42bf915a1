"""What callers send, checked: through a running daemon, since it is aiohttp that reads it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from io import BytesIO

from tests.api.calls import expect, get, noticed
from tests.stories.daemon_rig import DaemonRig

PLAN = "/api/bubble/plan"
NO_OBJECT = [
    *(b"[]", b'"x"', b"1", b"null", b"{", b"{}{}", b"\xff\xfe", b"\x00", b"x", b"NaN", b"1" * 5000),
    *(b"[" * 100_000, b'{"path":' * 20_000),
]
NO_PATH = [None, 1, ["a"], {"a": 1}, True, "../x", "\ud800"]
NUMBERS = ["0", "-1", "1.5", "x", "", " 1", "1 ", "٣", "9" * 5000, "501", "1e2", "0x1", "null"]


async def test_a_body_that_is_no_object_or_has_no_path_of_the_vault_is_refused(
    daemon_rig: DaemonRig,
):
    for body in NO_OBJECT:
        await expect(daemon_rig, 400, "POST", PLAN, data=body)
    for body in [{}, {"Path": "a"}, *({"path": path} for path in NO_PATH)]:
        for where in (PLAN, "/api/bubble/run"):
            await expect(daemon_rig, 400, "POST", where, data=json.dumps(body))


async def test_a_body_is_json_whatever_its_kind_is_said_to_be(vault, daemon_rig: DaemonRig):
    (vault / "a.md").write_text("# A\n")
    for kind in (
        *("text/plain", "application/x-www-form-urlencoded", "application/json; charset=nonsense"),
        "a/b; charset=utf-16",
    ):
        sent = {"data": b'{"path": "a.md"}', "headers": {"Content-Type": kind}}
        await expect(daemon_rig, 200, "POST", PLAN, **sent)


async def test_a_number_out_of_its_bounds_is_refused(daemon_rig: DaemonRig):
    for number in NUMBERS:
        await expect(daemon_rig, 400, "GET", "/api/runs", params={"limit": number})
        if number != "501":
            most = {"max_tokens": number}
            await expect(daemon_rig, 400, "GET", "/api/contexts/chain", params=most)
    assert (await get(daemon_rig, "/api/runs?limit=500"))["runs"] == []


async def test_a_body_too_large_is_refused_and_not_waited_for(daemon_rig: DaemonRig):
    await expect(daemon_rig, 413, "POST", PLAN, data=BytesIO(b"x" * ((1 << 20) + 1)))
    await expect(daemon_rig, 413, "POST", PLAN, data=floods())
    for target in ("POST /api/scan", f"POST {PLAN}", "POST /api/pause", "GET /api/health"):
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
        head = f"{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
        writer.write(head.encode())
        assert b" 413 " in await asyncio.wait_for(reader.readline(), 30)
        writer.close()
    await get(daemon_rig, "/api/health")


async def floods() -> AsyncIterator[bytes]:
    for _ in range(40):
        yield b"x" * (1 << 15)


async def test_a_slash_that_a_client_encodes_is_part_of_the_value(vault, daemon_rig: DaemonRig):
    """Generated clients encode every parameter of a path as a whole."""
    (vault / "A").mkdir()
    (vault / "A/tea.md").write_text("# Tea\n\n## Facts\nGreen.\n")
    await noticed(daemon_rig)
    for target in ("/api/notes/{}", "/api/notes/{}/backlinks"):
        plain = await get(daemon_rig, target.format("A/tea.md"))
        for name in ("A%2Ftea.md", "A%2ftea.md"):
            assert await get(daemon_rig, target.format(name)) == plain
    tea = "/api/notes/A%2Ftea.md"
    for status, method, where, sent, path in (
        (200, "PATCH", tea, {"json": {"section": "Facts", "content": "Black."}}, "A/tea.md"),
        (201, "PUT", "/api/files/B%2F100%25.bin", {"data": b"x"}, "B/100%.bin"),
        (200, "POST", f"{tea}/move", {"json": {"to": "B/tea.md"}}, "B/tea.md"),
    ):
        assert (await expect(daemon_rig, status, method, where, **sent))["path"] == path
    await expect(daemon_rig, 400, "GET", "/api/notes/A%2F..%2FB%2Ftea.md")
    await expect(daemon_rig, 404, "GET", "/api/notes/B%2Ftea.md%2Fbacklinks")  # it is all a name
    assert (vault / "B/tea.md").read_text() == "# Tea\n\n## Facts\nBlack.\n"
