"""Turns: a message goes into the session, an agent answers, and any number of readers follow.

A turn belongs to no client: it goes on when all have gone, and ends with one event that says how.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Final

from parachuted.errors import (
    AgentStoppedError,
    NotFoundError,
    ParachuteError,
)
from parachuted.modules import AgentRun, Module

from .messages import Message
from .session import Session
from .sessions import Sessions, conflict
from .shared_chats import SharedChats
from .turn import EndedTurn, Turn, TurnRequest
from .turn_events import Event, Resumption, session_event, typed_error
from .turn_questions import OpenQuestion
from .turn_stream import TurnStream
from .turn_work import STOPPED, TurnWork, new_session_id

_MOST_STREAMS: Final = 500
_MOST_RUNS: Final = 100
_CUT_OFF: Final = {
    "type": "typed_error",
    "code": "service_unavailable",
    "title": "The answer was cut off",
    "message": "The daemon ended while it was being written. Ask again.",
    "actions": [{"key": "r", "label": "Try again", "action": "retry"}],
    "canRetry": True,
    "retryDelayMs": 0,
    "originalError": None,
}
_MOST_INJECTED: Final = 20
_ENDS_WITHIN_S: Final = 5.0

Follower = Callable[[EndedTurn], Awaitable[None]]


class QueueFullError(ParachuteError):
    """Too many messages wait for the agent already; try again when it has taken some."""


class Turns:
    """`followers` are called after each turn that went to its end, beside each other."""

    def __init__(self, module: Module, sessions: Sessions, chats: SharedChats) -> None:
        self._module, self._sessions, self._chats = module, sessions, chats
        self.followers: list[Follower] = []
        self.work = TurnWork(module, sessions, chats)
        self._streams: OrderedDict[str, TurnStream] = OrderedDict()
        self._active: dict[str, Turn] = {}
        # by the key that sent the message, and its id, where the sender chose one
        self._going: dict[tuple[str, str], Turn] = {}
        self._starting = asyncio.Lock()
        self._last_runs: OrderedDict[str, AgentRun] = OrderedDict()
        self._following: set[asyncio.Task[None]] = set()  # what goes on after turns

    def active(self) -> list[str]:
        return list(filter(self.is_active, self._active))

    def is_active(self, session_id: str) -> bool:
        turn = self._active.get(session_id)
        return turn is not None and turn.session is not None

    async def start(self, request: TurnRequest) -> TurnStream:
        """Start a turn, or follow the one in which the message's id was said; it goes on unread.

        NotFoundError: no such session. ConflictError: a turn goes on there.
        """
        message_id = request.message_id
        if message_id is None:
            return (await self._begin(request)).stream
        async with self._starting:  # one that is sent again may overtake the first
            sent = (self._module.current_call.key, message_id)
            if sent in self._going:
                return self._going[sent].stream
            request = await self._with_session(request, new_session_id(message_id))
            said = await self._find_said(request)
            if said is not None:
                return await self._follow_said(request, *said)
            turn = await self._begin(request)
            turn.sent, self._going[sent] = sent, turn
            return turn.stream

    async def _with_session(self, request: TurnRequest, new: str) -> TurnRequest:
        """The request; where its message began a session already, in that one."""
        if request.session_id is not None or not await self._sessions.known_ids([new]):
            return request
        return replace(request, session_id=new)

    async def _find_said(
        self, request: TurnRequest
    ) -> tuple[Session, Message, Message | None] | None:
        """The session, the message with the request's id and its answer, if it has one; None: it
        was not said. The file says so: a restart forgets nothing.
        """
        if request.session_id is None:
            return None
        session, messages = await self._sessions.get_with_messages(request.session_id)
        place = next((at for at, one in enumerate(messages) if one.id == request.message_id), None)
        if place is None:
            return None
        following = takewhile(lambda one: not one.is_question, messages[place + 1 :])
        answers = [one for one in following if one.role == "assistant" and not one.meta.get("cut")]
        return session, messages[place], answers[-1] if answers else None

    async def _follow_said(
        self, request: TurnRequest, session: Session, question: Message, answer: Message | None
    ) -> TurnStream:
        if answer is None:
            return await self.follow(session.id)
        turn = Turn(request, TurnStream(), session)
        _replay(turn.stream, session, turn.resumption, question.content, answer.content)
        ended = EndedTurn(session=session, question=question, answer=answer, number=0)
        turn.stream.send(self.work.done_event(turn, ended))
        return turn.stream

    async def ask(self, request: TurnRequest) -> EndedTurn:
        """Do a whole turn. Raises what `start` raises, and what ended the turn otherwise."""
        turn = await self._begin(request)
        async for _event in turn.stream.read(turn.stream.last_id):
            pass
        if turn.error is not None:
            raise turn.error
        if turn.ended is None:
            raise AgentStoppedError("the turn was stopped")
        return turn.ended

    async def forget(self, session_id: str) -> None:
        """The session is gone."""
        turn = self._active.get(session_id)
        if turn is not None:
            turn.is_aborted = True
            await _stop(turn)
        await self.end_process(session_id)

    async def end_process(self, session_id: str) -> None:
        """End the process that was kept for the next turn, and so the session, as hooks have it."""
        last = self._last_runs.pop(session_id, None)
        if last is not None:
            with suppress(NotFoundError):  # so old that its process has ended
                await last.stop()

    async def close(self) -> None:
        """Stop all turns, and what follows others; what came so far stays, marked."""
        tasks = [turn.task for turn in self._active.values() if turn.task is not None]
        tasks += self._following
        for task in self._following:
            task.cancel()
        for session_id, turn in [*self._active.items()]:
            turn.is_ending = True
            self._module.log.info("a turn is cut off", extra={"session": session_id})
            await _stop(turn)
        if tasks:
            await asyncio.wait(tasks, timeout=_ENDS_WITHIN_S)

    async def _begin(self, request: TurnRequest) -> Turn:
        session, file = None, None
        if request.session_id is not None:
            file = await self._sessions.read(request.session_id)
            session = file.session
            if session.id in self._active:
                raise conflict(
                    "a turn of this conversation goes on; stop it, or say it to the agent that "
                    "works"
                )
        stream = TurnStream() if session is None else self._stream_of(session.id)
        turn = Turn(request, stream, session)
        if file is not None:
            turn.messages, turn.waits_for_file = file.messages, file.defect is not None
        stream.begin()
        if session is not None:
            self._active[session.id] = turn
        stream.send(session_event(session, turn.resumption))
        turn.task = self._module.spawn(self._run, turn, name="a turn")
        return turn

    async def follow(self, session_id: str) -> TurnStream:
        """The events of a session's turns. After a restart a question without an answer is shown as
        cut off.
        """
        session, messages = await self._sessions.get_with_messages(session_id)
        if session.id in self._streams:
            return self._streams[session.id]
        stream = self._stream_of(session.id)
        last = messages[-1] if messages else None
        if last is not None and (last.role == "user" or last.meta.get("cut")):
            asked = next(one for one in reversed(messages) if one.role == "user")
            said = "" if last is asked else last.content
            _replay(stream, session, Resumption(earlier=len(messages)), asked.content, said)
            for one in await self.work.questions.all(session.id):
                stream.send(one.event(session.id))
            stream.send({**_CUT_OFF, "sessionId": session.id})
        return stream

    async def ask_again(self, session_id: str) -> TurnStream:
        """Ask the last question again: one that got no answer, or not yet a model's.

        NotFoundError: there is none.
        """
        session, messages = await self._sessions.get_with_messages(session_id)
        last = next((one for one in reversed(messages) if one.role == "user"), None)
        if last is None:
            raise NotFoundError("this conversation has no question yet")
        return await self.start(
            TurnRequest(message=last.content, session_id=session.id, is_again=True)
        )

    async def abort(self, session_id: str) -> None:
        """Stop the turn; what came so far stays, marked. NotFoundError: none goes on."""
        turn = self._turn_of(session_id)
        turn.is_aborted = True
        await _stop(turn)

    async def inject(self, session_id: str, text: str) -> None:
        """Say something to the agent while it works.

        NotFoundError: no turn goes on, or its agent listens no longer. QueueFullError.
        """
        turn = self._turn_of(session_id)
        if turn.run is None:
            raise QueueFullError("the agent has not started yet; try again in a moment")
        if turn.waiting >= _MOST_INJECTED:
            raise QueueFullError
        if not await turn.run.inject(text):
            raise _no_turn(session_id)
        turn.waiting += 1
        await self.work.keep_injected(turn, text)

    async def wait_for_end(self, session_id: str) -> None:
        turn = self._active.get(session_id)
        if turn is not None and turn.task is not None:
            await asyncio.wait([turn.task])

    async def answer(self, session_id: str, request_id: str, answers: object) -> None:
        """Answer what the agent asked by the words of its options; a question that an earlier
        daemon left open begins a turn. NotFoundError: no such question.
        """
        session_id = (await self._sessions.get(session_id)).id
        asked = await self.work.questions.get(session_id, request_id)
        turn = self._active.get(session_id)
        if turn is None or request_id not in turn.steps.questions:
            await self._answer_left_open(session_id, asked, answers)
            return
        value = asked.value_of(answers)
        if turn.run is None or not await turn.run.answer(asked.id, value):
            await self.work.questions.drop(session_id, request_id)
            raise NotFoundError(f"no question {request_id[:80]!r} waits for an answer")
        await self.work.questions.drop(session_id, request_id)
        turn.steps.questions.pop(request_id, None)
        turn.stream.send({"type": "answered", "requestId": request_id})

    async def decide(self, session_id: str, request_id: str, decision: object) -> None:
        """Grant or deny a permission request: `allow`, `deny` or a `pattern` of its own."""
        asked = await self.work.questions.get(session_id, request_id)
        await self.answer(session_id, request_id, asked.words_for(decision))

    async def preview(self, session_id: str, message: str) -> dict[str, object]:
        session = await self._sessions.get(session_id)
        limited = self._chats.limited(session)
        request = TurnRequest(message=message, is_typed=True, is_shared=limited is not session)
        return await self.work.parts.preview(limited, request)

    async def pending(self, session_id: str) -> Sequence[OpenQuestion]:
        session = await self._sessions.get(session_id)
        return await self.work.questions.all(session.id)

    async def _answer_left_open(
        self, session_id: str, asked: OpenQuestion, answers: object
    ) -> None:
        message, decided = asked.as_message(answers), (asked, asked.value_of(answers))
        await self.start(TurnRequest(message=message, session_id=session_id, decided=decided))
        await self.work.questions.drop(session_id, asked.request_id)

    async def _run(self, turn: Turn) -> None:
        """It ends with exactly one last event, whatever happens."""
        last: Event | None = None
        try:
            turn.ended = await self.work.answer(turn, self._created)
            last = self.work.done_event(turn, turn.ended)
        except asyncio.CancelledError:
            if not (turn.is_aborted or turn.is_ending):  # the question stands in the session
                last = {**_CUT_OFF, "sessionId": turn.session_id}
                raise
            last = await self._last_of_stopped(turn)
        except ParachuteError as error:
            is_stopped = turn.is_aborted or turn.is_ending
            last = await (
                self._last_of_stopped(turn) if is_stopped else self._last_of_failed(turn, error)
            )
        finally:
            failed = ParachuteError("the turn failed")
            self._end(turn, last or typed_error(failed, turn.session_id))
        if turn.ended is not None:
            for one in self.followers:
                task = self._module.spawn(self._tell, one, turn.ended, name="after a turn")
                self._following.add(task)
                task.add_done_callback(self._following.discard)

    async def _last_of_stopped(self, turn: Turn) -> Event:
        mark: dict[str, object] = {"aborted": True} if turn.is_aborted else {"cut": "restart"}
        try:
            await self.work.keep_partial(turn, is_over=turn.is_aborted, **mark)
        except ParachuteError as error:
            return typed_error(error, turn.session_id)
        if not turn.is_aborted:
            return {**_CUT_OFF, "sessionId": turn.session_id}
        return {
            "type": "aborted",
            "message": STOPPED,
            "sessionId": turn.session_id or "",
            "partialResponse": turn.steps.text,
        }

    async def _last_of_failed(self, turn: Turn, error: ParachuteError) -> Event:
        turn.error = error
        last = typed_error(error, turn.session_id)
        is_over = not isinstance(error, AgentStoppedError)  # the daemon ends runs first
        try:
            await self.work.keep_partial(turn, is_over=is_over, cut=last["code"])
        except ParachuteError as also:
            self._module.log.warning("what came was not kept", extra={"why": also.message})
        return last

    async def _tell(self, follower: Follower, ended: EndedTurn) -> None:
        try:
            await follower(ended)
        except ParachuteError as error:
            self._module.log.warning("what follows a turn failed", extra={"why": error.message})

    def _end(self, turn: Turn, last: Mapping[str, object]) -> None:
        if turn.sent is not None:
            self._going.pop(turn.sent, None)
        if turn.session_id is not None:
            self._active.pop(turn.session_id, None)
            if turn.run is not None:
                self._last_runs[turn.session_id] = turn.run
            while len(self._last_runs) > _MOST_RUNS:
                self._last_runs.popitem(last=False)
        for event in turn.steps.end_thought():
            turn.stream.send(event)
        turn.stream.send(last)

    def _created(self, turn: Turn, session: Session) -> None:
        turn.session = session
        self._active[session.id] = turn
        self._keep(session.id, turn.stream)
        turn.stream.send(session_event(session, turn.resumption))

    def _turn_of(self, session_id: str) -> Turn:
        if not self.is_active(session_id):
            raise _no_turn(session_id)
        return self._active[session_id]

    def _stream_of(self, session_id: str) -> TurnStream:
        found = self._streams.get(session_id)
        if found is None:
            found = TurnStream()
            self._keep(session_id, found)
        return found

    def _keep(self, session_id: str, stream: TurnStream) -> None:
        """Remember it; of those in which nothing goes on, the oldest are forgotten."""
        self._streams[session_id] = stream
        self._streams.move_to_end(session_id)
        idle = [one for one, kept in self._streams.items() if not kept.is_active]
        for one in idle[: max(0, len(self._streams) - _MOST_STREAMS)]:
            if one != session_id:
                del self._streams[one]


def _replay(
    stream: TurnStream, session: Session, resumption: Resumption, asked: str, said: str
) -> None:
    """A turn of before, as its events."""
    stream.begin()
    stream.send(session_event(session, resumption))
    stream.send({"type": "user_message", "content": asked})
    stream.send(said)


async def _stop(turn: Turn) -> None:
    if turn.run is not None:
        await turn.run.stop()
    elif turn.task is not None:
        turn.task.cancel()


def _no_turn(session_id: str) -> NotFoundError:
    return NotFoundError(f"no turn goes on in the conversation {session_id[:80]}")
