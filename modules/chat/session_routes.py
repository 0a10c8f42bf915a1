"""The sessions of Chat over HTTP and for other modules, and how they follow their files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

from pydantic import BaseModel, Field
from pydantic.alias_generators import to_camel

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules import Module, event, interface, route

from .brain import Bridge
from .curator import Curator
from .messages import Message, new_message_id
from .permissions import DIRECT, SANDBOXED, SharedChats, permissions_of
from .session import Fields, LinkedBot, Session, SessionMode, SessionPermissions, now
from .sessions import Sessions
from .turns import Turns
from .write_back import WriteBack

Json = dict[str, object]
LONGEST_MESSAGE = 102_400
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


# the fields of a session that the app has as they are
_COPIED = (
    *("id", "para_id", "path", "title", "created_at", "updated_at", "message_count", "archived"),
    *("source", "continued_from", "original_id", "working_directory", "curator_session_id"),
    *("created_by", "mode", "model", "summary"),
)


def session_shape(session: Session) -> Json:
    bot, agent = session.linked_bot, session.agent
    log = [dict(one) for one in session.bridge_context_log]
    last_run = None if session.curator_last_run is None else dict(session.curator_last_run)
    metadata: Json = {**session.metadata, "title_source": session.title_source}
    if last_run is not None:
        metadata["curator_last_run"] = last_run
    if session.permissions is not None:
        metadata["permissions"] = asdict(session.permissions)
    return {to_camel(name): getattr(session, name) for name in _COPIED} | {
        "lastAccessed": session.updated_at,
        "module": "chat",
        "agentName": agent.rpartition("/")[2].removesuffix(".md") if agent else None,
        "agentPath": agent if agent and "/" in agent else None,
        "agentType": None,
        "trustLevel": "sandboxed" if session.mode == "sandboxed" else "direct",
        "linkedBotPlatform": (bot and bot.platform) or None,
        "linkedBotChatId": (bot and bot.chat_id) or None,
        "linkedBotChatType": bot and bot.chat_type,
        "workspaceId": session.workspace,
        "curatorLastRun": last_run,
        "bridgeContextLog": json.dumps(log) if log else None,
        "parentSessionId": session.parent_id,
        "tags": list(session.tags),
        "contextFolders": list(session.context_folders),
        "metadata": metadata,
    }


def conversation_shape(session: Session, messages: list[Message]) -> Json:
    return session_shape(session) | {
        "messages": [message_shape(session.id, message) for message in messages]
    }


def message_shape(session_id: str, message: Message) -> Json:
    """`content` is a text, or blocks where tools were called."""
    content: str | list[Json] = message.content
    if message.tools:
        content = [
            {"type": "tool_use", "id": tool.id, "name": tool.name, "input": dict(tool.input)}
            for tool in message.tools
        ]
        content += [{"type": "text", "text": message.content}] if message.content else []
    return {
        "id": message.id,
        "paraId": f"para:chat:{message.id}",
        "sessionId": session_id,
        "role": message.role,
        "content": content,
        "timestamp": message.at,
        "isCompactSummary": False,
    }


class Permissions(BaseModel):
    """What a session's agent may use: null is all, an empty list none."""

    allowed_folders: list[str] | None = None
    allowed_mcps: list[str] | None = None
    capabilities: list[str] = ["Read"]
    sandbox_override: str | None = None


