"""The conversation's curator: after some exchanges it keeps title, summary, log and context files.

It is a run of the agent `curator`, in a session of its own for each conversation. Without a model,
or where the run fails, plain rules do the same. It never delays a turn, and never fails one.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NotRequired
from weakref import WeakValueDictionary

from typing_extensions import TypedDict

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError, ParachuteError
from parachuted.modules import (
    AgentNarrowing,
    AppendSection,
    Finding,
    Module,
    NoteChange,
    reading,
)

from .plain_words import shortened, summary_from, title_from
from .prompt_parts import context_paths
from .session import Fields, Session, now, one_line
from .sessions import Sessions, TitleProtectedError, refuse_change
from .turn import RunSessions

_HISTORY: Final = "History"
_LONGEST_LINE: Final = 2_000
AGENT: Final = "curator"
ACTIVITY_TYPE: Final = "chat"
INSTRUCTIONS: Final = "Chat/.agents/curator.md"
UPDATE_TITLE: Final = "update_title"
UPDATE_SUMMARY: Final = "update_summary"
LOG_ACTIVITY: Final = "log_activity"
UPDATE_CONTEXT: Final = "update_context"

_FIRST_EXCHANGES: Final = frozenset({1, 3, 5})
_INTERVAL: Final = 10
_MOST_QUESTION: Final = 1_000
_MOST_ANSWER: Final = 2_000
_LIMIT_S: Final = 180.0
_MOST_TURNS: Final = 12
_STATE: Final = "curator/"
_LOGGED: Final = "logged/"  # the questions of a session whose exchanges are in the activity log
_MOST_LOGGED: Final = 20
_MOST_KEPT: Final = 100  # messages of its own session
_LONGEST_TITLE: Final = 200
_LONGEST_SUMMARY: Final = 1_000
_LONGEST_ACTIVITY: Final = 500


async def add_to_context(
    module: Module, session: Session, file_path: str, heading: str, content: str
) -> dict[str, str]:
    """Add to a section of a context file of the session's folders, or suggest that."""
    asked, files = file_path.strip().strip("/"), await context_files(module, session)
    meant = [file for file in files if asked in {file, file.rpartition("/")[0]}]
    if len(meant) != 1:
        listed = ", ".join(files) or "there are none"
        raise EditRefusedError(
            f"{asked[:200]!r} is not a context file of this conversation's folders: {listed}"
        )
    text = " ".join(content.replace("<!--", " ").replace("-->", " ").split()).lstrip("-*#> ")
    if not text:
        raise EditRefusedError("content should have words")
    (path,), text = meant, shortened(text, _LONGEST_LINE)
    note = await module.vault.note(path)
    there = note.section(heading)
    said = " ".join(there.content(note).casefold().split()) if there else ""
    if " ".join(text.casefold().split()).rstrip(".") in said:
        return {"status": "unchanged", "path": path}
    lines, reason = f"- {text}", f"From the conversation “{session.title or session.id}”"
    if heading == _HISTORY:
        at = dt.datetime.now(dt.UTC)
        lines = f"\n<!-- Added by curator on {at:%Y-%m-%d %H:%M} UTC -->\n{lines}"
    if module.current_call.is_strangers:
        payload = {"section": heading, "content": lines, "append": True}
        made = await module.suggest("update", path, payload, reasoning=reason)
        return {"status": "suggested", "path": path, "suggestion": made}
    change = NoteChange(path, [AppendSection(heading, lines)], base=note.digest)
    run = await module.vault.edit_all([change], reason=reason)
    return {"status": "ok", "path": path, "run": run}


async def context_files(module: Module, session: Session) -> list[str]:
    found: list[str] = []
    for folder in session.context_folders:
        there = [path for path in context_paths(folder) if await module.vault.exists(path)]
        found += there[:1]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    number: int
    question: str
    answer: str
    tools: tuple[str, ...] = ()
    question_id: str = ""

    @property
    def in_one_line(self) -> str:
        return summary_from([self.question], self.answer) or "An exchange without words"


class CuratorToolCall(TypedDict):
    id: str
    name: str
    input: dict[str, object]


class CuratorMessage(TypedDict):
    """A message of its own session, as the app reads it."""

    role: str
    content: str
    timestamp: str
    tool_calls: NotRequired[list[CuratorToolCall]]


@dataclass(slots=True)
class CuratorRun:
    exchange: Exchange
    calls: list[CuratorToolCall] = field(default_factory=list)
    new_title: str | None = None

    @property
    def actions(self) -> list[str]:
        return list(dict.fromkeys(call["name"] for call in self.calls))

    def did(self, tool: str, **arguments: object) -> None:
        number = len(self.calls) + 1
        self.calls.append({"id": f"call-{number}", "name": tool, "input": arguments})


