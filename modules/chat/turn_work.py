"""A turn as its story: open the session, ask, prompt, run the agent, keep the answer."""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from parachuted.errors import AgentStoppedError
from parachuted.modules import (
    AgentResult,
    AgentSession,
    Finding,
    Module,
    reading,
)

from .brain import Bridge
from .messages import Message, new_message_id
from .no_model import answer_from_notes, remembered
from .permissions import (
    MAINTENANCE,
    MAINTENANCE_ENDED,
    MAINTENANCE_STARTED,
    SharedChats,
    maintenance_words,
    mode_for,
    mode_of,
    reading_too,
    reads_by,
    trust_level_of,
)
from .prompt import ComposedPrompt, Resuming
from .prompt_parts import PromptInputs, PromptParts, own_folder
from .session import Session, now
from .sessions import Sessions
from .turn import EndedTurn, RunSessions, Turn
from .turn_events import session_event
from .workspaces import find_workspace
from .write_back import WriteBack

STOPPED: Final = "Stopped."
_NEW_SESSIONS: Final = uuid.UUID("c0a4f1de-5d0b-4b56-9a39-6a1f0f2b7d11")
_FILES: Final = "Chat/artifacts"
_MOST: Final = 20
_LARGEST: Final = 20 << 20
_TOO_LARGE: Final = f"it is larger than {_LARGEST >> 20} MB"
_NO_NAME: Final = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|#^\[\]{}$]+')
_LONGEST_NAME: Final = 160  # bytes
_SOUNDS: Final = (".wav", ".mp3", ".m4a", ".ogg", ".opus", ".webm", ".flac", ".aac")

Created = Callable[[Turn, Session], None]
Words = tuple[str, Mapping[str, object]]
"""What is answered without a model, and what is kept of the answer."""


def new_session_id(message_id: str) -> str:
    """The id of the session that a message begins, the same each time it is sent."""
    return str(uuid.uuid5(_NEW_SESSIONS, message_id))


