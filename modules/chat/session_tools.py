"""Tools over conversations; their curator's routes and tools, and what follows an exchange."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from pydantic import Field

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError, ParachuteError
from parachuted.modules import event, interface, mcp_tool, route

from .curator import (
    AGENT,
    LOG_ACTIVITY,
    UPDATE_CONTEXT,
    UPDATE_SUMMARY,
    UPDATE_TITLE,
    Exchange,
    add_to_context,
    context_files,
    is_due,
)
from .messages import Message
from .session import Session
from .session_routes import Json, SessionRoutes
from .turn import EndedTurn
from .write_back import StoredFact

_MOST_WORDS = 5_000
Words = Annotated[str, Field(min_length=1, max_length=_MOST_WORDS)]


class CuratorRoutes(SessionRoutes):
    @route("GET", "/{session_id}/curator/messages", tolerant=True)
    async def curator_messages(self, session_id: str) -> Json:
        """What the curator of a conversation was shown, and what it did."""
        return {"messages": await self.curator.messages(session_id)}

    @route("POST", "/{session_id}/curator/trigger", tolerant=True)
    async def trigger_curator(self, session_id: str) -> dict[str, str]:
        """Let the curator look at the last exchange now."""
        session, messages = await self.sessions.get_with_messages(session_id)
        exchange = last_exchange(messages)
        if exchange is None:
            raise EditRefusedError("This conversation has no exchange yet.")
        self.spawn(self.curator.observe, session.id, exchange, name="a conversation's curator")
        return {"status": "queued"}

    @route("GET", "/{session_id}/bridge", tolerant=True)
    async def bridge_log(self, session_id: str) -> Json:
        """What a conversation loaded from Brain, and the facts that it left there."""
        session = await self.sessions.get(session_id)
        return {
            "log": [dict(one) for one in session.bridge_context_log],
            "stored": self.write_back.of_session(session.id),
        }

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
        await self.write_back.on_resolved(id, status)

    @event("run.undone")
    async def on_undone(self, run: str, paths: list[str]) -> None:
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
        """ActRefusedError: the tool is its curator's and not its agent's, or the reverse."""
        session = await self.turns.work.run_sessions.get(self.current_call.run)
        if session is None:
            raise NotFoundError(
                "There is no conversation here: only the agent of a conversation can call this."
            )
        if session.is_curator is not of_curator:
            whose = "curator" if of_curator else "agent"
            raise ActRefusedError(f"This is for the conversation's {whose} alone.")
        return session.session_id

    async def turn_ended(self, ended: EndedTurn) -> None:
        exchange = exchange_of(ended.number, ended.question, ended.answer)
        self.spawn(self._write_back, ended, exchange, name="the bridge to Brain")
        await self.curator.settle(ended.session.id)
        if self.settings.curator and is_due(exchange.number):
            await self.curator.observe(ended.session.id, exchange)
        else:
            await self.curator.log_exchange(ended.session, exchange, exchange.in_one_line)

    async def _write_back(self, ended: EndedTurn, exchange: Exchange) -> None:
        session, kept = ended.session, ended.answer.meta.get("stored")
        if isinstance(kept, list):
            stored = [fact for fact in self.write_back.of_session(session.id) if fact.id in kept]
        else:
            stored = await self.write_back.keep(
                session, exchange.number, exchange.question, exchange.answer
            )
        try:
            await self.bridge.log_turn(session.id, exchange.number, _logged(stored))
        except ParachuteError as error:  # the conversation was removed
            self.log.info("a turn was not logged", extra={"why": error.message})


def exchange_of(number: int, question: Message, answer: Message) -> Exchange:
    tools = tuple(dict.fromkeys(tool.name for tool in answer.tools))
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
        answer = next(
            (message for message in messages[:place:-1] if message.role == "assistant"), None
        )
        if answer is not None:
            return exchange_of(number, messages[place], answer)
    return None


def _logged(stored: list[StoredFact]) -> list[dict[str, object]]:
    return [
        {
            "query": fact.name,
            "type": "suggest" if fact.status == "waiting" else "store",
            "stored": fact.text,
            "path": fact.path,
            "id": fact.id,
        }
        for fact in stored
    ]


_MOST_TEXT = 4_000
_MOST_MESSAGES = 100
Title = Annotated[str, Field(min_length=1, max_length=300)]
Summary = Annotated[str, Field(min_length=1, max_length=2_000)]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s,#]+$")]
Limit = Annotated[int, Field(ge=1, le=_MOST_MESSAGES)]


class SessionTools(CuratorRoutes):
    @mcp_tool("update_session_title")
    async def update_session_title(self, title: Title) -> dict[str, str]:
        """Title this conversation in 5 to 10 words, unless the user did."""
        return await self.curator.set_title(await self.ambient_session(), title)

    @mcp_tool("update_session_summary")
    async def update_session_summary(self, summary: Summary) -> dict[str, str]:
        """Sum up this conversation in 1 or 2 sentences."""
        return await self.curator.set_summary(await self.ambient_session(), summary)

    @mcp_tool("chat-sessions")
    async def find_sessions(
        self,
        query: str = "",
        tag: str | None = None,
        limit: Limit = 20,
        cursor: str | None = None,
        *,
        archived: bool = False,
    ) -> Json:
        """List or search conversations, the newest first."""
        await self._refuse_curators()
        sessions, cursor = await self.sessions.page(
            search=query, tag=tag, archived=archived, limit=limit, cursor=cursor
        )
        # titles and summaries are texts, which mark who has read a stranger's
        async for _note in self.vault.read_notes([one.path for one in sessions]):
            pass
        return {"sessions": [_brief(session) for session in sessions], "next": cursor}

    @mcp_tool("chat-session")
    async def read_session(self, session_id: str, messages: Limit = 20) -> Json:
        """Read a conversation's last messages."""
        await self._refuse_curators()
        session, found = await self.sessions.get_with_messages(session_id)
        return {
            **_brief(session),
            "context_folders": list(session.context_folders),
            "last": [
                {"role": message.role, "content": message.content[:_MOST_TEXT], "at": message.at}
                for message in found[-messages:]
            ],
        }

    @mcp_tool("chat-tag")
    async def tag_conversation(
        self, tag: Tag, session_id: str | None = None
    ) -> dict[str, list[str]]:
        """Tag a conversation; default: this one."""
        session = await self._meant(session_id)
        return await self._tagged(session, [*session.tags, tag])

    @mcp_tool("chat-untag")
    async def untag_conversation(
        self, tag: Tag, session_id: str | None = None
    ) -> dict[str, list[str]]:
        """Untag a conversation."""
        session = await self._meant(session_id)
        return await self._tagged(session, [one for one in session.tags if one != tag])

    @mcp_tool("chat-context")
    async def session_context(self, session_id: str | None = None) -> Json:
        """The context files that a conversation loads."""
        session = await self._meant(session_id)
        return {
            "session_id": session.id,
            "folders": list(session.context_folders),
            "files": await context_files(self, session),
        }

    async def _meant(self, session_id: str | None) -> Session:
        await self._refuse_curators()
        return await self.sessions.get(session_id or await self.ambient_session())

    async def _tagged(self, session: Session, tags: list[str]) -> dict[str, list[str]]:
        changed = await self.sessions.change(session.id, tags=list(dict.fromkeys(tags)))
        return {"tags": list(changed.tags)}

    async def _refuse_curators(self) -> None:
        """A curator sees to its own conversation, whatever an exchange says."""
        own = await self.turns.work.run_sessions.get(self.current_call.run)
        if own is not None and own.is_curator:
            raise ActRefusedError("This is for the conversation's agent alone.")


def _brief(session: Session) -> Json:
    return {
        "id": session.id,
        "title": session.title,
        "summary": session.summary,
        "tags": list(session.tags),
        "updated_at": session.updated_at,
        "messages": session.message_count,
        "archived": session.archived,
        "parent_id": session.parent_id,
    }
