"""One turn of a conversation: what is asked, what came of it, and what others do with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from parachuted.errors import ParachuteError
from parachuted.modules import AgentRun

from .messages import Message
from .session import Session
from .shared_chats import ChatName
from .turn_events import Resumption, TurnSteps
from .turn_questions import OpenQuestion
from .turn_stream import TurnStream

RecoveryMode: TypeAlias = Literal["inject_context", "fresh_start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a person asks for.

    `before` goes ahead of the message for this turn only. `is_again`: the message stands in the
    session already. `is_typed`: a person wrote it here, so it may be a command. `is_shared`:
    several people see the answer, so neither its words nor its fields choose an agent, a skill or a
    command. `chat` is where the answer is shown, if the session does not say so. `decided` is what
    was asked before a restart, and the answer.
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
    """The session as it is after a turn, the messages of the exchange and its number."""

    session: Session
    question: Message
    answer: Message
    number: int
    run_id: str | None = None


@dataclass(slots=True)
class Turn:
    """A turn that goes on. `messages` are those of its session, as it began; `waits_for_file`: the
    file may refuse the question, and then no model is asked.
    """

    request: TurnRequest
    stream: TurnStream
    session: Session | None = None
    messages: list[Message] = field(default_factory=list)
    waits_for_file: bool = False
    steps: TurnSteps = field(default_factory=lambda: TurnSteps(""))
    resumption: Resumption = field(default_factory=Resumption)
    run: AgentRun | None = None
    transcript: str | None = None
    task: asyncio.Task[None] | None = None
    sent: tuple[str, str] | None = None
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
