"""The front, over a running daemon: what a request passes, whatever the route."""

from __future__ import annotations

import asyncio

from tests.api.calls import call, expect, get, refused
from tests.stories.daemon_rig import DaemonRig, save


async def test_each_error_has_an_id_of_its_own_that_the_audit_has_too(daemon_rig: DaemonRig):
    answers = [(await call(daemon_rig, "GET", "/api/notes/none.md"))[1] for _ in range(5)]
    assert daemon_rig.daemon.vault.audit.flush()
    reported = (await get(daemon_rig, "/api/audit?limit=100"))["events"]

    ids = {answer["request_id"] for answer in answers}
    assert len(ids) == 5
    assert ids <= {event["request_id"] for event in reported}


async def test_a_handler_that_fails_tells_no_more_than_an_id(
    vault, monkeypatch, daemon_rig: DaemonRig
):

    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(5, "Input/output error", "/home/me/.parachute/keys.yaml")

    monkeypatch.setattr(daemon_rig.daemon.watched.history, "runs_that", fail)
    status, message = await refused(daemon_rig, "GET", "/api/runs")

    assert status == 500
    assert "keys.yaml" not in message
    await expect(daemon_rig, 200, "GET", "/api/watches")


def asking(daemon_rig: DaemonRig, path: str, **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{daemon_rig.daemon.port}\r\n{lines}\r\n".encode()
    )


async def test_requests_sent_ahead_are_answered_in_their_order(vault, daemon_rig: DaemonRig):
    for name in "ab":
        save(vault / f"{name}.md", name)
    one, two = (
        asking(daemon_rig, f"/api/notes/{name}.md", Accept="text/markdown") for name in "ab"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
    writer.write(one)
    await reader.readuntil(b"\r\n\r\na")
    for ahead in (one + two + one, two[:20]):
        writer.write(ahead)
    for expected in (b"a", b"b", b"a"):
        assert (await reader.readuntil(b"\r\n\r\n" + expected)).startswith(b"HTTP/1.1 200 OK\r\n")
    writer.write(two[20:])
    await reader.readuntil(b"\r\n\r\nb")
    writer.close()
