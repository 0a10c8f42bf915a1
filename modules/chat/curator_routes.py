"""The conversation's curator: its routes, its tools, and what is done after each exchange."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError, ParachuteError
from parachuted.modules import event, interface, mcp_tool, route

from .curator import (
    AGENT,
    LOG_ACTIVITY,
    UPDATE_CONTEXT,
    UPDATE_SUMMARY,
    UPDATE_TITLE,
    CuratorMessage,
    Exchange,
    add_to_context,
    is_due,
)
from .messages import Message
from .session_service import SessionService
from .turn import EndedTurn
from .write_back import StoredFact

_MOST_WORDS = 5_000
Words = Annotated[str, Field(min_length=1, max_length=_MOST_WORDS)]


class CuratorMessages(TypedDict):
    """What was said in the session of a conversation's curator."""

    messages: list[CuratorMessage]


class CuratorQueued(TypedDict):
    """The curator will run."""

    status: Literal["queued"]


class BridgeLog(TypedDict):
    """What a conversation had of Brain, turn by turn, and what it left there."""

    log: list[dict[str, object]]
    stored: list[StoredFact]


class CuratorRoutes(SessionService):
    @route("GET", "/{session_id}/curator/messages", tolerant=True)
    async def curator_messages(self, session_id: str) -> CuratorMessages:
        """What the curator of a conversation was shown, and what it did."""
        return {"messages": await self.curator.messages(session_id)}

    @route("POST", "/{session_id}/curator/trigger", tolerant=True)
    async def trigger_curator(self, session_id: str) -> CuratorQueued:
        """Let the curator look at the last exchange now."""
        session, messages = await self.sessions.get_with_messages(session_id)
        exchange = last_exchange(messages)
        if exchange is None:
            raise EditRefusedError("This conversation has no exchange yet.")
        self.spawn(self.curator.observe, session.id, exchange, name="a conversation's curator")
        return {"status": "queued"}

    @route("GET", "/{session_id}/bridge", tolerant=True)
    async def bridge_log(self, session_id: str) -> BridgeLog:
        """What a conversation loaded from Brain, and the facts that it left there."""
        session = await self.sessions.get(session_id)
        return {
            "log": [dict(one) for one in session.bridge_context_log],
            "stored": self.write_back.of_session(session.id),
        }

    @route("POST", "/{session_id}/bridge/{record_id}/undo", tolerant=True)
    async def undo_write_back(self, session_id: str, record_id: str) -> StoredFact:
        """Take a fact out of Brain again; it is not written a second time."""
        session = await self.sessions.get(session_id)
        return await self.write_back.undo(session.id, record_id)

    @interface("ConversationInterface")
    async def session_of_suggestion(self, suggestion_id: str, run: str | None) -> str | None:
        """The session whose agent or curator suggested that in its `run`, or whose exchange led to
        it; None: it is of no session.
        """
        worked_for = await self.turns.work.run_sessions.get(run)
        if worked_for is not None:
            return worked_for.session_id
        return await self.write_back.session_of(suggestion_id)

    @event("suggestion.resolved")
    async def on_resolved(self, id: str, status: str) -> None:  # noqa: A002  its name
        """A person decided on a suggestion."""
        await self.write_back.on_resolved(id, status)

    @event("run.undone")
    async def on_undone(self, run: str, paths: list[str]) -> None:
        """A person took a run back."""
        await self.write_back.on_undone(run, paths)

    @mcp_tool("update_title", agent=AGENT)
    async def curator_title(self, title: Words) -> dict[str, str]:
        """For a conversation's curator: give it a title of 3 to 8 words."""
        return await self._curated(UPDATE_TITLE, self.curator.set_title, title=title)

    @mcp_tool("update_summary", agent=AGENT)
    async def curator_summary(self, summary: Words) -> dict[str, str]:
        """For a conversation's curator: say in one or two sentences what it came to."""
        return await self._curated(UPDATE_SUMMARY, self.curator.set_summary, summary=summary)

    @mcp_tool("log_activity", agent=AGENT)
    async def curator_activity(self, summary: Words) -> dict[str, str]:
        """For a conversation's curator: log an exchange in one sentence."""
        return await self._curated(LOG_ACTIVITY, self.curator.log_activity, summary=summary)

    @mcp_tool("update_context", agent=AGENT)
    async def curator_context(
        self,
        file_path: str,
        section: Literal["Facts", "Current Focus", "History"],
        content: Words,
    ) -> dict[str, str]:
        """For a conversation's curator: add a line to a context file of its folders."""
        session = await self.sessions.get(await self.ambient_session(of_curator=True))
        done = await add_to_context(self, session, file_path, section, content)
        self.curator.noted(
            session.id, UPDATE_CONTEXT, file_path=file_path, section=section, content=content
        )
        return done

    async def _curated(
        self, tool: str, act: Callable[..., Awaitable[dict[str, str]]], **said: str
    ) -> dict[str, str]:
        session_id = await self.ambient_session(of_curator=True)
        done = await act(session_id, **said)
        if done["status"] == "ok":
            self.curator.noted(session_id, tool, **said)
        return done

    async def ambient_session(self, *, of_curator: bool = False) -> str:
        """The session of the run that calls. NotFoundError: there is none. ActRefusedError: the
        tool is its curator's and not its agent's, or the other way round.
        """
        found = await self.turns.work.run_sessions.get(self.current_call.run)
        if found is None:
            raise NotFoundError(
                "There is no conversation here: only the agent of a conversation can call this."
            )
        if found.is_curator is not of_curator:
            whose = "curator" if of_curator else "agent"
            raise ActRefusedError(f"This is for the conversation's {whose} alone.")
        return found.session_id

    async def turn_ended(self, ended: EndedTurn) -> None:
        exchange = exchange_of(ended.number, ended.question, ended.answer)
        self.spawn(self._write_back, ended, exchange, name="the bridge to Brain")
        await self.messenger.turn_ended(ended.session.id)
        await self.curator.settle(ended.session.id)
        if self.settings.curator and is_due(exchange.number):
            await self.curator.observe(ended.session.id, exchange)
        else:
            await self.curator.log_exchange(ended.session, exchange, exchange.in_one_line)

    async def _write_back(self, ended: EndedTurn, exchange: Exchange) -> None:
        """Keep what the exchange established, if its answer did not. Never raises."""
        session, kept = ended.session, ended.answer.meta.get("stored")
        if isinstance(kept, list):
            stored = [one for one in self.write_back.of_session(session.id) if one.id in kept]
        else:
            stored = await self.write_back.keep(
                session, exchange.number, exchange.question, exchange.answer
            )
        try:
            await self.bridge.log_turn(session.id, exchange.number, _logged(stored))
        except ParachuteError as error:  # the conversation was removed
            self.log.info("a turn was not logged", extra={"why": error.message})


def exchange_of(number: int, question: Message, answer: Message) -> Exchange:
    tools = tuple(dict.fromkeys(one.name for one in answer.tools))
    return Exchange(
        number=number,
        question=question.content,
        answer=answer.content,
        tools=tools,
        question_id=question.id,
    )


def last_exchange(messages: list[Message]) -> Exchange | None:
    asked = [place for place, one in enumerate(messages) if one.is_question]
    for number, place in reversed(list(enumerate(asked, 1))):
        answer = next((one for one in messages[:place:-1] if one.role == "assistant"), None)
        if answer is not None:
            return exchange_of(number, messages[place], answer)
    return None


def _logged(stored: list[StoredFact]) -> list[dict[str, object]]:
    return [
        {
            "query": one.name,
            "type": "suggest" if one.status == "waiting" else "store",
            "stored": one.text,
            "path": one.path,
            "id": one.id,
        }
        for one in stored
    ]
