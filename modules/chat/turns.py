"""Turns: a message goes into the session, an agent answers, and any number of readers follow.

A turn belongs to no client: it goes on when all have gone, and ends with one event that says how.
"""

from __future__ import annotations

import asyncio
import time
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

from .permissions import SharedChats
from .session import Session
from .sessions import Sessions, conflict
from .turn import EndedTurn, Turn, TurnRequest, TurnStream
from .turn_events import Event, OpenQuestion, Resumption, cut_off, session_event, typed_error
from .turn_work import STOPPED, TurnWork, new_session_id

_MOST_STREAMS: Final = 500
_MOST_RUNS: Final = 100
_MOST_INJECTED: Final = 20
_ENDS_WITHIN_S: Final = 5.0

Follower = Callable[[EndedTurn], Awaitable[None]]


class QueueFullError(ParachuteError):
    """Too many messages wait for the agent already; try again when it has taken some."""


class Turns:
    def __init__(self, module: Module, sessions: Sessions, chats: SharedChats) -> None:
        self._module, self._sessions, self._chats = module, sessions, chats
        self.followers: list[Follower] = []
        self.work = TurnWork(module, sessions, chats)
        self._streams: OrderedDict[str, list[TurnStream]] = OrderedDict()
        self._active: dict[str, Turn] = {}
        # by the key that sent the message, and its id, where the sender chose one
        self._going: dict[tuple[str, str], Turn] = {}
        self._starting = asyncio.Lock()
        self._last_runs: OrderedDict[str, AgentRun] = OrderedDict()
        self._following: set[asyncio.Task[None]] = set()  # what goes on after turns

    def active(self) -> list[str]:
        return list(self._active)

    def is_active(self, session_id: str) -> bool:
        return session_id in self._active

    async def start(self, request: TurnRequest) -> TurnStream:
        """Or follow the turn in which that message was said. ConflictError: another goes on."""
        message_id = request.message_id
        if message_id is None:
            return (await self._begin(request)).stream
        async with self._starting:  # one that is sent again may overtake the first
            sent = (self._module.current_call.key, message_id)
            if sent in self._going:
                return self._going[sent].stream
            new = new_session_id(message_id)
            if request.session_id is None and await self._sessions.known_ids([new]):
                request = replace(request, session_id=new)
            stream = await self._said(request)
            if stream is not None:
                return stream
            turn = await self._begin(request)
            turn.sent, self._going[sent] = sent, turn
            return turn.stream

    async def _said(self, request: TurnRequest) -> TurnStream | None:
        """From the session's file, so that a restart forgets nothing; None: it was not said."""
        if request.session_id is None:
            return None
        session, messages = await self._sessions.get_with_messages(request.session_id)
        place = next((at for at, one in enumerate(messages) if one.id == request.message_id), None)
        if place is None:
            return None
        question = messages[place]
        following = takewhile(lambda one: not one.is_question, messages[place + 1 :])
        answers = [one for one in following if one.role == "assistant" and not one.meta.get("cut")]
        if not answers:
            return await self.follow(session.id)
        ended = EndedTurn(
            session=session, messages=messages, question=question, answer=answers[-1], number=0
        )
        done = _done(Turn(request, TurnStream(), session), ended)
        return _replayed(session, question.content, answers[-1].content, done)

    async def ask(self, request: TurnRequest) -> EndedTurn:
        turn = await self._begin(request)
        async for _event in turn.stream.read():
            pass
        if turn.error is not None:
            raise turn.error
        if turn.ended is None:
            raise AgentStoppedError("the turn was stopped")
        return turn.ended

    async def forget(self, session_id: str) -> None:
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
        turn = Turn(request, TurnStream())
        if request.session_id is not None:
            file = await self._sessions.read(request.session_id)
            turn.session, turn.messages = file.session, file.messages
            if file.session.id in self._active:
                raise conflict(
                    "a turn of this conversation goes on; stop it, or say it to the agent that "
                    "works"
                )
            self._keep(turn, file.session)
        turn.stream.send(session_event(turn.session, turn.resumption))
        turn.task = self._module.spawn(self._run, turn, name="a turn")
        return turn

    async def follow(self, session_id: str, after: str | None = None) -> TurnStream:
        """The last turn, or that of the event `after`. After a restart a question without an answer
        is shown as cut off.
        """
        session, messages = await self._sessions.get_with_messages(session_id)
        if session.id in self._streams:
            *before, last = self._streams[session.id]
            return next((stream for stream in before if stream.goes_on_after(after)), last)
        asked = next((message for message in reversed(messages) if message.role == "user"), None)
        if asked is None or (messages[-1] is not asked and not messages[-1].meta.get("cut")):
            return _ended_stream()
        said = "" if messages[-1] is asked else messages[-1].content
        return _replayed(session, asked.content, said, cut_off(session.id))

    async def ask_again(self, session_id: str) -> TurnStream:
        session, messages = await self._sessions.get_with_messages(session_id)
        last = next((message for message in reversed(messages) if message.role == "user"), None)
        if last is None:
            raise NotFoundError("this conversation has no question yet")
        return await self.start(
            TurnRequest(message=last.content, session_id=session.id, is_again=True)
        )

    async def abort(self, session_id: str, message_id: str | None = None) -> None:
        """`message_id`: only the turn in which that was said. NotFoundError: it goes on no more."""
        turn = self._turn_of(session_id)
        if message_id not in {None, turn.request.message_id}:
            raise _no_turn(session_id)
        turn.is_aborted = True
        await _stop(turn)

    async def inject(self, session_id: str, text: str) -> None:
        """NotFoundError: no agent works, or it listens no longer. QueueFullError."""
        turn = self._turn_of(session_id)
        if turn.run is None:
            raise QueueFullError("the agent has not started yet; try again in a moment")
        if turn.waiting >= _MOST_INJECTED:
            raise QueueFullError
        if not await turn.run.inject(text):
            raise _no_turn(session_id)
        turn.waiting += 1
        await self.work.keep_injected(turn, text)

    async def answer(self, session_id: str, request_id: str, answers: object) -> None:
        """NotFoundError: nothing waits for that answer."""
        turn, question = await self._asked(session_id, request_id)
        if turn.run is None or not await turn.run.answer(question.id, question.value_of(answers)):
            raise _no_question(request_id)
        turn.steps.questions.pop(request_id, None)
        turn.stream.send({"type": "answered", "requestId": request_id})

    async def decide(self, session_id: str, request_id: str, decision: object) -> None:
        _, question = await self._asked(session_id, request_id)
        await self.answer(session_id, request_id, question.words_for(decision))

    async def _asked(self, session_id: str, request_id: str) -> tuple[Turn, OpenQuestion]:
        turn = self._active.get((await self._sessions.get(session_id)).id)
        if turn is None or request_id not in turn.steps.questions:
            raise _no_question(request_id)
        return turn, turn.steps.questions[request_id]

    async def preview(self, session_id: str, message: str) -> dict[str, object]:
        session = await self._sessions.get(session_id)
        limited = self._chats.limited(session)
        request = TurnRequest(message=message, is_typed=True, is_shared=limited is not session)
        return await self.work.parts.preview(limited, request)

    async def pending(self, session_id: str) -> Sequence[OpenQuestion]:
        turn = self._active.get((await self._sessions.get(session_id)).id)
        return [] if turn is None else list(turn.steps.questions.values())

    async def _run(self, turn: Turn) -> None:
        """It ends with exactly one last event, whatever happens."""
        last: Event | None = None
        turn.has_started = True
        try:
            if turn.is_aborted or turn.is_ending:
                raise AgentStoppedError(STOPPED)
            turn.ended = await self.work.answer(turn, self._created)
            last = _done(turn, turn.ended)
        except asyncio.CancelledError:
            if not (turn.is_aborted or turn.is_ending):  # the question stands in the session
                last = cut_off(turn.session_id)
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
            for follower in self.followers:
                task = self._module.spawn(self._tell, follower, turn.ended, name="after a turn")
                self._following.add(task)
                task.add_done_callback(self._following.discard)

    async def _last_of_stopped(self, turn: Turn) -> Event:
        mark: dict[str, object] = {"aborted": True} if turn.is_aborted else {"cut": "restart"}
        try:
            await self.work.keep_partial(turn, **mark)
        except ParachuteError as error:
            return typed_error(error, turn.session_id)
        if not turn.is_aborted:
            return cut_off(turn.session_id)
        return {
            "type": "aborted",
            "message": STOPPED,
            "sessionId": turn.session_id or "",
            "partialResponse": turn.steps.text,
        }

    async def _last_of_failed(self, turn: Turn, error: ParachuteError) -> Event:
        turn.error = error
        last = typed_error(error, turn.session_id)
        try:
            await self.work.keep_partial(turn, cut=last["code"])
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
        self._keep(turn, session)
        turn.stream.send(session_event(session, turn.resumption))

    def _keep(self, turn: Turn, session: Session) -> None:
        """Its stream and the one before can be read; of idle sessions the oldest are forgotten."""
        turn.session, self._active[session.id] = session, turn
        before = self._streams.pop(session.id, [])
        self._streams[session.id] = [*before[-1:], turn.stream]
        idle = [stream for stream in self._streams if stream not in self._active]
        for one in idle[: max(0, len(self._streams) - _MOST_STREAMS)]:
            del self._streams[one]

    def _turn_of(self, session_id: str) -> Turn:
        if not self.is_active(session_id):
            raise _no_turn(session_id)
        return self._active[session_id]


