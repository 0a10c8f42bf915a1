"""Sessions over HTTP, as the existing app asks for them, for other modules, and how they follow
their files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, Field

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules import Finding, Module, event, interface, route

from .messages import Message, new_message_id
from .session import Mode, NewSession, SessionFields, SessionPermissions, now
from .session_shapes import (
    AppConversation,
    AppSession,
    SessionAnswer,
    SessionList,
    conversation_shape,
    session_shape,
)
from .sessions import Sessions

_LONGEST_MESSAGE = 102_400
_TRUSTED = frozenset({"direct", "full", "vault", "trusted"})
_SANDBOXED = frozenset({"sandboxed", "untrusted"})

Limit = Annotated[int, Field(ge=1, le=1_000)]
Title = Annotated[str, Field(max_length=300)]
Words = Annotated[str, Field(max_length=1_000)]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s,#]+$")]
Tags = Annotated[list[Tag], Field(max_length=100)]
Content = Annotated[str, Field(min_length=1, max_length=_LONGEST_MESSAGE)]


class Permissions(BaseModel):
    """What a session's agent may use: null is all, an empty list none."""

    allowed_folders: list[str] | None = None
    allowed_mcps: list[str] | None = None
    capabilities: list[str] = ["Read"]
    sandbox_override: str | None = None


class SessionRoutes(Module):
    """What the app calls; `sessions` is made by `open_sessions`."""

    sessions: Sessions

    async def open_sessions(self) -> None:
        """Read the sessions; called by `on_enable` before anything else."""
        self.sessions = Sessions(self)
        await self.sessions.load()

    @event("file.created")
    async def on_created(self, path: str, data: dict[str, object]) -> None:
        """A note is new."""
        await self._look(path, data)

    @event("file.modified")
    async def on_modified(self, path: str, data: dict[str, object]) -> None:
        """A note changed."""
        await self._look(path, data)

    @event("file.deleted")
    async def on_deleted(self, path: str) -> None:
        """A note is gone."""
        await self.sessions.files.look(path)

    @event("file.moved")
    async def on_moved(self, path: str, data: dict[str, object]) -> None:
        """A note has another name."""
        source = str(data.get("from", ""))
        by_person = not data.get("run")
        await self.sessions.files.follow_move(source, path, by_person=by_person)

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
        fields: SessionFields = {}
        if title is not None:
            fields |= {"title": title, "title_source": "user"}
        if permissions is not None:
            fields["permissions"] = _permissions(permissions)
        if summary is not None:
            fields["summary"] = summary
        if tags is not None:
            fields["tags"] = tags
        if context_folders is not None:
            fields["context_folders"] = context_folders
        if model is not None:
            fields["model"] = model
        if mode is not None:
            fields["mode"] = mode
        if archived is not None:
            fields["archived"] = archived
        return await self._changed(session_id, fields)

    @route("DELETE", "/{session_id}", tolerant=True)
    async def delete_session(self, session_id: str) -> dict[str, str]:
        """Remove a session's file; `parachute history` has it still."""
        session = await self.sessions.get(session_id)
        await self.sessions.delete(session_id)
        return {"id": session.id, "path": session.path}

    @route("POST", "/{session_id}/archive", tolerant=True)
    async def archive_session(self, session_id: str) -> SessionAnswer:
        """Put a session away."""
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

    @interface("ConversationInterface")
    async def create(self, title: str | None = None, source: str = "parachute") -> AppSession:
        """A new session."""
        fields: NewSession = {"source": source}  # type: ignore[typeddict-item]  # checked there
        if title:
            fields["title"] = title
        return session_shape(await self.sessions.create(**fields))

    @interface("ConversationInterface")
    async def get(self, session_id: str) -> AppConversation:
        """A session with its messages."""
        return await self.get_session(session_id)

    @interface("ConversationInterface")
    async def get_sessions(self, topic: str, limit: int = 20) -> list[AppSession]:
        """The newest sessions about some words."""
        page = await self.sessions.page(topic=topic, limit=max(1, min(limit, 100)))
        return [session_shape(one) for one in page.sessions]

    @interface("ConversationInterface")
    async def get_by_bot_link(self, platform: str, chat_id: str) -> AppSession | None:
        """The session of a conversation on another platform, if there is one."""
        found = await self.sessions.get_by_bot_link(platform, chat_id)
        return None if found is None else session_shape(found)

    @interface("ConversationInterface")
    async def send_message(self, session_id: str, content: str, source: str = "parachute") -> str:
        """Put a person's message at the end of a session; returns its id."""
        if not 0 < len(content) <= _LONGEST_MESSAGE:
            raise EditRefusedError(f"a message has 1 to {_LONGEST_MESSAGE} characters")
        message = Message(
            id=new_message_id(), role="user", content=content, at=now(), meta={"source": source}
        )
        await self.sessions.append(session_id, message)
        return message.id

    async def doctor(self) -> list[Finding]:
        """Files that cannot be read as they should, and ids that two files have."""
        return await self.sessions.findings()

    async def find_para(self, para_id: str) -> dict[str, str | None] | None:
        """The session, or the message, of that para-id."""
        try:
            found = await self.sessions.find_para(para_id)
        except (NotFoundError, ActRefusedError):
            return None
        if found is None:
            return None
        session, message = found
        return {
            "para_id": para_id if message else session.para_id,
            "type": "message" if message else "session",
            "path": session.path,
            "title": session.title,
            "url": f"/api/chat/{session.id}",
        }

    async def _changed(self, session_id: str, fields: SessionFields) -> SessionAnswer:
        return {"session": session_shape(await self.sessions.change(session_id, **fields))}

    async def _look(self, path: str, data: Mapping[str, object]) -> None:
        digest = data.get("digest")
        await self.sessions.files.look(
            path, str(digest) if digest else None, by_person=not data.get("run")
        )


def _config(trust_level: str | None, workspace_id: str | None, mode: Mode) -> SessionFields:
    fields: SessionFields = {}
    if workspace_id is not None:
        fields["workspace"] = workspace_id or None
    if trust_level in _SANDBOXED:
        fields["mode"] = "sandboxed"
    elif trust_level in _TRUSTED:  # what runs unboxed is decided by who asks, not by this word
        fields["mode"] = "default" if mode == "sandboxed" else mode
    elif trust_level is not None:
        raise EditRefusedError("trustLevel is direct or sandboxed")
    return fields


def _permissions(said: Permissions) -> SessionPermissions:
    folders, mcps = said.allowed_folders, said.allowed_mcps
    return SessionPermissions(
        allowed_folders=None if folders is None else tuple(folders),
        allowed_mcps=None if mcps is None else tuple(mcps),
        capabilities=tuple(said.capabilities),
        sandbox_override=said.sandbox_override,
    )
