"""Sessions over HTTP, as the existing app asks for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import route

from .messages import Message, new_message_id
from .permissions import DIRECT, SANDBOXED, permissions_of
from .session import Fields, Session, SessionMode, SessionPermissions
from .session_service import (
    Json,
    SessionService,
    conversation_shape,
    message_shape,
    session_shape,
)

_INHERITED = (
    *("tags", "mode", "context_folders", "source", "permissions"),
    *("model", "agent", "workspace", "working_directory"),
)
Limit = Annotated[int, Field(ge=1, le=1_000)]
Title = Annotated[str, Field(max_length=300)]
Words = Annotated[str, Field(max_length=1_000)]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s,#]+$")]
Tags = Annotated[list[Tag], Field(max_length=100)]
_PREVIEW = 200


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
    ) -> Json:
        """Sessions, the newest first; `search` finds words of titles and of messages."""
        found, cursor = await self.sessions.page(
            search=search,
            topic=topic,
            tag=tag,
            workspace=workspace_id,
            archived=archived,
            limit=limit,
            cursor=cursor,
        )
        return {"sessions": [session_shape(one) for one in found], "next": cursor}

    @route("GET", "/{session_id}", tolerant=True)
    async def get_session(self, session_id: str) -> Json:
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
        mode: SessionMode | None = None,
        *,
        archived: bool | None = None,
    ) -> Json:
        """Change a session; what is left out stays. A title given here is never overwritten."""
        fields: Fields = {
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
        changes = {name: one for name, one in fields.items() if one is not None}
        return await self._changed(session_id, changes)

    @route("DELETE", "/{session_id}", tolerant=True)
    async def delete_session(self, session_id: str) -> dict[str, str]:
        """Remove a session's file; `parachute history` has it still."""
        session = await self.sessions.get(session_id)
        await self.sessions.delete(session_id)
        await self.turns.forget(session.id)
        await self.curator.forget(session.id)
        return {"id": session.id, "path": session.path}

    @route("POST", "/{session_id}/archive", tolerant=True)
    async def archive_session(self, session_id: str) -> Json:
        """Put a session away; hooks of `session.end` hear that it has ended."""
        return await self._changed(session_id, {"archived": True})

    @route("POST", "/{session_id}/unarchive", tolerant=True)
    async def unarchive_session(self, session_id: str) -> Json:
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
    ) -> Json:
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
    ) -> Json:
        """Let a session that waits for a person's settings begin."""
        session = (await self.sessions.get(session_id)).metadata
        if "pending_initialization" in session:
            left = {key: one for key, one in session.items() if key != "pending_initialization"}
            await self.sessions.change(session_id, metadata=left)
        return await self.configure_session(
            session_id, trust_level, workspace_id, None, response_mode, mention_pattern
        )

    @route("GET", "/{session_id}/runs", tolerant=True)
    async def list_session_runs(self, session_id: str) -> Json:
        """The runs of a conversation, the newest first, and of them those that are recorded beside
        its file; `POST /api/runs/{id}/undo` takes one back, `parachute undo --session ID` all.
        """
        session, messages = await self.sessions.get_with_messages(session_id)
        named = {str(message.meta["run"]) for message in messages if "run" in message.meta}
        worked = self.turns.work.run_sessions.runs_of(session.id)
        recorded = [*worked, *self.write_back.runs_of(session.id)]
        runs = sorted(named.union(recorded), reverse=True)
        return {"path": session.path, "runs": runs, "recorded": recorded}

    @route("POST", "/{session_id}/fork", tolerant=True)
    async def fork_session(
        self, session_id: str, message_id: str | None = None, title: Title | None = None
    ) -> Json:
        """A new session with the messages of this one, up to and with that of `message_id`."""
        session, messages = await self.sessions.get_with_messages(session_id)
        ids = [message.id for message in messages]
        if message_id is not None and message_id not in ids:
            raise NotFoundError(f"The session has no message {message_id[:80]}.")
        copied = messages if message_id is None else messages[: ids.index(message_id) + 1]
        fork = {"session": session.id, "message": copied[-1].id if copied else None}
        fields = _like(session, title)
        fields["metadata"] = {**session.metadata, "forked_from": fork}
        copies = [replace(one, id=new_message_id()) for one in copied]
        return {"session": session_shape(await self.sessions.create(copies, **fields))}

    @route("POST", "/{session_id}/continue", tolerant=True)
    async def continue_session(self, session_id: str, title: Title | None = None) -> Json:
        """A new, empty session that goes on from this one."""
        session = await self.sessions.get(session_id)
        fields = _like(session, title)
        fields["continued_from"] = session.id
        return {"session": session_shape(await self.sessions.create(**fields))}

    @route("GET", "/{session_id}/transcript", tolerant=True)
    async def get_transcript(
        self,
        session_id: str,
        *,
        after_compact: bool = True,
        segment: Annotated[int, Field(ge=0)] | None = None,
        full: bool = False,
    ) -> Json:
        """A conversation's messages as events: those since the last summary, of one `segment`, or,
        with `full` or without `after_compact`, all.
        """
        session, messages = await self.sessions.get_with_messages(session_id)
        parts = _segments(messages)
        is_whole = segment is None and (full or not after_compact)
        wanted = segment if segment is not None else len(parts) - 1
        loaded = [number for number in range(len(parts)) if is_whole or number == wanted]
        return {
            "sessionId": session.id,
            "transcriptPath": session.path,
            "eventCount": len(messages),
            "events": [event for number in loaded for event in _events(session.id, parts[number])],
            "segments": [
                {
                    "index": number,
                    "isCompacted": number < len(parts) - 1,
                    "loaded": number in loaded,
                    **_segment(part),
                }
                for number, part in enumerate(parts)
            ],
            "segmentCount": len(parts),
            "loadedSegmentIndex": None if is_whole or not loaded else wanted,
        }

    async def _changed(self, session_id: str, fields: Fields) -> Json:
        session = await self.sessions.change(session_id, **fields)
        if fields.get("archived"):
            await self.turns.end_process(session.id)
        return {"session": session_shape(session)}