def is_due(number: int) -> bool:
    return number in _FIRST_EXCHANGES or (number > 0 and number % _INTERVAL == 0)


def prompt_of(session: Session, exchange: Exchange) -> str:
    title = f'"{one_line(session.title)}"' if session.title else "none yet"
    if session.title_source == "user":
        title += " (set by the person: do not call update_title)"
    folders = ", ".join(session.context_folders) or "none"
    return (
        f"Title: {title}\nFolders: {folders}\nExchange {exchange.number}\n\n"
        f"The person:\n{_cut(exchange.question, _MOST_QUESTION)}\n\n"
        f"Tools that were used: {', '.join(exchange.tools) or 'none'}\n\n"
        f"The assistant:\n{_cut(exchange.answer, _MOST_ANSWER)}\n"
    )


class Curator:
    def __init__(self, module: Module, sessions: Sessions, runs: RunSessions) -> None:
        self._module, self._sessions, self._runs = module, sessions, runs
        self._at_work: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by session
        self._running: dict[str, CuratorRun] = {}  # by session
        self._waiting: dict[str, Fields] = {}  # fields by session
        self._logging = asyncio.Lock()

    async def observe(self, session_id: str, exchange: Exchange) -> None:
        """Look at an exchange that is due; runs of one session follow each other. Never raises."""
        lock = self._at_work.setdefault(session_id, asyncio.Lock())
        try:
            async with lock:
                file = await self._sessions.read(session_id)
                refuse_change(file)
                await self._observe(file.session, exchange)
        except ParachuteError as error:  # it was removed or is broken, or its key was revoked
            self._module.log.info(
                "a conversation's curator did not run",
                extra={"session": session_id, "why": error.message},
            )
        except Exception:  # what is wrong here is never a turn's matter
            self._module.log.exception("a conversation's curator failed")

    async def messages(self, session_id: str) -> list[CuratorMessage]:
        session = await self._sessions.get(session_id)  # for a caller who may read it
        held: Any = await self._module.state.get(_STATE + session.id)
        if not held:
            raise NotFoundError("The curator has not seen this conversation yet.")
        found: list[CuratorMessage] = held
        return found

    async def forget(self, session_id: str) -> None:
        for name in (_STATE, _LOGGED):
            await self._module.state.delete(name + session_id)

    async def set_title(self, session_id: str, title: str) -> dict[str, str]:
        wanted = _required(title, "title", _LONGEST_TITLE)
        try:
            await self._change(session_id, {"title": wanted, "title_source": "ai"})
        except TitleProtectedError:
            message = "Title set by user: it is not overwritten."
            return {"status": "protected", "message": message}
        run = self._running.get(session_id)
        if run is not None:
            run.new_title = wanted
        return {"status": "ok", "title": wanted}

    async def set_summary(self, session_id: str, summary: str) -> dict[str, str]:
        wanted = _required(summary, "summary", _LONGEST_SUMMARY)
        await self._change(session_id, {"summary": wanted})
        return {"status": "ok"}

    async def settle(self, session_id: str) -> None:
        fields = self._waiting.pop(session_id, None)
        if fields is None:
            return
        try:
            await self._sessions.change(session_id, **fields)
        except TitleProtectedError:  # the person gave it one meanwhile
            del fields["title"], fields["title_source"]
            await self._sessions.change(session_id, **fields)

    async def log_activity(self, session_id: str, summary: str) -> dict[str, str]:
        run = self._running.get(session_id)
        if run is None:  # it goes on after its run was given up, and rules have logged it
            return {"status": "too late"}
        session = await self._sessions.get(session_id)
        is_new = await self.log_exchange(session, run.exchange, summary)
        return {"status": "ok" if is_new else "logged already"}

    async def log_exchange(self, session: Session, exchange: Exchange, summary: str) -> bool:
        key = _LOGGED + session.id
        async with self._logging:
            logged: Any = await self._module.state.get(key, [])
            if exchange.question_id in logged:
                return False
            await self._module.activity.log(
                _required(summary, "summary", _LONGEST_ACTIVITY),
                session_id=session.id,
                session_title=session.title,
                agent_type=session.agent or ACTIVITY_TYPE,
                exchange_number=exchange.number,
            )
            await self._module.state.put(key, [*logged, exchange.question_id][-_MOST_LOGGED:])
        return True

    def noted(self, session_id: str, tool: str, **arguments: object) -> None:
        run = self._running.get(session_id)
        if run is not None:
            run.did(tool, **arguments)

    async def _change(self, session_id: str, fields: Fields) -> None:
        """What a run that has read a stranger's text says waits for `settle`."""
        if not self._module.current_call.is_strangers or self._module.current_call.run is None:
            await self._sessions.change(session_id, **fields)
            return
        session = await self._sessions.get(session_id)
        if "title" in fields and session.title_source == "user":
            raise TitleProtectedError("the person gave this session its title")
        self._waiting.setdefault(session.id, {}).update(fields)

    async def _observe(self, session: Session, exchange: Exchange) -> None:
        run = self._running[session.id] = CuratorRun(exchange)
        prompt, began = prompt_of(session, exchange), now()
        words, own_session = "", session.curator_session_id
        try:
            if self._module.has_model:
                words, own_session = await self._ask(session, prompt)
        except ParachuteError as error:
            self._module.log.info(
                "a conversation's curator goes by plain rules",
                extra={"session": session.id, "why": error.message},
            )
        finally:
            del self._running[session.id]
        await self.settle(session.id)
        if not run.calls:
            await self._by_rules(session, run)
        elif LOG_ACTIVITY not in run.actions:
            await self.log_exchange(session, exchange, exchange.in_one_line)
        done: dict[str, object] = {
            "ts": now(),
            "exchange_number": exchange.number,
            "actions": run.actions,
        }
        if run.new_title is not None:
            done["new_title"] = run.new_title
        await self._sessions.change(
            session.id, curator_last_run=done, curator_session_id=own_session
        )
        said: list[CuratorMessage] = [
            {"role": "user", "content": prompt, "timestamp": began},
            {"role": "assistant", "content": words, "timestamp": now(), "tool_calls": run.calls},
        ]
        held: Any = await self._module.state.get(_STATE + session.id, [])
        await self._module.state.put(_STATE + session.id, [*held, *said][-_MOST_KEPT:])

    async def _ask(self, session: Session, prompt: str) -> tuple[str, str | None]:
        try:
            return await self._run_agent(session, prompt, session.curator_session_id)
        except ParachuteError:
            if session.curator_session_id is None or self._running[session.id].calls:
                raise
            return await self._run_agent(session, prompt, None)

    async def _run_agent(
        self, session: Session, prompt: str, own_session: str | None
    ) -> tuple[str, str | None]:
        instructions = await self._instructions()
        tools = [UPDATE_TITLE] if session.title_source != "user" else []
        tools += [UPDATE_SUMMARY, LOG_ACTIVITY, UPDATE_CONTEXT]
        with self._runs.starting():
            run = await self._module.agent(AGENT).start(
                instructions + prompt,
                budget="conversation",
                session_id=own_session,
                timeout_s=_LIMIT_S,
                max_turns=_MOST_TURNS,
                narrowing=AgentNarrowing(tools=tuple(tools)),
            )
            self._runs.add(run.id, session.id, is_curator=True)
        result = await run.result()
        return result.text, result.session_id

    async def _instructions(self) -> str:
        """What the person wants of it besides, in a file that no agent can write."""
        text, findings = "", list[Finding]()
        with reading(INSTRUCTIONS, findings), suppress(NotFoundError, ActRefusedError):
            text = (await self._module.vault.note(INSTRUCTIONS)).body.strip()
        for finding in findings:
            why = {"path": finding.path, "why": finding.problem}
            self._module.log.warning("a curator goes without its instructions", extra=why)
        return f"The person's own instructions, which come first:\n{text}\n\n" if text else ""

    async def _by_rules(self, session: Session, run: CuratorRun) -> None:
        exchange = run.exchange
        messages = await self._sessions.messages(session.id)
        questions = [message.content for message in messages if message.role == "user"]
        title = title_from((questions or [exchange.question])[0])
        session = await self._sessions.get(session.id)  # an agent may have given it a title
        if title is not None and not session.title:
            done = await self.set_title(session.id, title)
            if done["status"] == "ok":
                run.did(UPDATE_TITLE, title=title)
                run.new_title = title
        summary = summary_from(questions or [exchange.question], exchange.answer)
        if summary is not None and session.summary != summary:
            await self.set_summary(session.id, summary)
            run.did(UPDATE_SUMMARY, summary=summary)
        session = await self._sessions.get(session.id)
        if await self.log_exchange(session, exchange, exchange.in_one_line):
            run.did(LOG_ACTIVITY, summary=exchange.in_one_line)


def _required(text: str, name: str, most: int) -> str:
    said = one_line(text)
    if not said:
        raise EditRefusedError(f"{name} should have words")
    return _cut(said, most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
