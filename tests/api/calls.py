"""Calls: a running daemon's API as a program, and as a hostile socket, sees it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import aiohttp

from parachuted.keys import KeyFile, mint, parse_words
from tests.stories.daemon_rig import DaemonRig


def digest(text: str | bytes) -> str:
    """The SHA-256 in hex."""
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


async def call(
    daemon_rig: DaemonRig, method: str, path: str, **options: object
) -> tuple[int, object]:
    """The status and the JSON of the answer."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, daemon_rig.url + path, **options) as answer,
    ):
        return answer.status, await answer.json()


async def code(daemon_rig: DaemonRig, method: str, path: str, **options: object) -> int:
    """The status of the answer, which is JSON."""
    return (await call(daemon_rig, method, path, **options))[0]


ELSEWHERE = {
    "X-Forwarded-For": "192.0.2.7"
}  # what a proxy passes on is never taken for this machine's own


def key_of(
    daemon_rig: DaemonRig,
    *scopes: str,
    paths: Sequence[str] = (),
    expires: datetime | None = None,
    local: bool = False,
) -> dict[str, str]:
    """The headers of a new key that may `vault:read,write` and so on; from elsewhere, unless
    `local`.
    """
    file = KeyFile(daemon_rig.daemon.watched.home)
    name = f"a test's {len(file.load().keys) or ''}".rstrip()
    made = mint(
        name,
        [parse_words(scope, paths) for scope in scopes],
        now=daemon_rig.daemon.watched.clock(),
        expires=expires,
    )
    file.add(made.key)
    return {"Authorization": f"Bearer {made.secret}", **({} if local else ELSEWHERE)}


async def get(daemon_rig: DaemonRig, path: str) -> dict:
    """The JSON of a call that succeeds."""
    return await expect(daemon_rig, 200, "GET", path)


async def post(daemon_rig: DaemonRig, path: str, body: object = None) -> dict:
    """The JSON of a call that succeeds."""
    status, answer = await call(daemon_rig, "POST", path, json=body)
    assert status in {200, 201}, answer
    return answer


async def expect(
    daemon_rig: DaemonRig, status: int, method: str, path: str, *, says: str = "", **options: object
) -> dict:
    """The JSON of an answer of that status; an error has what all have, and says that."""
    got, answer = await call(daemon_rig, method, path, **options)
    assert got == status, (method, path, options, answer)
    if status >= 400:
        _check_error(answer)
        assert says in answer["message"]
    return answer


_OF_ERRORS = ("error", "message", "detail", "request_id")


def _check_error(answer: dict) -> None:
    assert all(isinstance(answer[name], str) and answer[name] for name in _OF_ERRORS), answer
    assert answer["detail"].startswith(answer["message"].removesuffix("."))
    assert len(answer["detail"]) > len(answer["message"]) + 20
    assert "Traceback" not in answer["message"]


async def refused(
    daemon_rig: DaemonRig, method: str, path: str, **options: object
) -> tuple[int, str]:
    """The status and the message of an error, which has the one shape that all have."""
    status, answer = await call(daemon_rig, method, path, **options)
    _check_error(answer)
    assert len(answer) == len(_OF_ERRORS)
    return status, answer["message"]


async def error(daemon_rig: DaemonRig, method: str, path: str, **options: object) -> int:
    """The status of an error, which has the one shape that all have."""
    return (await refused(daemon_rig, method, path, **options))[0]


async def noticed(daemon_rig: DaemonRig) -> None:
    """What was just saved is known to the daemon, and can be found."""
    places = [place for place in daemon_rig.vault.iterdir() if not place.is_symlink()]
    paths = [f"{place.name}/" if place.is_dir() else place.name for place in places]
    await daemon_rig.daemon.watched.detector.notice(paths)
    await daemon_rig.indexed()


async def spoken(daemon_rig: DaemonRig, request: bytes) -> bytes:
    """All that comes back when these bytes are sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon_rig.daemon.port)
    try:
        writer.write(request)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One SSE message; a comment has only a text."""

    id: str = ""
    event: str = ""
    data: object = None
    comment: str = ""


async def messages(answer: aiohttp.ClientResponse) -> AsyncIterator[Message]:
    """The messages of a stream as they come."""
    fields: dict[str, str] = {}
    async for line in answer.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if line != b"\n":
            fields[name] = value
            continue
        data = json.loads(fields["data"]) if "data" in fields else None
        yield Message(
            id=fields.get("id", ""),
            event=fields.get("event", ""),
            data=data,
            comment=fields.get("", ""),
        )
        fields = {}
