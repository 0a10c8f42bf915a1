"""The chats that a conversation can be linked to, and the link, as the page shows and moves it."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from parachuted.errors import NotFoundError
from parachuted.modules import Module, route

from .bot import Bot
from .connector import Incoming
from .conversations import limit_chats
from .settings import SettingsFile
from .store import Store


class Chat(TypedDict):
    """A chat whose people the bot answers, and the conversation that it is, if it is one."""

    platform: str
    chat_id: str
    chat_type: str
    name: str
    session_id: str | None
    session_title: str | None


class Chats(TypedDict):
    chats: list[Chat]


class Linked(TypedDict):
    """The chat that a conversation is now."""

    platform: str | None
    chat_id: str | None


class ChatRoutes(Module):
    file: SettingsFile
    store: Store
    bots: dict[str, Bot]

    @route("GET", "/chats", capability="admin")
    async def list_chats(self) -> Chats:
        """The chats that a conversation can be linked to: a paired person has written there."""
        return {
            "chats": [await self._chat(platform, last) for platform, last in await self._known()]
        }

    @route("PUT", "/links/{session_id}", capability="admin", tolerant=True)
    async def link(self, session_id: str, platform: str, chat_id: str) -> Linked:
        """Link a conversation to a chat, which leaves the one that it had."""
        known = {(name, last.chat_id): last for name, last in await self._known()}
        last = known.get((platform, chat_id))
        if last is None:
            raise NotFoundError("no person whom you paired has written in that chat")
        service, link = self._service(), {"platform": platform, "chat_id": chat_id}
        await limit_chats(self, self.file, self.store)
        await service.link(session_id, {**link, "chat_type": last.chat_type})
        return {"platform": platform, "chat_id": chat_id}

    @route("DELETE", "/links/{session_id}", capability="admin")
    async def unlink(self, session_id: str) -> Linked:
        """Let a conversation belong to no chat; what is written there begins another."""
        await self._service().link(session_id, None)
        return {"platform": None, "chat_id": None}

    async def _known(self) -> list[tuple[str, Incoming]]:
        return [
            (platform, last)
            for platform, last in await self.store.chats()
            if last.sender_id in getattr(self.file.platform(platform), "users", {})
        ]

    async def _chat(self, platform: str, last: Incoming) -> Chat:
        session = await self._service().get_by_bot_link(platform, last.chat_id)
        person = last.sender_name or last.sender_id
        return {
            "platform": platform,
            "chat_id": last.chat_id,
            "chat_type": last.chat_type,
            "name": person if last.chat_type == "dm" else last.chat_title or last.chat_id,
            "session_id": None if session is None else session["id"],
            "session_title": None if session is None else session["title"],
        }

    def _service(self) -> Any:  # noqa: ANN401  Chat's ConversationInterface
        found = self.get_interface("ConversationInterface")
        if found is None:
            raise NotFoundError("Chat does not run here, and without it there are no conversations")
        return found