class SessionRoutes(Module):
    sessions: Sessions
    shared_chats: SharedChats
    turns: Turns
    curator: Curator
    bridge: Bridge
    write_back: WriteBack

    @event("file.created")
    @event("file.modified")
    async def on_changed(self, path: str, data: dict[str, object]) -> None:
        digest = data.get("digest")
        await self.sessions.look(path, str(digest) if digest else None)

    @event("file.deleted")
    async def on_deleted(self, path: str) -> None:
        await self.sessions.look(path)

    @event("file.moved")
    async def on_moved(self, path: str, data: dict[str, object]) -> None:
        source = str(data.get("from", ""))
        await self.sessions.follow_move(source, path, by_person=not data.get("run"))

    @interface("ConversationInterface")
    async def create(
        self,
        title: str | None = None,
        source: str = "parachute",
        linked_bot: Mapping[str, str] | None = None,
        permissions: Mapping[str, Any] | None = None,
        mode: str | None = None,
    ) -> Json:
        """A new session. One with a `linked_bot` (of `platform`, `chat_id` and `chat_type`) has its
        title until the curator finds a better one. `permissions` have the fields of a session's.
        """
        fields: Fields = {}
        if linked_bot is not None:
            fields |= {"linked_bot": _linked(linked_bot), "title_source": "default"}
        if permissions is not None:
            fields["permissions"] = permissions_of(permissions)
        return session_shape(
            await self.sessions.create(title=title, source=source, mode=mode, **fields)
        )

    @interface("ConversationInterface")
    async def link(self, session_id: str, linked_bot: Mapping[str, str] | None) -> Json:
        """Let a session belong to a conversation on another platform, which then leaves the one
        that it belonged to; None: to none.
        """
        link = None if linked_bot is None else _linked(linked_bot)
        if link is not None:
            before = await self.sessions.get_by_bot_link(link.platform, link.chat_id)
            if before is not None and before.id != session_id:
                await self.sessions.change(before.id, linked_bot=None)
        session = await self.sessions.change(session_id, linked_bot=link)
        await self.shared_chats.hold(session)
        return session_shape(await self.sessions.get(session.id))

    @interface("ConversationInterface")
    async def limit_chats(self, chats: Sequence[Mapping[str, Any]]) -> None:
        """Let no turn of a session do more than these chats allow, no matter who starts it: each
        is a `platform` and a `chat_id` with the most `permissions` and the `mode` of its sessions.
        Without `permissions` a chat has no limit.
        """
        self.shared_chats.set(chats)

    @interface("ConversationInterface")
    async def change_message(self, session_id: str, message_id: str, content: str | None) -> None:
        """Give a message another text, as its author has edited it; None: take it out.

        NotFoundError: the session has no such message.
        """
        await self.sessions.change_message(session_id, message_id, content)

    @interface("ConversationInterface")
    async def get(self, session_id: str) -> Json:
        """A session with its messages."""
        return conversation_shape(*await self.sessions.get_with_messages(session_id))

    @interface("ConversationInterface")
    async def get_sessions(self, topic: str, limit: int = 20) -> list[Json]:
        """The newest sessions about some words."""
        sessions, _next = await self.sessions.page(topic=topic, limit=max(1, min(limit, 100)))
        return [session_shape(session) for session in sessions]

    @interface("ConversationInterface")
    async def get_by_bot_link(self, platform: str, chat_id: str) -> Json | None:
        """The session of a conversation on another platform, if there is one."""
        session = await self.sessions.get_by_bot_link(platform, chat_id)
        return None if session is None else session_shape(session)

    @interface("ConversationInterface")
    async def add_message(self, session_id: str, content: str, source: str = "parachute") -> str:
        """Put a person's message at the end of a session, without an answer; returns its
        id.
        """
        if not 0 < len(content) <= LONGEST_MESSAGE:
            raise EditRefusedError(f"a message has 1 to {LONGEST_MESSAGE} characters")
        message = Message(
            id=new_message_id(), role="user", content=content, at=now(), meta={"source": source}
        )
        await self.sessions.append(session_id, message)
        return message.id

    async def find_para(self, para_id: str) -> dict[str, str | None] | None:
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
        sessions, cursor = await self.sessions.page(
            search=search,
            topic=topic,
            tag=tag,
            workspace=workspace_id,
            archived=archived,
            limit=limit,
            cursor=cursor,
        )
        return {"sessions": [session_shape(session) for session in sessions], "next": cursor}

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
    async def get_transcript(self, session_id: str) -> Json:
        """A conversation's messages as events, all in one segment."""
        session, messages = await self.sessions.get_with_messages(session_id)
        times = [message.at for message in messages if message.at is not None]
        said = next((message.content for message in messages if message.role == "user"), None)
        count = {"messageCount": len(messages), "eventCount": len(messages)}
        segment = {
            **count,
            "index": 0,
            "isCompacted": False,
            "startTime": times[0] if times else None,
            "endTime": times[-1] if times else None,
            "preview": None if said is None else said[:_PREVIEW],
            "loaded": True,
        }
        return {
            **count,
            "sessionId": session.id,
            "transcriptPath": session.path,
            "events": _events(session.id, messages),
            "segments": [segment],
            "segmentCount": 1,
            "loadedSegmentIndex": None,
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


def _permissions(permissions: Permissions) -> SessionPermissions:
    return replace(permissions_of(dict(permissions)), sandbox_override=permissions.sandbox_override)


def _like(session: Session, title: str | None) -> Fields:
    fields = {name: getattr(session, name) for name in _INHERITED}
    fields["title_source"] = "user" if title else session.title_source
    return {**fields, "title": title or session.title}


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
            "isCompactSummary": False,
        }
        for parent, message, shape in zip(parents, messages, shapes, strict=False)
    ]


def _linked(said: Mapping[str, str]) -> LinkedBot:
    return LinkedBot(
        platform=said["platform"],
        chat_id=said["chat_id"],
        chat_type=said.get("chat_type"),
        linked_at=now(),
    )
