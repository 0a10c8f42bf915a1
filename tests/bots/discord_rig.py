"""People on a gateway and REST API of the tests' own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from tests.bots.discord_api import DiscordApi, Json
from tests.bots.gate import Gate
from tests.bots.rigs import Shown


class DiscordRig:
    platform = "discord"
    tells_of_deletions = True

    def __init__(self) -> None:
        self.api = DiscordApi()
        self.bot_id = self.api.bot["id"]
        self.people: dict[str, Json] = {}
        self._token = self.api.token

    async def open(self) -> DiscordRig:
        await self.api.open()
        self._gate = Gate(self.api.url)
        await self._gate.open()
        self.api.url = self._gate.url
        return self

    def settings(self) -> dict[str, Any]:
        url = f"{self._gate.url}/api/v10"
        return {"enabled": True, "token": self._token, "base_url": url}

    def has_listener(self) -> bool:
        return self.api.is_online

    async def person(self, name: str) -> str:
        number = self.api.snowflake()
        self.people[str(number)] = self.api.user(name, number)
        return str(number)

    async def dm(self, person: str) -> str:
        return self.channel(type=1, recipients=[self.people[person]])

    async def group(self, person: str, *others: str) -> str:
        del others
        chat, guild = self.server()
        await self.api.join(guild, int(person))
        return chat

    def server(self) -> tuple[str, int]:
        """A channel, and its server, to which the bot was not added."""
        guild = self.api.snowflake()
        self.api.guilds[guild] = {"id": str(guild), "name": "Garden club"}
        return self.channel(type=0, name="beds", guild_id=str(guild)), guild

    def channel(self, **what: Any) -> str:
        """A channel, or a thread, which is of type 11."""
        number = self.api.snowflake()
        self.api.channels[number] = {"id": str(number), "last_message_id": None, **what}
        return str(number)

    async def say(
        self, person: str, chat: str, text: str, *, to_bot: bool = False, reply_to: str = ""
    ) -> str:
        what: Json = {"content": text}
        if to_bot:
            what = {"content": f"<@{self.bot_id}> {text}", "mentions": [self.api.bot]}
        if reply_to:
            place = {"message_id": reply_to, "channel_id": chat, "type": 0}
            replied = self.api.messages[int(chat), int(reply_to)]
            what |= {"type": 19, "message_reference": place, "referenced_message": replied}
        return await self.post(person, chat, **what)

    async def post(self, person: str, chat: str, **what: Any) -> str:
        """Any message. The first of a direct chat is lost unless the bot is there, so it waits."""
        channel = self.api.channels[int(chat)]
        while channel["type"] == 1 and not (channel["last_message_id"] or self.api.is_online):
            await asyncio.sleep(0.02)
        said = self.api.message(int(chat), self.people[person], **what)
        await self.api.tell("MESSAGE_CREATE", said)
        return str(said["id"])

    async def edit(self, person: str, chat: str, message: str, text: str) -> None:
        del person
        said = self.api.messages[int(chat), int(message)]
        said |= {"content": text, "edited_timestamp": "2026-11-28T20:00:00.000000+00:00"}
        await self.api.tell("MESSAGE_UPDATE", said)

    async def delete(self, person: str, chat: str, message: str) -> None:
        del person, self.api.messages[int(chat), int(message)]
        await self.api.tell("MESSAGE_DELETE", {"id": message, "channel_id": chat})

    async def press(self, person: str, chat: str, message: str, button: int) -> None:
        said = self.api.messages[int(chat), int(message)]
        labels = [one["custom_id"] for row in said["components"] for one in row["components"]]
        user, channel = self.people[person], self.api.channels[int(chat)]
        number = self.api.snowflake()
        who: Json = {"user": user}
        if "guild_id" in channel:
            who = {"member": {"user": user}, "guild_id": channel["guild_id"]}
        await self.api.dispatch(
            "INTERACTION_CREATE",
            {
                "id": str(number),
                "application_id": self.bot_id,
                "type": 3,
                "token": f"t{number}",
                "version": 1,
                "channel_id": chat,
                "channel": channel,
                "message": said,
                "data": {
                    "component_type": 2,
                    "custom_id": labels[button] if button < len(labels) else str(button),
                },
                **who,
            },
        )

    async def send_file(
        self, person: str, chat: str, name: str, content: bytes, content_type: str
    ) -> None:
        file = self.api.attachment(name, content, content_type)
        await self.post(person, chat, attachments=[file])

    async def shown(self, chat: str) -> list[Shown]:
        return [
            Shown(
                id=str(at[1]),
                text=said["content"],
                edits=self.api.edits.get(at, 0),
                buttons=sum(len(row["components"]) for row in said["components"]),
                file=self._file(said["attachments"][0]) if said["attachments"] else None,
            )
            for at, said in self.api.messages.items()
            if at[0] == int(chat) and said["author"] == self.api.bot
        ]

    def _file(self, attachment: Json) -> bytes:
        return self.api.files[attachment["url"].partition("/cdn/")[2]]

    def outage(self) -> AbstractAsyncContextManager[None]:
        return self._gate.cut()

    @asynccontextmanager
    async def losing_answers(self) -> AsyncIterator[None]:
        self.api.loses_answers = True
        try:
            yield
        finally:
            self.api.loses_answers = False

    async def shut_out(self, person: str, chat: str) -> None:
        del person
        self.api.channels[int(chat)]["is_hidden"] = True

    async def revoke(self) -> None:
        await self.api.revoke()

    async def close(self) -> None:
        await self._gate.close()
        await self.api.close()
