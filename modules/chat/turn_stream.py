"""The events of a session's turns, for any number of readers, each at its own pace.

A text is kept once, in pieces. What a reader is sent of it is the whole so far, so that an app
which lost its connection needs only the last event, and `delta` beside it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from parachuted.modules import ServerEvent

LAST_EVENTS: Final = frozenset({"done", "error", "typed_error", "aborted"})
"""Exactly one of these is the last event of a turn."""

_PING = ServerEvent({"type": "ping"}, "ping")
_RESET = ServerEvent({"type": "reset"}, "reset")
_PING_S = 20.0
_MOST_KEPT = 50_000
_LONG, _CHARS_PER_S, _LONGEST_PAUSE_S = 8_192, 400_000, 0.25
_LARGEST_NUMBER = 18  # digits


@dataclass(slots=True)
class _Text:
    """What the agent says between two calls of tools."""

    pieces: list[str] = field(default_factory=list)
    length: int = 0

    def until(self, end: int) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0][:end]


@dataclass(frozen=True, slots=True)
class _Piece:
    text: _Text
    start: int
    end: int


class TurnStream:
    """The events of one session: those of its present turn, and of the one before.

    A reader who comes back names its last event, and is sent what followed. Where that is no longer
    kept, or was another daemon's, an event `reset` comes first.
    """

    def __init__(self, ping_s: float = _PING_S, most: int = _MOST_KEPT) -> None:
        """`ping_s`: after so many seconds without an event a reader is sent a `ping`; `most`: so
        many events are kept.
        """
        self._ping_s, self._most = ping_s, most
        self._life = secrets.token_hex(4)
        self._kept: deque[Mapping[str, object] | _Piece] = deque()
        self._dropped = 0
        self._turn_at = 0
        self._text: _Text | None = None
        self._changed = asyncio.Event()
        self._is_active = False

    @property
    def is_active(self) -> bool:
        return self._is_active

    @property
    def last_id(self) -> str:
        return f"{self._life}-{self._count}"

    def begin(self) -> None:
        """RuntimeError: another goes on."""
        if self._is_active:
            raise RuntimeError("a turn goes on")
        while self._dropped < self._turn_at:
            self._drop()
        self._turn_at = self._count
        self._text = None
        self._is_active = True

    def send(self, event: Mapping[str, object] | str) -> None:
        """Send an event, or a text as the agent says it. One of `LAST_EVENTS` ends the turn, and
        what is sent after it is dropped.
        """
        if not self._is_active or event == "":
            return
        if isinstance(event, str):
            self._say(event)
            return
        if event.get("type") == "tool_use":
            self._text = None
        if event.get("type") in LAST_EVENTS:
            self._is_active = False
        self._keep(event)

    def _say(self, delta: str) -> None:
        text = self._text = self._text or _Text()
        text.pieces.append(delta)
        start, text.length = text.length, text.length + len(delta)
        self._keep(_Piece(text, start, text.length))

    async def read(
        self, after: str | None = None, *, follow: bool = False
    ) -> AsyncIterator[ServerEvent]:
        """The events after that id, of the present turn or else the last: until a turn has ended,
        or, with `follow`, for ever.
        """
        place = self._place_of(after)
        if place is None:
            yield _RESET
            place = max(self._turn_at, self._dropped)
        while True:
            changed = self._changed
            if place < self._dropped:
                yield _RESET
                place = max(self._turn_at, self._dropped)
            if place < self._count:
                data, place, pause_s = self._next(place)
                yield ServerEvent(data, id=f"{self._life}-{place}")
                if data["type"] in LAST_EVENTS and not follow:
                    return
                if pause_s:
                    await asyncio.sleep(pause_s)
            elif not self._is_active and not follow:
                return
            elif not await _happens(changed, self._ping_s):
                yield _PING

    async def batch(
        self, after: str | None, wait_s: float
    ) -> tuple[list[Mapping[str, object]], str]:
        """What follows that event, up to the end of a turn, and the last id. Where there is nothing
        yet and a turn goes on, it waits so long.
        """
        found: list[Mapping[str, object]] = []
        place = self._place_of(after)
        if place is None or place < self._dropped:
            found.append({"type": "reset"})
            place = max(self._turn_at, self._dropped)
        if place == self._count and self._is_active:
            await _happens(self._changed, wait_s)
        while place < self._count:
            data, place, _pause_s = self._next(place)
            found.append(data)
            if data["type"] in LAST_EVENTS:
                break
        return found, f"{self._life}-{place}"

    @property
    def _count(self) -> int:
        return self._dropped + len(self._kept)

    def _next(self, place: int) -> tuple[Mapping[str, object], int, float]:
        """The event at that place, the next place, and how long its reader pauses. Pieces of one
        text that wait are one event.
        """
        found = self._kept[place - self._dropped]
        place += 1
        if not isinstance(found, _Piece):
            return found, place, 0.0
        text, start, end = found.text, found.start, found.end
        while place < self._count:
            other = self._kept[place - self._dropped]
            if not isinstance(other, _Piece) or other.text is not text:
                break
            end, place = other.end, place + 1
        content = text.until(end)
        data = {"type": "text", "content": content, "delta": content[start:]}
        # the whole text is sent each time: of a long one, less often
        is_long = end > _LONG and place == self._count
        return data, place, min(end / _CHARS_PER_S, _LONGEST_PAUSE_S) if is_long else 0.0

    def _keep(self, event: Mapping[str, object] | _Piece) -> None:
        self._kept.append(event)
        if len(self._kept) > self._most:
            self._drop()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _drop(self) -> None:
        self._kept.popleft()
        self._dropped += 1

    def _place_of(self, after: str | None) -> int | None:
        """None: it is not known."""
        if not after:
            return max(self._turn_at, self._dropped)
        life, _, number = after.partition("-")
        is_number = number.isascii() and number.isdigit() and len(number) <= _LARGEST_NUMBER
        if life != self._life or not is_number:
            return None
        return int(number) if self._dropped <= int(number) <= self._count else None


async def _happens(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
