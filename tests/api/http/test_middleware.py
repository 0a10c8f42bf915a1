"""The front, over a running daemon: what a request passes, whatever the route."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.calls import call, code, get, refused
from tests.stories.daemon_rig import DaemonRig, Live, save

REMOTE = {"X-Forwarded-For": "192.0.2.7"}


async def test_who_shows_no_key_does_not_learn_which_calls_there_are(live: Live):
    async with live() as daemon_rig:
        for path in ("/api/notes", "/api/nothing", "/nothing", "/api/auth/keys"):
            assert await refused(daemon_rig, "GET", path, headers=REMOTE) == (
                401,
                "Valid API key required",
            )
        assert await code(daemon_rig, "GET", "/api/health", headers=REMOTE) == 200


async def test_each_answer_to_an_error_has_an_id_of_its_own_and_the_audit_knows_it(live: Live):
    async with live() as daemon_rig:
        answers = [(await call(daemon_rig, "GET", "/api/notes/none.md"))[1] for _ in range(5)]
        assert daemon_rig.daemon.vault.audit.flush()
        reported = (await get(daemon_rig, "/api/audit?limit=100"))["events"]

    ids = {answer["request_id"] for answer in answers}
    assert len(ids) == 5
    assert ids <= {event["request_id"] for event in reported}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_a_compressed_body_is_not_unpacked(live: Live, encoding):
    async with live() as daemon_rig:
        answer = await refused(
            daemon_rig,
            "POST",
            "/api/bubble/plan",
            data=b"\x1f\x8b",
            headers={"Content-Encoding": encoding},
        )

        assert answer[0] == 415


async def test_a_handler_that_fails_tells_no_more_than_an_id(live: Live, vault, monkeypatch):
    async with live() as daemon_rig:

        def fail(*_arguments: object, **_named: object) -> None:
            raise OSError(5, "Input/output error", "/home/me/.parachute/keys.yaml")

        monkeypatch.setattr(daemon_rig.daemon.watched.history, "runs_that", fail)
        status, message = await refused(daemon_rig, "GET", "/api/runs")

        assert status == 500
        assert "keys.yaml" not in message
        assert await code(daemon_rig, "GET", "/api/watches") == 200


async def exchange(
    daemon_rig: DaemonRig, request: bytes, answers: int = 1
) -> list[tuple[bytes, dict[str, str], bytes]]:
    """Over one connection, the request so many times: status line, headers but the date, and body
    of each answer.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
    found = []
    for _ in range(answers):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")[:-2]
        headers = dict(sorted(line.split(": ", 1) for line in lines))
        body = await reader.readexactly(int(headers.get("Content-Length", "0")))
        assert headers.pop("Date").endswith("GMT")
        found.append((status.encode(), headers, body))
    writer.close()
    return found


def asking(daemon_rig: DaemonRig, path: str, **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{daemon_rig.daemon.port}\r\n{lines}\r\n".encode()
    )


async def test_requests_sent_ahead_are_answered_in_their_order(live: Live, vault):
    for name in "ab":
        save(vault / f"{name}.md", name)
    async with live() as daemon_rig:
        one, two = (
            asking(daemon_rig, f"/api/notes/{name}.md", Accept="text/markdown") for name in "ab"
        )
        for request in (one, two):
            await exchange(daemon_rig, request, 3)
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
        writer.write(one)
        await reader.readuntil(b"\r\n\r\na")
        for ahead in (one + two + one, two[:20]):
            writer.write(ahead)
        for expected in (b"a", b"b", b"a"):
            assert (await reader.readuntil(b"\r\n\r\n" + expected)).startswith(
                b"HTTP/1.1 200 OK\r\n"
            )
        writer.write(two[20:])
        await reader.readuntil(b"\r\n\r\nb")
        writer.close()