def _config(trust_level: str | None, workspace_id: str | None, mode: SessionMode) -> Fields:
    fields: Fields = {}
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


def _like(session: Session, title: str | None) -> Fields:
    fields = {name: getattr(session, name) for name in _INHERITED}
    fields["title_source"] = "user" if title else session.title_source
    return {**fields, "title": title or session.title}


def _segments(messages: list[Message]) -> list[list[Message]]:
    parts: list[list[Message]] = [[]]
    for message in messages:
        if message.meta.get("is_compact_summary") is True and parts[-1]:
            parts.append([])
        parts[-1].append(message)
    return parts


def _events(session_id: str, messages: list[Message]) -> list[Json]:
    """`parentUuid` is the message before."""
    parents = [None, *(message.id for message in messages)]
    shapes = [message_shape(session_id, message) for message in messages]
    return [
        {
            "type": message.role,
            "subtype": None,
            "uuid": message.id,
            "parentUuid": parent,
            "timestamp": message.at,
            "message": {"role": message.role, "content": shape["content"]},
            "isCompactSummary": shape["isCompactSummary"],
        }
        for parent, message, shape in zip(parents, messages, shapes, strict=False)
    ]


def _segment(messages: list[Message]) -> Json:
    """Messages up to a summary that took their place, or to the end."""
    times = [message.at for message in messages if message.at is not None]
    said = next((message.content for message in messages if message.role == "user"), None)
    return {
        "messageCount": len(messages),
        "eventCount": len(messages),
        "startTime": times[0] if times else None,
        "endTime": times[-1] if times else None,
        "preview": None if said is None else said[:_PREVIEW],
    }
