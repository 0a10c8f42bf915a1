"""What callers send, checked: through a running daemon, since it is aiohttp that reads it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from io import BytesIO

import pytest

from tests.api.calls import call, expect, get
from tests.stories.daemon_rig import DaemonRig

NO_OBJECT = [
    b"[]",
    b'"x"',
    b"1",
    b"null",
    b"{",
    b"{}{}",
    b"\xff\xfe",
    b"\x00",
    b"x",
    b"[" * 100_000,
    b'{"path":' * 20_000,
    b"NaN",
    b"1" * 5000,
]
NO_PATH = [
    {},
    {"path": None},
    {"path": 1},
    {"path": ["a"]},
    {"path": {"a": 1}},
    {"Path": "a"},
    {"path": True},
]
NUMBERS = ["0", "-1", "1.5", "x", "", " 1", "1 ", "٣", "9" * 5000, "501", "1e2", "0x1", "null"]


async def test_a_body_that_is_not_a_json_object_is_refused(daemon_rig: DaemonRig):
    for body in NO_OBJECT:
        await expect(daemon_rig, 400, "POST", "/api/bubble/plan", data=body)


async def test_a_body_without_a_path_of_the_vault_is_refused(daemon_rig: DaemonRig):
    for body in [*NO_PATH, {"path": "../x"}, {"path": "\ud800"}]:
        for call_path in ("/api/bubble/plan", "/api/bubble/run"):
            await expect(daemon_rig, 400, "POST", call_path, data=json.dumps(body))


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=nonsense",
        "a/b; charset=utf-16",
    ],
)
async def test_a_body_is_json_whatever_its_kind_is_said_to_be(vault, kind, daemon_rig: DaemonRig):
    (vault / "a.md").write_text("# A\n")
    await expect(
        daemon_rig,
        200,
        "POST",
        "/api/bubble/plan",
        data=b'{"path": "a.md"}',
        headers={"Content-Type": kind},
    )


async def test_a_number_out_of_its_bounds_is_refused(daemon_rig: DaemonRig):
    for number in NUMBERS:
        await expect(daemon_rig, 400, "GET", "/api/runs", params={"limit": number})
        if number != "501":
            await expect(
                daemon_rig, 400, "GET", "/api/contexts/chain", params={"max_tokens": number}
            )
    assert (await get(daemon_rig, "/api/runs?limit=500"))["runs"] == []


async def test_a_body_too_large_is_refused(daemon_rig: DaemonRig):
    await expect(daemon_rig, 413, "POST", "/api/bubble/plan", data=BytesIO(b"x" * ((1 << 20) + 1)))
    await expect(daemon_rig, 413, "POST", "/api/bubble/plan", data=floods())
    await get(daemon_rig, "/api/health")


async def floods() -> AsyncIterator[bytes]:
    for _ in range(40):
        yield b"x" * (1 << 15)


async def test_a_body_that_is_announced_too_large_is_not_waited_for(daemon_rig: DaemonRig):
    targets = ["POST /api/scan", "POST /api/bubble/plan", "POST /api/pause", "GET /api/health"]
    for target in targets:
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
        writer.write(
            f"{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n".encode()
        )
        assert b" 413 " in await asyncio.wait_for(reader.readline(), 30)
        writer.close()


async def test_a_slash_that_a_client_encodes_is_part_of_the_value(vault, daemon_rig: DaemonRig):
    """Generated clients encode every parameter of a path as a whole."""
    (vault / "A").mkdir()
    (vault / "A/tea.md").write_text("# Tea\n\n## Facts\nGreen.\n")
    for target in ("/api/notes/{}", "/api/notes/{}/backlinks", "/api/notes/{}/versions"):
        plain = await get(daemon_rig, target.format("A/tea.md"))
        assert (
            await get(daemon_rig, target.format("A%2Ftea.md"))
            == await get(daemon_rig, target.format("A%2ftea.md"))
            == plain
        )
    status, written = await call(
        daemon_rig, "PATCH", "/api/notes/A%2Ftea.md", json={"section": "Facts", "content": "Black."}
    )
    assert (status, written["path"]) == (200, "A/tea.md")
    assert (await call(daemon_rig, "PUT", "/api/files/B%2F100%25.bin", data=b"x"))[1][
        "path"
    ] == "B/100%.bin"
    assert (await call(daemon_rig, "POST", "/api/notes/A%2Ftea.md/move", json={"to": "B/tea.md"}))[
        1
    ]["path"] == "B/tea.md"
    await expect(daemon_rig, 403, "GET", "/api/notes/A%2F..%2FB%2Ftea.md")
    await expect(
        daemon_rig, 404, "GET", "/api/notes/B%2Ftea.md%2Fversions"
    )  # of that value, and not a call on the note
    assert (vault / "B/tea.md").read_text() == "# Tea\n\n## Facts\nBlack.\n"
