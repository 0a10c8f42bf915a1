"""What a route takes and gives piece by piece: bodies of requests, and streams of events."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from parachuted.errors import BodyTooLargeError
from parachuted.modules.results import to_json

_READ = 1 << 20


class BodySource(Protocol):
    """Where the pieces come from. Its methods raise RequestBodyError when no more can come."""

    @property
    def content_type(self) -> str:
        """The media type that the caller named, or an empty text."""

    @property
    def size(self) -> int | None:
        """How many bytes the caller announced, if it did."""

    async def read(self) -> bytes:
        """The next piece of the body; empty at the end."""


class MemoryBody:
    """A `BodySource` that is in memory, in pieces of that size."""

    def __init__(self, content_type: str, data: bytes, piece: int = _READ) -> None:
        self.content_type, self.size = content_type, len(data)
        self._left, self._piece = data, piece

    async def read(self) -> bytes:
        piece, self._left = self._left[: self._piece], self._left[self._piece :]
        return piece


class Body:
    """The body of a request, in pieces: `async for piece in body`."""

    def __init__(self, source: BodySource) -> None:
        self._source = source

    @property
    def content_type(self) -> str:
        """The media type that the caller named, or an empty text."""
        return self._source.content_type

    @property
    def size(self) -> int | None:
        """How many bytes the caller announced; None where it did not."""
        return self._source.size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self._source.read():
            yield piece

    async def read(self, limit: int = _READ) -> bytes:
        """All of it. Raises BodyTooLargeError when it is more than `limit` bytes."""
        found = bytearray()
        async for piece in self:
            found += piece
            if len(found) > limit:
                raise BodyTooLargeError(f"it is larger than {limit:,} bytes")
        return bytes(found)


_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_MOST_KEPT = 10_000
_AT_ONCE = 64
RESET: Final = "reset"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event: JSON, with a name and an id if it has them.

    Both are letters, digits and `_.:-`, at most 200.
    """

    data: object = None
    event: str | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        for name in (self.event, self.id):
            if name is not None and not _NAME.fullmatch(name):
                raise ValueError(
                    f"{name[:80]!r} is not a name or id of an event: letters, digits and _.:-, at "
                    "most 200"
                )


class StreamOpened:
    """What stands in a stream's items for: it is there, and nothing has happened yet."""


OPENED: Final = StreamOpened()


class Stream:
    """Events that are sent once and read by any number of readers, as a route returns it.

    The last `keep` events stay readable: a reader who comes back says which was its last, by the
    header `Last-Event-ID` or `?after=`, and is sent those that followed; where some of them are no
    longer kept, an event `reset` comes first. A reader who says nothing is sent all that is kept,
    or, where `is_live`, only what comes from now on.
    """

    def __init__(self, keep: int = 1_000, *, is_live: bool = False) -> None:
        if not 1 <= keep <= _MOST_KEPT:
            raise ValueError(f"keep={keep!r} is not between 1 and {_MOST_KEPT}")
        self._is_live = is_live
        self._life = secrets.token_hex(4)
        self._kept: deque[ServerEvent] = deque(maxlen=keep)
        self._count = 0
        self._changed = asyncio.Event()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is sent."""
        return self._is_closed

    def send(self, data: object, event: str | None = None) -> str:
        """Send JSON to all readers, and return the event's id. Never waits.

        Raises RuntimeError when it is closed, and what `ServerEvent` and JSON refuse.
        """
        if self._is_closed:
            raise RuntimeError("the stream is closed")
        sent = ServerEvent(to_json(data), event, f"{self._life}-{self._count + 1}")
        self._kept.append(sent)
        self._count += 1
        self._wake()
        return str(sent.id)

    def close(self) -> None:
        """End it: readers are sent what they have not read, and then it is over."""
        self._is_closed = True
        self._wake()

    async def read(self, after: str | None = None) -> AsyncIterator[ServerEvent]:
        """The events that follow the one with that id, until it is closed."""
        number = self._number_of(after)
        if number is None:
            yield ServerEvent({}, RESET)
            number = 0
        while True:
            changed, first = self._changed, self._count - len(self._kept)
            if number < first:
                if number or after:
                    yield ServerEvent({}, RESET)
                number, after = first, None
                continue
            some = list(islice(self._kept, number - first, number - first + _AT_ONCE))
            for event in some:
                yield event
            number += len(some)
            if not some and self._is_closed:
                return
            if not some:
                await changed.wait()

    def _number_of(self, after: str | None) -> int | None:
        """How many events the reader of that one has; None if it is not known."""
        if not after:
            return self._count if self._is_live else 0
        life, _, number = after.partition("-")
        is_number = number.isascii() and number.isdigit() and len(number) < len(str(1 << 63))
        if life != self._life or not is_number or int(number) > self._count:
            return None
        return int(number)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
