"""Sessions over HTTP, as the existing app asks for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, Field

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import route

from .messages import new_message_id
from .permissions import DIRECT, SANDBOXED
from .session import Mode, NewSession, Session, SessionFields, SessionPermissions
from .session_service import SessionService
from .session_shapes import (
    AppConversation,
    SessionAnswer,
    SessionList,
    SessionRuns,
    conversation_shape,
    session_shape,
)
from .shared_chats import permissions_of

Limit = Annotated[int, Field(ge=1, le=1_000)]
Title = Annotated[str, Field(max_length=300)]
Words = Annotated[str, Field(max_length=1_000)]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s,#]+$")]
Tags = Annotated[list[Tag], Field(max_length=100)]


class Permissions(BaseModel):
    """What a session's agent may use: null is all, an empty list none."""

    allowed_folders: list[str] | None = None
    allowed_mcps: list[str] | None = None
    capabilities: list[str] = ["Read"]
    sandbox_override: str | None = None


class SessionRoutes(SessionService):
    @route("GET", "/", tolerant=True)
    async def list_sessions(
        self,
        limit: Limit = 50,
        search: Words = "",
        topic: Words = "",
        tag: str | None = None,
        workspace_id: str | None = None,
        cursor: str | None = None,
        *,
        archived: bool = False,
    ) -> SessionList:
        """Sessions, the newest first; `search` finds words of titles and of messages."""
        page = await self.sessions.page(
            search=search,
            topic=topic,
            tag=tag,
            workspace=workspace_id,
            archived=archived,
            limit=limit,
            cursor=cursor,
        )
        return {"sessions": [session_shape(one) for one in page.sessions], "next": page.next}

    @route("GET", "/{session_id}", tolerant=True)
    async def get_session(self, session_id: str) -> AppConversation:
        """A session with its messages."""
        return conversation_shape(*await self.sessions.get_with_messages(session_id))

    @route("PATCH", "/{session_id}", tolerant=True)
    async def change_session(  # noqa: PLR0913  what can be changed
        self,
        session_id: str,
        title: Title | None = None,
        summary: Words | None = None,
        tags: Tags | None = None,
        context_folders: list[str] | None = None,
        permissions: Permissions | None = None,
        model: str | None = None,
        mode: Mode | None = None,
        *,
        archived: bool | None = None,
    ) -> SessionAnswer:
        """Change a session; what is left out stays. A title given here is never overwritten."""
        given: dict[str, Any] = {
            "title": title,
            "title_source": None if title is None else "user",
            "permissions": None if permissions is None else _permissions(permissions),
            "summary": summary,
            "tags": tags,
            "context_folders": context_folders,
            "model": model,
            "mode": mode,
            "archived": archived,
        }
        fields: SessionFields = {key: one for key, one in given.items() if one is not None}  # type: ignore[assignment]
        return await self._changed(session_id, fields)

    @route("DELETE", "/{session_id}", tolerant=True)
    async def delete_session(self, session_id: str) -> dict[str, str]:
        """Remove a session's file; `parachute history` has it still."""
        session = await self.sessions.get(session_id)
        await self.sessions.delete(session_id)
        await self.turns.forget(session.id)
        await self.curator.forget(session.id)
        return {"id": session.id, "path": session.path}

    @route("POST", "/{session_id}/archive", tolerant=True)
    async def archive_session(self, session_id: str) -> SessionAnswer:
        """Put a session away; hooks of `session.end` hear that it has ended."""
        return await self._changed(session_id, {"archived": True})

    @route("POST", "/{session_id}/unarchive", tolerant=True)
    async def unarchive_session(self, session_id: str) -> SessionAnswer:
        """Take a session out of the archive."""
        return await self._changed(session_id, {"archived": False})

    @route("PATCH", "/{session_id}/config", tolerant=True)
    async def configure_session(
        self,
        session_id: str,
        trust_level: str | None = None,
        workspace_id: str | None = None,
        config_overrides: dict[str, object] | None = None,
        response_mode: str | None = None,
        mention_pattern: str | None = None,
    ) -> SessionAnswer:
        """Change how a session runs."""
        session = await self.sessions.get(session_id)
        fields = _config(trust_level, workspace_id, session.mode)
        metadata = dict(session.metadata)
        if config_overrides is not None:
            metadata["config_overrides"] = config_overrides
        bot = {"response_mode": response_mode, "mention_pattern": mention_pattern}
        if said := {key: value for key, value in bot.items() if value is not None}:
            before = metadata.get("bot_settings")
            metadata["bot_settings"] = {**(before if isinstance(before, dict) else {}), **said}
        if metadata != session.metadata:
            fields["metadata"] = metadata
        return await self._changed(session_id, fields)

    @route("POST", "/{session_id}/activate", tolerant=True)
    async def activate_session(
        self,
        session_id: str,
        trust_level: str | None = None,
        workspace_id: str | None = None,
        response_mode: str | None = None,
        mention_pattern: str | None = None,
    ) -> SessionAnswer:
        """Let a session that waits for a person's settings begin."""
        session = (await self.sessions.get(session_id)).metadata
        if "pending_initialization" in session:
            left = {key: one for key, one in session.items() if key != "pending_initialization"}
            await self.sessions.change(session_id, metadata=left)
        return await self.configure_session(
            session_id, trust_level, workspace_id, None, response_mode, mention_pattern
        )

    @route("GET", "/{session_id}/runs", tolerant=True)
    async def list_session_runs(self, session_id: str) -> SessionRuns:
        """The runs of a conversation, the newest first, and of them those that are recorded beside
        its file; `POST /api/runs/{id}/undo` takes one back, `parachute undo --session ID` all.
        """
        session, messages = await self.sessions.get_with_messages(session_id)
        named = {str(one.meta["run"]) for one in messages if "run" in one.meta}
        worked = self.turns.work.run_sessions.runs_of(session.id)
        recorded = [*worked, *self.write_back.runs_of(session.id)]
        runs = sorted(named.union(recorded), reverse=True)
        return {"path": session.path, "runs": runs, "recorded": recorded}

    @route("POST", "/{session_id}/tags", tolerant=True)
    async def tag_session(self, session_id: str, tag: Tag) -> SessionAnswer:
        """Give a session a tag."""
        tags = (await self.sessions.get(session_id)).tags
        return await self._changed(session_id, {"tags": [*dict.fromkeys((*tags, tag))]})

    @route("DELETE", "/{session_id}/tags/{tag}", tolerant=True)
    async def untag_session(self, session_id: str, tag: str) -> SessionAnswer:
        """Take a tag from a session."""
        tags = (await self.sessions.get(session_id)).tags
        return await self._changed(session_id, {"tags": [one for one in tags if one != tag]})

    @route("POST", "/{session_id}/fork", tolerant=True)
    async def fork_session(
        self, session_id: str, message_id: str | None = None, title: Title | None = None
    ) -> SessionAnswer:
        """A new session with the messages of this one, up to and with that of `message_id`."""
        session, messages = await self.sessions.get_with_messages(session_id)
        ids = [one.id for one in messages]
        if message_id is not None and message_id not in ids:
            raise NotFoundError(f"The session has no message {message_id[:80]}.")
        kept = messages if message_id is None else messages[: ids.index(message_id) + 1]
        fork = {"session": session.id, "message": kept[-1].id if kept else None}
        fields = _like(session, title)
        fields["metadata"] = {**session.metadata, "forked_from": fork}
        copies = [replace(one, id=new_message_id()) for one in kept]
        return {"session": session_shape(await self.sessions.create(copies, **fields))}

    @route("POST", "/{session_id}/continue", tolerant=True)
    async def continue_session(self, session_id: str, title: Title | None = None) -> SessionAnswer:
        """A new, empty session that goes on from this one."""
        session = await self.sessions.get(session_id)
        fields = _like(session, title)
        fields["continued_from"] = session.id
        return {"session": session_shape(await self.sessions.create(**fields))}

    async def _changed(self, session_id: str, fields: SessionFields) -> SessionAnswer:
        session = await self.sessions.change(session_id, **fields)
        if fields.get("archived"):
            await self.turns.end_process(session.id)
        return {"session": session_shape(session)}


def _config(trust_level: str | None, workspace_id: str | None, mode: Mode) -> SessionFields:
    fields: SessionFields = {}
    if workspace_id is not None:
        fields["workspace"] = workspace_id or None
    if trust_level in SANDBOXED:
        fields["mode"] = "sandboxed"
    elif trust_level in DIRECT:  # what runs unboxed is decided by who asks, not by this word
        fields["mode"] = "default" if mode == "sandboxed" else mode
    elif trust_level is not None:
        raise EditRefusedError("trustLevel is direct or sandboxed")
    return fields


def _permissions(said: Permissions) -> SessionPermissions:
    return replace(permissions_of(dict(said)), sandbox_override=said.sandbox_override)


def _like(session: Session, title: str | None) -> NewSession:
    """What a session has from the one that it comes from."""
    fields: NewSession = {
        "title_source": "user" if title else session.title_source,
        "tags": session.tags,
        "mode": session.mode,
        "context_folders": session.context_folders,
        "source": session.source,
    }
    if title or session.title:
        fields["title"] = title or session.title
    if session.permissions is not None:
        fields["permissions"] = session.permissions
    for name in ("model", "agent", "workspace", "working_directory"):
        if (value := getattr(session, name)) is not None:
            fields[name] = value
    return fields