def _done(turn: Turn, ended: EndedTurn) -> Event:
    session = ended.session
    return {
        "type": "done",
        "sessionId": session.id,
        "model": session.model,
        "durationMs": round((time.monotonic() - turn.began) * 1_000),
        "title": session.title,
        "sessionResume": turn.resumption.document(),
        "response": ended.answer.content,
        "workingDirectory": session.working_directory,
        "messageCount": session.message_count,
        "messageId": ended.answer.id,
        "runId": ended.run_id,
        "spawned": [],
        "toolCalls": len(turn.steps.tools),
        "permissionDenials": [],
    }


def _replayed(session: Session, asked: str, said: str, last: Event) -> TurnStream:
    """A turn of which only the file is left."""
    stream = TurnStream()
    stream.send(session_event(session, Resumption(earlier=session.message_count)))
    stream.send({"type": "user_message", "content": asked})
    stream.send(said)
    stream.send(last)
    return stream


def _ended_stream() -> TurnStream:
    stream = TurnStream()
    stream.is_active = False
    return stream


async def _stop(turn: Turn) -> None:
    if turn.run is not None:
        await turn.run.stop()
    elif turn.has_started and turn.task is not None:  # else nothing of it would run, nor its end
        turn.task.cancel()


def _no_turn(session_id: str) -> NotFoundError:
    return NotFoundError(f"no turn goes on in the conversation {session_id[:80]}")


def _no_question(request_id: str) -> NotFoundError:
    return NotFoundError(f"no question {request_id[:80]!r} waits for an answer")
