"""One turn of a conversation: what is asked, what came of it, and its events.

What a reader is sent of a text is the whole so far, so that an app which lost its connection needs
only the last event, and `delta` beside it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from parachuted.errors import ParachuteError
from parachuted.modules import AgentRun, ServerEvent

from .messages import Message, new_message_id
from .permissions import ChatName
from .session import Session
from .turn_events import Event, Resumption, TurnSteps

RecoveryMode: TypeAlias = Literal["inject_context", "fresh_start"]
LAST_EVENTS: Final = frozenset({"done", "error", "typed_error", "aborted"})
"""Exactly one of these is the last event of a turn."""

RESET: Final[Event] = {"type": "reset"}
"""Comes first where what was missed is not stored."""
_PING_S = 20.0
_LONG, _CHARS_PER_S, _LONGEST_PAUSE_S = 8_192, 400_000, 0.25
_MOST_RUNS: Final = 10_000
_LONGEST_START_S: Final = 60.0


@dataclass(slots=True)
class _Text:
    """What the agent says between two calls of tools."""

    said: str = ""


@dataclass(frozen=True, slots=True)
class _Piece:
    text: _Text
    start: int
    end: int


class TurnStream:
    """The events of one turn, for any number of readers, each at its own pace."""

    def __init__(self, ping_s: float = _PING_S) -> None:
        self._ping_s = ping_s
        self._name = secrets.token_hex(4)
        self._events: list[Event | _Piece] = []
        self._text = _Text()
        self._changed = asyncio.Event()
        self.is_active = True

    @property
    def last_id(self) -> str:
        return f"{self._name}-{len(self._events)}"

    def goes_on_after(self, event_id: str | None) -> bool:
        place = self._place_of(event_id)
        return bool(event_id) and place is not None and place < len(self._events)

    def send(self, event: Event | str) -> None:
        """One of `LAST_EVENTS` ends the turn; what is sent after it is dropped."""
        if not self.is_active or event == "":
            return
        if isinstance(event, str):
            start = len(self._text.said)
            self._text.said += event
            self._events.append(_Piece(self._text, start, len(self._text.said)))
        else:
            if event.get("type") == "tool_use":
                self._text = _Text()
            self.is_active = event.get("type") not in LAST_EVENTS
            self._events.append(event)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def read(self, after: str | None = None) -> AsyncIterator[ServerEvent]:
        place = self._place_of(after)
        if place is None:
            yield ServerEvent(RESET, "reset")
            place = 0
        while place < len(self._events) or self.is_active:
            changed = self._changed
            if place < len(self._events):
                data, place, pause_s = self._next(place)
                yield ServerEvent(data, id=f"{self._name}-{place}")
                if pause_s:
                    await asyncio.sleep(pause_s)
            elif not await _happens(changed, self._ping_s):
                yield ServerEvent({"type": "ping"}, "ping")

    async def batch(self, after: str | None, wait_s: float) -> tuple[list[Event], str]:
        """Where there is nothing yet and the turn goes on, it waits."""
        place = self._place_of(after)
        found: list[Event] = [] if place is not None else [RESET]
        place = place or 0
        if place == len(self._events) and self.is_active:
            await _happens(self._changed, wait_s)
        while place < len(self._events):
            data, place, _ = self._next(place)
            found.append(data)
        return found, f"{self._name}-{place}"

    def _next(self, place: int) -> tuple[Event, int, float]:
        """The event, the next place, and how long its reader pauses."""
        piece = self._events[place]
        place += 1
        if not isinstance(piece, _Piece):
            return piece, place, 0.0
        text, start, end = piece.text, piece.start, piece.end
        while place < len(self._events):
            other = self._events[place]
            if not isinstance(other, _Piece) or other.text is not text:
                break
            end, place = other.end, place + 1
        content = text.said[:end]
        data = {"type": "text", "content": content, "delta": content[start:]}
        # the whole text is sent each time: of a long one, less often
        is_long = end > _LONG and place == len(self._events)
        return data, place, min(end / _CHARS_PER_S, _LONGEST_PAUSE_S) if is_long else 0.0

    def _place_of(self, after: str | None) -> int | None:
        """None: it is the id of no event here."""
        if not after:
            return 0
        name, _, number = after.partition("-")
        places = (str(place) for place in range(len(self._events) + 1))
        return int(number) if name == self._name and number in places else None


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
    command.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTurn:
    """`messages` are those of the file at its end."""

    session: Session
    messages: list[Message]
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
    written: list[Message] = field(default_factory=list)
    steps: TurnSteps = field(default_factory=lambda: TurnSteps(""))
    resumption: Resumption = field(default_factory=Resumption)
    run: AgentRun | None = None
    transcript: str | None = None
    task: asyncio.Task[None] | None = None
    sent: tuple[str, str] | None = None
    has_started: bool = False
    is_aborted: bool = False
    is_ending: bool = False
    waiting: int = 0
    number: int = 0
    question: Message | None = None
    answer_id: str = field(default_factory=new_message_id)
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
        return [run for run, session in self._sessions.items() if session.session_id == session_id]

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
