"""The sessions of Chat as the app and other modules read them, and how they follow their files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic.alias_generators import to_camel

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules import Module, event, interface

from .brain import Bridge
from .curator import Curator
from .messages import Message, new_message_id
from .permissions import SharedChats, permissions_of
from .session import Fields, LinkedBot, Session, now
from .sessions import Sessions
from .turns import Turns
from .write_back import WriteBack

Json = dict[str, object]
LONGEST_MESSAGE = 102_400


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
        "isCompactSummary": message.meta.get("is_compact_summary") is True,
    }


class SessionService(Module):
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
        found, _next = await self.sessions.page(topic=topic, limit=max(1, min(limit, 100)))
        return [session_shape(one) for one in found]

    @interface("ConversationInterface")
    async def get_by_bot_link(self, platform: str, chat_id: str) -> Json | None:
        """The session of a conversation on another platform, if there is one."""
        found = await self.sessions.get_by_bot_link(platform, chat_id)
        return None if found is None else session_shape(found)

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


def _linked(said: Mapping[str, str]) -> LinkedBot:
    return LinkedBot(
        platform=said["platform"],
        chat_id=said["chat_id"],
        chat_type=said.get("chat_type"),
        linked_at=now(),
    )