class TurnWork:
    def __init__(self, module: Module, sessions: Sessions, chats: SharedChats) -> None:
        self._module, self._sessions, self._chats = module, sessions, chats
        self.bridge = Bridge(module, sessions)
        self.parts = PromptParts(module, self.bridge)
        self.run_sessions = RunSessions()
        self.write_back = WriteBack(module)
        self._resuming = Resuming(module, sessions)

    async def answer(self, turn: Turn, created: Created) -> EndedTurn:
        session = await self._open(turn, created)
        limited = await self._chats.hold(session, turn.request.chat)
        if limited is not session:
            turn.request = replace(turn.request, is_typed=False, is_shared=True)
        files = await self._save_files(turn)
        question, earlier = await self._ask(turn, files)
        said = await self._maintenance(turn, session)
        if said is not None:
            return await self._say(turn, *said)
        is_maintained = turn.request.is_typed and await self._module.state.get(
            _maintained(session), False
        )
        level = trust_level_of(turn.request.trust_level)
        mode = mode_for(level, MAINTENANCE if is_maintained else mode_of(limited.mode))
        inputs, prompt = await self.parts.make(turn.request, limited, mode)
        turn.stream.send(await self.parts.event(inputs, prompt))
        if not self._module.has_model:
            return await self._say(turn, *await self._without_model(turn, inputs, question))
        seen = [file for file in files if not _is_recording(file)]
        result = await self._run(turn, inputs, prompt, earlier, seen)
        return await self._finish(turn, inputs, result)

    async def _open(self, turn: Turn, created: Created) -> Session:
        request, session = turn.request, turn.session
        if session is None:
            session = await self._create(turn)
            created(turn, session)
        wanted: dict[str, Any] = {
            "model": request.model,
            "agent": request.agent,
            "context_folders": request.contexts,
            "working_directory": request.working_directory,
        }
        changes = {
            name: value
            for name, value in wanted.items()
            if value and value != getattr(session, name)
        }
        if changes:
            session = await self._sessions.change(session.id, **changes)
        turn.session, turn.steps.session_id = session, session.id
        return session

    async def _create(self, turn: Turn) -> Session:
        request = turn.request
        workspace: Mapping[str, Any] = {}
        if request.workspace:
            workspace = await find_workspace(self._module, request.workspace)
        folder = request.working_directory or workspace.get("working_directory")
        mode = mode_of("workspace" if folder else None)
        for level in (workspace.get("default_trust_level"), request.trust_level):
            mode = mode_for(trust_level_of(level), mode)
        return await self._sessions.create(
            id=request.message_id and new_session_id(request.message_id),
            mode=mode.name,
            model=request.model or workspace.get("model"),
            agent=request.agent,
            workspace=request.workspace,
            working_directory=folder,
            context_folders=request.contexts,
            continued_from=request.continued_from,
            source=request.source,
        )

    async def _save_files(self, turn: Turn) -> list[str]:
        files, findings = list[str](), list[Finding]()
        for place, attached in enumerate(turn.request.attachments):
            with reading(str(attached.get("fileName") or "file")[:200], findings):
                files.append(await self._save_file(attached, place))
        _warn(turn, "attachment_save_failed", "A file was left out", findings)
        words, findings = [turn.request.message.strip()], list[Finding]()
        for path in () if turn.request.is_again else filter(_is_recording, files):
            with reading(path, findings):
                words.append(await self._transcribe(path))
        _warn(turn, "transcription_failed", "A recording was not transcribed", findings)
        turn.request = replace(turn.request, message="\n\n".join(filter(None, words)))
        return files

    async def _save_file(self, attached: Mapping[str, Any], place: int) -> str:
        data, name = attached.get("base64Data"), str(attached.get("fileName") or "file")
        if place >= _MOST:
            raise ValueError(f"a message has at most {_MOST} files")
        if not data:
            path = str(attached.get("filePath") or "").strip("/")
            if not path or not await self._module.vault.exists(path):
                raise ValueError("there is no such file in the vault")
            return path
        if len(data) > _LARGEST * 4 // 3 + 4:
            raise ValueError(_TOO_LARGE)
        try:
            content = base64.b64decode(str(data), validate=True)
        except binascii.Error as error:
            raise ValueError("its content is not base64") from error
        clean = " ".join(_NO_NAME.sub(" ", name).split()).lstrip(".") or "file"
        clean = clean.encode("utf-8", "replace")[-_LONGEST_NAME:].decode("utf-8", "ignore")
        stem, dot, suffix = clean.rpartition(".")
        unique = new_message_id()[:6]
        called = f"{stem} {unique}.{suffix}" if dot else f"{clean} {unique}"
        path = f"{_FILES}/{now()[:10]} {called}"
        await self._module.vault.write_bytes(path, content)
        return path

    async def _transcribe(self, path: str) -> str:
        journal: Any = self._module.get_interface("JournalInterface")
        if journal is None:
            raise ValueError("no module that transcribes is there; install Daily")
        data = await self._module.vault.read_bytes(path)
        if len(data) > _LARGEST:
            raise ValueError(_TOO_LARGE)
        name = path.rpartition("/")[2]
        return str(await journal.transcribe(base64.b64encode(data).decode(), name)).strip()

    async def _ask(self, turn: Turn, files: Sequence[str]) -> tuple[Message, list[Message]]:
        """A question that got no answer, such as before a crash, is not put there twice."""
        text, earlier = turn.request.message.strip(), turn.messages
        last = next((at for at in reversed(range(len(earlier))) if earlier[at].role == "user"), -1)
        is_open = last == len(earlier) - 1 and earlier and earlier[last].content.strip() == text
        if last >= 0 and (turn.request.is_again or is_open):
            turn.question, earlier = earlier[last], earlier[:last]
        else:
            turn.question = Message(
                id=turn.request.message_id or new_message_id(),
                role="user",
                content=text + "".join(f"\n\n![[{path}]]" for path in files),
                at=now(),
                meta={"source": turn.request.source},
            )
            await self._write(turn, turn.question)
        turn.number = max(1, sum(message.is_question for message in [*earlier, turn.question]))
        turn.stream.send({"type": "user_message", "content": turn.question.content})
        return turn.question, earlier

    async def _maintenance(self, turn: Turn, session: Session) -> Words | None:
        """`/maintenance`, alone or with a question, which is asked then."""
        said = maintenance_words(turn.request.message) if turn.request.is_typed else None
        if said is None:
            return None
        await self._module.state.put(_maintained(session), said != "off")
        if said in {"", "off"}:
            return MAINTENANCE_ENDED if said else MAINTENANCE_STARTED, {"source": "maintenance"}
        turn.request = replace(turn.request, message=said)
        return None

    async def _without_model(self, turn: Turn, inputs: PromptInputs, question: Message) -> Words:
        session, said = inputs.session, turn.request.message
        facts = await self.write_back.keep(session, turn.number, said, "")
        meta: dict[str, object] = {"without_model": True, "stored": [fact.id for fact in facts]}
        if facts:
            return remembered(facts), {"source": "brain", **meta}
        permissions = session.permissions
        is_all = permissions is None or reads_by(permissions, "brain")
        reach = None if is_all else inputs.narrowing.read
        text, notes = await answer_from_notes(self._module, question.content, reach)
        return text, {**meta, "source": "notes", "notes": notes}

    async def _run(
        self,
        turn: Turn,
        inputs: PromptInputs,
        prompt: ComposedPrompt,
        earlier: list[Message],
        attached: list[str],
    ) -> AgentResult:
        session = inputs.session
        plan = await self._resuming.plan(turn.request, session, inputs.mode, earlier)
        turn.resumption, history = plan
        turn.stream.send(session_event(session, turn.resumption, inputs.mode.trust_level))
        before = f"{turn.request.before}\n\n" if turn.request.before else ""
        with self.run_sessions.starting():
            turn.run = await self._module.agent(inputs.mode.agent).start(
                before + turn.request.message,
                conversation=True,
                conversation_id=session.id,
                conversation_folder=inputs.folder or None,
                session_id=turn.resumption.transcript,
                history=history,
                model=session.model or (inputs.agent.model if inputs.agent else None),
                system_prompt=prompt.text,
                context=prompt.with_message,
                attachments=attached,
                working_directory=own_folder(inputs.mode, inputs.folder),
                narrowing=reading_too(inputs.narrowing, attached),
            )
            self.run_sessions.add(turn.run.id, session.id)
        if turn.is_aborted:
            await turn.run.stop()
        async for step in turn.run:
            await self._follow(turn, step)
        result: AgentResult = await turn.run.result()
        if turn.is_aborted:
            raise AgentStoppedError(STOPPED)
        return result

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
        for event in turn.steps.read(step):
            turn.stream.send(event)

    async def _finish(self, turn: Turn, inputs: PromptInputs, result: AgentResult) -> EndedTurn:
        for one in turn.steps.end_thought():
            turn.stream.send(one)
        if not turn.steps.text:
            turn.stream.send(result.text)
            turn.steps.text = result.text
        meta: dict[str, object] = {"outcome": result.outcome, "cost_usd": result.cost_usd}
        if result.suggestions:
            meta["suggestions"] = list(result.suggestions)
        ended = await self._end(turn, meta, result.run_id)
        made_with = replace(inputs.session, history=ended.session.history)
        transcript = result.session_id or turn.transcript or None
        if not _is_all_read(turn, ended.messages):
            transcript = None
        await self._resuming.keep(made_with, inputs.mode, transcript)
        return ended

    async def _say(self, turn: Turn, text: str, meta: Mapping[str, object]) -> EndedTurn:
        turn.steps.text = text
        turn.stream.send(text)
        return await self._end(turn, meta)

    async def _end(
        self, turn: Turn, meta: Mapping[str, object], run_id: str | None = None
    ) -> EndedTurn:
        answer = await self._append(turn, meta)
        session, messages = await self._sessions.get_with_messages(turn.session_id or "")
        return EndedTurn(
            session=session,
            messages=messages,
            question=turn.question or answer,
            answer=answer,
            number=turn.number,
            run_id=run_id,
        )

    async def keep_partial(self, turn: Turn, **mark: object) -> None:
        """Keep what came so far, with the mark."""
        if turn.question is not None and turn.steps.text:
            await self._append(turn, mark)

    async def keep_injected(self, turn: Turn, text: str) -> None:
        if turn.session is None:
            return
        meta = {"source": turn.request.source, "injected": True}
        message = Message(id=new_message_id(), role="user", content=text, at=now(), meta=meta)
        await self._write(turn, message)
        turn.stream.send({"type": "injected", "content": text})

    async def _append(self, turn: Turn, meta: Mapping[str, object]) -> Message:
        details = {"source": turn.request.source, **meta}
        if turn.run is not None:
            details["run"] = turn.run.id
        failed = [tool.id for tool in turn.steps.tools if tool.id in turn.steps.failed]
        if failed:
            details["failed"] = failed
        answer = Message(
            id=turn.answer_id,  # what is tried again is there once
            role="assistant",
            content=turn.steps.text,
            at=now(),
            tools=tuple(turn.steps.tools),
            meta=details,
        )
        await self._write(turn, answer)
        return answer

    async def _write(self, turn: Turn, message: Message) -> None:
        if turn.session_id is not None:
            turn.written.append(message)
            await self._sessions.append(turn.session_id, message)


def _is_all_read(turn: Turn, messages: Sequence[Message]) -> bool:
    """False where a person wrote in the file meanwhile, which the agent has not read."""
    known = {(message.id, message.digest) for message in [*turn.messages, *turn.written]}
    return known.issuperset((message.id, message.digest) for message in messages)


def _maintained(session: Session) -> str:
    return f"maintenance.{session.id}"


def _is_recording(path: str) -> bool:
    return path.casefold().endswith(_SOUNDS)


def _warn(turn: Turn, code: str, title: str, findings: Iterable[Finding]) -> None:
    for finding in findings:
        message = f"{finding.path}: {finding.problem}"
        turn.stream.send(
            {"type": "warning", "code": code, "title": title, "message": message, "details": []}
        )
