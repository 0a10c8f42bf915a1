"""Tools over conversations, for agents and for programs over MCP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from parachuted.errors import (
    ActRefusedError,
)
from parachuted.modules import mcp_tool

from .curator import context_files
from .curator_routes import CuratorRoutes
from .session import Session

_MOST_TEXT = 4_000
_MOST_MESSAGES = 100
Title = Annotated[str, Field(min_length=1, max_length=300)]
Summary = Annotated[str, Field(min_length=1, max_length=2_000)]
Content = Annotated[str, Field(min_length=1, max_length=100_000)]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s,#]+$")]
Limit = Annotated[int, Field(ge=1, le=_MOST_MESSAGES)]


class SessionBrief(TypedDict):
    """A session in a list."""

    id: str
    title: str | None
    summary: str | None
    tags: list[str]
    updated_at: str
    messages: int
    archived: bool
    parent_id: str | None


class SessionPageBrief(TypedDict):
    """Some sessions; `next` is the cursor of those that follow."""

    sessions: list[SessionBrief]
    next: str | None


class MessageBrief(TypedDict):
    """A message of a session; a long one is cut."""

    role: str
    content: str
    at: str | None


class SessionText(SessionBrief):
    """A session with its last messages."""

    context_folders: list[str]
    last: list[MessageBrief]


class SessionContext(TypedDict):
    """What a conversation's agent is given to read: folders, and their context files."""

    session_id: str
    folders: list[str]
    files: list[str]


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
    ) -> SessionPageBrief:
        """List or search conversations, the newest first."""
        await self._refuse_curators()
        found, cursor = await self.sessions.page(
            search=query, tag=tag, archived=archived, limit=limit, cursor=cursor
        )
        # titles and summaries are texts, which mark who has read a stranger's
        async for _note in self.vault.read_notes([one.path for one in found]):
            pass
        return {"sessions": [_brief(one) for one in found], "next": cursor}

    @mcp_tool("chat-session")
    async def read_session(self, session_id: str, messages: Limit = 20) -> SessionText:
        """Read a conversation's last messages."""
        await self._refuse_curators()
        session, found = await self.sessions.get_with_messages(session_id)
        return {
            **_brief(session),
            "context_folders": list(session.context_folders),
            "last": [
                {"role": one.role, "content": one.content[:_MOST_TEXT], "at": one.at}
                for one in found[-messages:]
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

    @mcp_tool("chat-create")
    async def create_child(self, title: Title, message: Content | None = None) -> SessionBrief:
        """Begin a conversation below this one."""
        self._refuse_strangers()
        parent = self.shared_chats.limited(await self.sessions.get(await self.ambient_session()))
        child = await self.sessions.create(
            title=title,
            title_source="ai",
            parent_id=parent.id,
            created_by=f"session:{parent.id}",
            context_folders=parent.context_folders,
            mode=parent.mode,
            permissions=parent.permissions,
        )
        if message is not None:
            self.messenger.send_from(parent, child, message)
        return _brief(await self.sessions.get(child.id))

    @mcp_tool("chat-send")
    async def send_to_session(self, session_id: str, message: Content) -> dict[str, str]:
        """Message another conversation."""
        self._refuse_strangers()
        await self._refuse_curators()
        target = self.shared_chats.limited(await self.sessions.get(session_id))
        if self.current_call.run is None:
            await self.messenger.send(target, message)
            return {"status": "sent", "session_id": target.id}
        source = self.shared_chats.limited(await self.sessions.get(await self.ambient_session()))
        self.messenger.send_from(source, target, message)
        return {"status": "is sent when your turn has ended", "session_id": target.id}

    @mcp_tool("chat-context")
    async def session_context(self, session_id: str | None = None) -> SessionContext:
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

    def _refuse_strangers(self) -> None:
        """Text of a stranger must not speak to another agent as its person."""
        if self.current_call.is_strangers:
            raise ActRefusedError(
                "text of a stranger was read here, so nothing is sent to other conversations"
            )


def _brief(session: Session) -> SessionBrief:
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
