"""The work of one turn: the question into the session, the prompt, the agent's run, the answer into
the session.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from parachuted.errors import AgentStoppedError
from parachuted.modules import (
    AgentPermissionRequest,
    AgentResult,
    AgentSession,
    AgentUsage,
    Module,
)

from .attachments import is_recording, save_attachments, words_of
from .messages import Message, new_message_id
from .no_model import account_of, answer_from_notes, asks_for_account, remembered
from .permissions import (
    MAINTENANCE,
    MAINTENANCE_ENDED,
    MAINTENANCE_STARTED,
    maintenance_words,
    mode_for,
    mode_of,
    reading_too,
    reads_by,
    trust_level_of,
)
from .prompt import ComposedPrompt
from .prompt_parts import PromptOrder, PromptParts, own_folder
from .resuming import Resuming
from .run_sessions import RunSessions
from .session import Session, now
from .sessions import Sessions
from .shared_chats import SharedChats
from .turn import EndedTurn, Turn
from .turn_events import Event, session_event
from .turn_questions import OpenQuestions
from .workspaces import find_workspace
from .write_back import WriteBack

_WINDOW: Final = 200_000
_NEARLY_FULL: Final = 0.8
STOPPED: Final = "Stopped."

_NEW_SESSIONS: Final = uuid.UUID("c0a4f1de-5d0b-4b56-9a39-6a1f0f2b7d11")

Created = Callable[[Turn, Session], None]


def new_session_id(message_id: str) -> str:
    """The id of the session that a message begins, the same each time it is sent."""
    return str(uuid.uuid5(_NEW_SESSIONS, message_id))


class TurnWork:
    def __init__(self, module: Module, sessions: Sessions, chats: SharedChats) -> None:
        self._module, self._sessions, self._chats = module, sessions, chats
        self.parts = PromptParts(module)
        self.questions = OpenQuestions(module.state)
        self.run_sessions = RunSessions()
        self.write_back = WriteBack(module)
        self._resuming = Resuming(module, sessions)

    async def answer(self, turn: Turn, created: Created) -> EndedTurn:
        """Do all of it; what is said meanwhile goes into the turn's stream. Raises what ended it
        otherwise.
        """
        session = turn.session or await self._create(turn, created)
        if self._sessions.has_unwritten(session.id):
            await self._write_refused(turn, session)
        session = turn.session = await self._changed(turn.session or session, turn)
        turn.steps.session_id = session.id
        limited = await self._chats.hold(session, turn.request.chat)
        if limited is not session:
            turn.request = replace(turn.request, is_typed=False, is_shared=True)
        attached = await save_attachments(self._module, turn.request.attachments, turn.stream.send)
        attached, links = await self._heard(turn, attached)
        question, earlier = await self._asked(turn, session, turn.messages, links)
        turn.number = max(1, sum(one.is_question for one in [*earlier, question]))
        turn.stream.send({"type": "user_message", "content": question.content})
        if asks_for_account(turn.request.message):
            return await self._say(
                turn,
                account_of(earlier, self.write_back.of_session(session.id)),
                {"source": "runs"},
            )
        said = maintenance_words(turn.request.message) if turn.request.is_typed else None
        if said is not None:
            await self._module.state.put(_maintained(session), said != "off")
            if said in {"", "off"}:
                words = MAINTENANCE_ENDED if said else MAINTENANCE_STARTED
                return await self._say(turn, words, {"source": "maintenance"})
            turn.request = replace(turn.request, message=said)
        level = trust_level_of(turn.request.trust_level)
        is_maintained = turn.request.is_typed and await self._module.state.get(
            _maintained(session), False
        )
        mode = mode_for(level, MAINTENANCE if is_maintained else mode_of(limited.mode))
        order, prompt = await self.parts.make(turn.request, limited, mode)
        turn.stream.send(await self.parts.event(order, prompt))
        if not self._module.has_model:
            return await self._answer_without_model(turn, order, question)
        return await self._run(turn, order, prompt, earlier, attached)

    async def _write_refused(self, turn: Turn, session: Session) -> None:
        turn.waits_for_file = True
        refused = await self._sessions.unwritten(session.id)
        if refused is not None and refused.content.strip() == turn.request.message.strip():
            await self._sessions.ensure_written(session.id, refused)  # it is kept once
        turn.session, turn.messages = await self._sessions.get_with_messages(session.id)

    async def _answer_without_model(
        self, turn: Turn, order: PromptOrder, question: Message
    ) -> EndedTurn:
        session, said = order.session, turn.request.message
        kept = await self.write_back.keep_if_on(session, turn.number, said, "")
        meta: dict[str, object] = {"without_model": True, "stored": [one.id for one in kept]}
        if kept:
            return await self._say(turn, remembered(kept), {"source": "brain", **meta})
        permissions = session.permissions
        is_all = permissions is None or reads_by(permissions, "brain")
        reach = None if is_all else order.narrowing.read
        text, notes = await answer_from_notes(self._module, question.content, reach)
        return await self._say(turn, text, {**meta, "source": "notes", "notes": notes})

    async def keep_partial(self, turn: Turn, *, is_over: bool, **mark: object) -> None:
        """Keep what came so far, with the mark, and the open questions unless it `is_over`."""
        if turn.question is not None and turn.steps.text:
            await self._append(turn, mark)
        if is_over:
            await self._clear(turn)

    async def keep_injected(self, turn: Turn, text: str) -> None:
        if turn.session is None:
            return
        meta = {"source": turn.request.source, "injected": True}
        said = Message(id=new_message_id(), role="user", content=text, at=now(), meta=meta)
        await self._sessions.append(turn.session.id, said)
        turn.stream.send({"type": "injected", "content": text})

    def done_event(self, turn: Turn, ended: EndedTurn) -> Event:
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

    async def _create(self, turn: Turn, created: Created) -> Session:
        asked = turn.request
        workspace: Mapping[str, Any] = {}
        if asked.workspace:
            workspace = await find_workspace(self._module, asked.workspace)
        folder = asked.working_directory or workspace.get("working_directory")
        mode = mode_of("workspace" if folder else None)
        for level in (workspace.get("default_trust_level"), asked.trust_level):
            mode = mode_for(trust_level_of(level), mode)
        fields: dict[str, Any] = {
            "mode": mode.name,
            "model": asked.model or workspace.get("model"),
            "agent": asked.agent,
            "workspace": asked.workspace,
            "working_directory": folder,
            "context_folders": asked.contexts,
            "continued_from": asked.continued_from,
            "source": asked.source,
        }
        if asked.message_id:
            fields["id"] = new_session_id(asked.message_id)
        given = {name: value for name, value in fields.items() if value}
        session = await self._sessions.create(**given)
        created(turn, session)
        return session

    async def _changed(self, session: Session, turn: Turn) -> Session:
        asked = turn.request
        wanted: dict[str, Any] = {
            "model": asked.model,
            "agent": asked.agent,
            "context_folders": asked.contexts,
            "working_directory": asked.working_directory,
        }
        changes = {
            name: value
            for name, value in wanted.items()
            if value and value != getattr(session, name)
        }
        return await self._sessions.change(session.id, **changes) if changes else session

    async def _heard(self, turn: Turn, attached: list[str]) -> tuple[list[str], list[str]]:
        """What an agent can look at of the files, and all of them; what recordings say is part of
        the message.
        """
        recordings = [one for one in attached if is_recording(one)]
        if recordings and not turn.request.is_again:
            words = await words_of(self._module, recordings, turn.stream.send)
            message = "\n\n".join(filter(None, [turn.request.message.strip(), *words]))
            turn.request = replace(turn.request, message=message)
        return [one for one in attached if one not in recordings], attached

    async def _asked(
        self, turn: Turn, session: Session, messages: list[Message], attached: list[str]
    ) -> tuple[Message, list[Message]]:
        """The question in the session, and the messages before it. One that got no answer, such as
        before a crash, is not put there twice.
        """
        text = turn.request.message.strip()
        places = [number for number, one in enumerate(messages) if one.role == "user"]
        if places and (turn.request.is_again or places[-1] == len(messages) - 1):
            last = messages[places[-1]]
            if turn.request.is_again or last.content.strip() == text:
                turn.question = last
                return last, messages[: places[-1]]
        links = "".join(f"\n\n![[{path}]]" for path in attached)
        meta = {"source": turn.request.source}
        question = Message(
            id=turn.request.message_id or new_message_id(),
            role="user",
            content=text + links,
            at=now(),
            meta=meta,
        )
        await self._sessions.append(session.id, question)
        if turn.waits_for_file:
            await self._sessions.ensure_written(session.id, question)
        turn.question = question
        return question, messages

    async def _run(
        self,
        turn: Turn,
        order: PromptOrder,
        prompt: ComposedPrompt,
        earlier: list[Message],
        attached: list[str],
    ) -> EndedTurn:
        session = order.session
        plan = await self._resuming.plan(turn.request, session, order.mode, earlier)
        turn.resumption, history = plan
        turn.stream.send(session_event(session, turn.resumption, order.mode.trust_level))
        before = f"{turn.request.before}\n\n" if turn.request.before else ""
        with self.run_sessions.starting():
            turn.run = await self._module.agent(order.mode.agent).start(
                before + turn.request.message,
                conversation=True,
                conversation_id=session.id,
                conversation_folder=order.folder or None,
                session_id=turn.resumption.transcript,
                history=history,
                model=session.model or (order.agent.model if order.agent else None),
                system_prompt=prompt.text,
                context=prompt.with_message,
                attachments=attached,
                working_directory=own_folder(order.mode, order.folder),
                narrowing=reading_too(order.narrowing, attached),
            )
            self.run_sessions.add(turn.run.id, session.id)
        if turn.is_aborted:
            await turn.run.stop()
        async for step in turn.run:
            await self._follow(turn, step)
        result = await turn.run.result()
        if turn.is_aborted:
            raise AgentStoppedError(STOPPED)
        return await self._finish(turn, order, result)

    async def _follow(self, turn: Turn, step: Any) -> None:  # noqa: ANN401  any of its steps
        turn.waiting = 0
        if isinstance(step, AgentSession):
            turn.transcript = step.session_id
            is_lost = turn.resumption.transcript is not None and not step.is_resumed
            turn.resumption = replace(turn.resumption, is_lost=is_lost)
            turn.stream.send({"type": "init", "tools": list(step.tools), "permissionMode": None})
            if step.model:
                turn.stream.send({"type": "model", "model": step.model})
            return
        if isinstance(step, AgentPermissionRequest) and await self._has_decided(turn, step):
            return
        known = set(turn.steps.questions)
        events = turn.steps.read(step)
        for request_id in set(turn.steps.questions) - known:  # before it is shown
            await self.questions.add(turn.session_id or "", turn.steps.questions[request_id])
        for one in events:
            turn.stream.send(one)
        if isinstance(step, AgentUsage):
            self._warn(turn)

    async def _has_decided(self, turn: Turn, step: AgentPermissionRequest) -> bool:
        """Answer what the person answered already, when the daemon that had asked was gone."""
        if turn.request.decided is None or turn.run is None:
            return False
        asked, value = turn.request.decided
        if (step.tool, dict(step.arguments)) != (asked.tool, dict(asked.arguments)):
            return False
        turn.request = replace(turn.request, decided=None)
        return await turn.run.answer(step.id, value)

    def _warn(self, turn: Turn) -> None:
        if turn.has_warned or turn.steps.context_tokens < _NEARLY_FULL * _WINDOW:
            return
        turn.has_warned = True
        turn.stream.send(
            {
                "type": "warning",
                "code": "context_exceeded",
                "title": "The conversation is nearly too long",
                "message": "It fills four fifths of what the model can read at once. Its older "
                "part will be summed up soon.",
                "details": [f"{turn.steps.context_tokens:,} of {_WINDOW:,} tokens"],
                "sessionId": turn.session_id,
            }
        )

    async def _finish(self, turn: Turn, order: PromptOrder, result: AgentResult) -> EndedTurn:
        for one in turn.steps.end_thought():
            turn.stream.send(one)
        if not turn.steps.text:
            turn.stream.send(result.text)
            turn.steps.text = result.text
        await self._ensure_asked(turn)
        meta: dict[str, object] = {"outcome": result.outcome, "cost_usd": result.cost_usd}
        if result.suggestions:
            meta["suggestions"] = list(result.suggestions)
        answer = await self._append(turn, meta)
        await self._clear(turn)
        session = await self._sessions.get(order.session.id)
        transcript = result.session_id or turn.transcript
        made_with = replace(order.session, history=session.history)
        await self._resuming.keep(made_with, order.mode, transcript)
        return _ended(turn, session, answer, result.run_id)

    async def _say(self, turn: Turn, text: str, meta: Mapping[str, object]) -> EndedTurn:
        await self._ensure_asked(turn)
        turn.steps.text = text
        turn.stream.send(text)
        answer = await self._append(turn, meta)
        return _ended(turn, await self._sessions.get(turn.session_id or ""), answer)

    async def _append(self, turn: Turn, meta: Mapping[str, object]) -> Message:
        told = {"source": turn.request.source, **meta}
        if turn.run is not None:
            told["run"] = turn.run.id
        failed = [one.id for one in turn.steps.tools if one.id in turn.steps.failed]
        if failed:
            told["failed"] = failed
        answer = Message(
            id=new_message_id(),
            role="assistant",
            content=turn.steps.text,
            at=now(),
            tools=tuple(turn.steps.tools),
            meta=told,
        )
        if turn.session_id is not None:
            await self._sessions.append(turn.session_id, answer)
        return answer

    async def _ensure_asked(self, turn: Turn) -> None:
        """Raises what the session's file refuses the question for."""
        if turn.question is not None:
            await self._sessions.ensure_written(turn.session_id or "", turn.question)

    async def _clear(self, turn: Turn) -> None:
        if turn.session_id is not None and turn.steps.questions:
            await self.questions.clear(turn.session_id)


def _ended(turn: Turn, session: Session, answer: Message, run_id: str | None = None) -> EndedTurn:
    return EndedTurn(
        session=session,
        question=turn.question or answer,
        answer=answer,
        number=turn.number,
        run_id=run_id,
    )


def _maintained(session: Session) -> str:
    return f"maintenance.{session.id}"
