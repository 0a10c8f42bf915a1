"""One turn of a conversation: what is asked, what came of it, and its events.

They are for any number of readers, each at its own pace. A text is kept once, in pieces. What a
reader is sent of it is the whole so far, so that an app which lost its connection needs only the
last event, and `delta` beside it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from parachuted.errors import ParachuteError
from parachuted.modules import AgentRun, ServerEvent

from .messages import Message
from .permissions import ChatName
from .session import Session
from .turn_events import Event, OpenQuestion, Resumption, TurnSteps

RecoveryMode: TypeAlias = Literal["inject_context", "fresh_start"]
LAST_EVENTS: Final = frozenset({"done", "error", "typed_error", "aborted"})
"""Exactly one of these is the last event of a turn."""

_PING = ServerEvent({"type": "ping"}, "ping")
_RESET = ServerEvent({"type": "reset"}, "reset")
_PING_S = 20.0
_MOST_KEPT = 50_000
_LONG, _CHARS_PER_S, _LONGEST_PAUSE_S = 8_192, 400_000, 0.25
_LARGEST_NUMBER = 18  # digits
_MOST_RUNS: Final = 10_000
_LONGEST_START_S: Final = 60.0


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
    """Those of its present turn, and of the one before, for any number of readers."""

    def __init__(self, ping_s: float = _PING_S, most: int = _MOST_KEPT) -> None:
        self._ping_s, self._most = ping_s, most
        self._life = secrets.token_hex(4)
        self._kept: deque[Event | _Piece] = deque()
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
        if self._is_active:
            raise RuntimeError("a turn goes on")
        while self._dropped < self._turn_at:
            self._drop()
        self._turn_at = self._count
        self._text = None
        self._is_active = True

    def send(self, event: Event | str) -> None:
        """One of `LAST_EVENTS` ends the turn; what is sent after it is dropped."""
        if not self._is_active or event == "":
            return
        if isinstance(event, str):
            text = self._text = self._text or _Text()
            text.pieces.append(event)
            start, text.length = text.length, text.length + len(event)
            self._keep(_Piece(text, start, text.length))
            return
        if event.get("type") == "tool_use":
            self._text = None
        if event.get("type") in LAST_EVENTS:
            self._is_active = False
        self._keep(event)

    async def read(
        self, after: str | None = None, *, follow: bool = False
    ) -> AsyncIterator[ServerEvent]:
        """Until a turn has ended, or, with `follow`, for ever."""
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

    async def batch(self, after: str | None, wait_s: float) -> tuple[list[Event], str]:
        """Up to the end of a turn; where there is nothing yet and a turn goes on, it waits."""
        found: list[Event] = []
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

    def _next(self, place: int) -> tuple[Event, int, float]:
        """The event, the next place, and how long its reader pauses."""
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

    def _keep(self, event: Event | _Piece) -> None:
        self._kept.append(event)
        if len(self._kept) > self._most:
            self._drop()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _drop(self) -> None:
        self._kept.popleft()
        self._dropped += 1

    def _place_of(self, after: str | None) -> int | None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a person asks for.

    `before` goes ahead of the message for this turn only. `is_again`: the message stands in the
    session already. `is_typed`: a person wrote it here, so it may be a command. `is_shared`:
    several people see the answer, so neither its words nor its fields choose an agent, a skill or a
    command. `decided` is what was asked before a restart, and the answer.
    """

    message: str
    session_id: str | None = None
    message_id: str | None = None
    source: str = "parachute"
    system_prompt: str | None = None
    working_directory: str | None = None
    before: str = ""
    continued_from: str | None = None
    contexts: tuple[str, ...] = ()
    recovery: RecoveryMode | None = None
    agent: str | None = None
    trust_level: str | None = None
    model: str | None = None
    workspace: str | None = None
    attachments: tuple[Mapping[str, Any], ...] = ()
    is_again: bool = False
    is_typed: bool = False
    is_shared: bool = False
    chat: ChatName | None = None
    decided: tuple[OpenQuestion, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTurn:
    session: Session
    question: Message
    answer: Message
    number: int
    run_id: str | None = None


@dataclass(slots=True)
class Turn:
    request: TurnRequest
    stream: TurnStream
    session: Session | None = None
    messages: list[Message] = field(default_factory=list)
    steps: TurnSteps = field(default_factory=lambda: TurnSteps(""))
    resumption: Resumption = field(default_factory=Resumption)
    run: AgentRun | None = None
    transcript: str | None = None
    task: asyncio.Task[None] | None = None
    sent: tuple[str, str] | None = None
    has_started: bool = False
    is_aborted: bool = False
    is_ending: bool = False
    has_warned: bool = False
    waiting: int = 0
    number: int = 0
    question: Message | None = None
    ended: EndedTurn | None = None
    error: ParachuteError | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def session_id(self) -> str | None:
        return None if self.session is None else self.session.id


@dataclass(frozen=True, slots=True)
class RunSession:
    session_id: str
    is_curator: bool


class RunSessions:
    """Sessions by the ids of runs; the oldest are forgotten."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, RunSession] = OrderedDict()
        self._starting = 0
        self._moved = asyncio.Event()

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While a run starts: it may call its first tool before its id is known here."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1
            self._wake()

    def add(self, run: str, session_id: str, *, is_curator: bool = False) -> None:
        self._sessions[run] = RunSession(session_id, is_curator)
        while len(self._sessions) > _MOST_RUNS:
            self._sessions.popitem(last=False)
        self._wake()

    def runs_of(self, session_id: str) -> list[str]:
        return [run for run, one in self._sessions.items() if one.session_id == session_id]

    async def get(self, run: str | None) -> RunSession | None:
        if run is None:
            return None
        try:
            async with asyncio.timeout(_LONGEST_START_S):
                while run not in self._sessions and self._starting:
                    await self._moved.wait()
        except TimeoutError:
            return None
        return self._sessions.get(run)

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()
