"""Platforms as the stories of all connectors use them: people who write to a bot."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message of the bot's as people see it now. `text` is its Markdown or plain words; `edits`
    how often it was changed; `buttons` how many it has.
    """

    id: str
    text: str
    edits: int = 0
    buttons: int = 0
    file: bytes | None = None


class PlatformRig(Protocol):
    """One platform with one bot, and people who write to it as its own apps would.
    `tells_of_deletions`: bots hear of messages that were deleted.
    """

    platform: str
    bot_id: str
    tells_of_deletions: bool

    def settings(self) -> dict[str, Any]:
        """What `PUT /api/bots/config` takes for the platform, with the token."""

    def has_listener(self) -> bool:
        """Whether the bot would hear of what is said now, at once or once it asks."""

    async def person(self, name: str) -> str:
        """A new person of that name; returns the platform's id of them."""

    async def dm(self, person: str) -> str:
        """A direct chat of theirs with the bot; returns its id."""

    async def group(self, person: str, *others: str) -> str:
        """A group of these people, to which the first adds the bot."""

    async def say(
        self, person: str, chat: str, text: str, *, to_bot: bool = False, reply_to: str = ""
    ) -> str:
        """Write a message, which may mention the bot or answer a message; returns its id."""

    async def edit(self, person: str, chat: str, message: str, text: str) -> None:
        """Edit a message of one's own."""

    async def delete(self, person: str, chat: str, message: str) -> None:
        """Delete a message of one's own."""

    async def press(self, person: str, chat: str, message: str, button: int) -> None:
        """Press a button of a message, counted from 0."""

    async def send_file(
        self, person: str, chat: str, name: str, content: bytes, content_type: str
    ) -> None:
        """Send a file."""

    async def shown(self, chat: str) -> list[Shown]:
        """What the bot has said in that chat, in its order, as it is now."""

    def outage(self) -> AbstractAsyncContextManager[None]:
        """Inside, the bot cannot reach the platform; people can."""

    def losing_answers(self) -> AbstractAsyncContextManager[None]:
        """Inside, what the bot asks of the platform is done, and the bot does not hear of it."""

    async def shut_out(self, person: str, chat: str) -> None:
        """Let the bot write in that chat no more."""

    async def revoke(self) -> None:
        """Take the bot's token back."""

    async def close(self) -> None:
        """Let go of all connections."""
