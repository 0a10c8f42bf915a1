"""People on a real Matrix server, by its own API."""

from __future__ import annotations

import hmac
import itertools
import json
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

import aiohttp

from tests.bots.gate import Gate
from tests.bots.rigs import Shown
from tests.bots.synapse import REGISTRATION_SECRET

_NUMBERS = itertools.count(1)


class MatrixRig:
    """A bot's account of its own on the server, and people."""

    platform = "matrix"
    tells_of_deletions = True

    def __init__(self, url: str) -> None:
        self.url = url
        self.bot_id, self._bot_token = "", ""
        self._tokens: dict[str, str] = {}
        self._members: dict[str, str] = {}  # who of a room has written there
        self._gate = Gate(url)
        self._session = aiohttp.ClientSession()

    async def open(self) -> MatrixRig:
        await self._gate.open()
        self.bot_id = await self.person("bot")
        self._bot_token = self._tokens[self.bot_id]
        return self

    def settings(self) -> dict[str, Any]:
        return {
            "enabled": True,
            "homeserver_url": self._gate.url,
            "user_id": self.bot_id,
            "access_token": self._bot_token,
        }

    def has_listener(self) -> bool:
        return True  # it asks for what it missed

    async def person(self, name: str) -> str:
        body = {
            "auth": {"type": "m.login.dummy"},
            "username": f"{name.lower()}{next(_NUMBERS)}",
            "password": "secret-of-a-test",
        }
        made = await self.ask("", "POST", "register", body)
        user_id = str(made["user_id"])
        self._tokens[user_id] = str(made["access_token"])
        await self.ask(
            user_id, "PUT", f"profile/{quote(user_id)}/displayname", {"displayname": name}
        )
        return user_id

    async def dm(self, person: str) -> str:
        body = {"invite": [self.bot_id], "is_direct": True, "preset": "trusted_private_chat"}
        return str((await self.ask(person, "POST", "createRoom", body))["room_id"])

    async def group(self, person: str, *others: str) -> str:
        body = {"invite": [*others], "name": "Garden club", "preset": "private_chat"}
        room = str((await self.ask(person, "POST", "createRoom", body))["room_id"])
        for other in others:
            await self.ask(other, "POST", f"rooms/{quote(room)}/join", {})
        await self.ask(person, "POST", f"rooms/{quote(room)}/invite", {"user_id": self.bot_id})
        return room

    async def say(
        self, person: str, chat: str, text: str, *, to_bot: bool = False, reply_to: str = ""
    ) -> str:
        content: dict[str, Any] = {"msgtype": "m.text", "body": text}
        if to_bot:
            content["body"] = f"bot: {text}"
            content["m.mentions"] = {"user_ids": [self.bot_id]}
        if reply_to:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": reply_to}}
        return await self.send(person, chat, "m.room.message", content)

    async def edit(self, person: str, chat: str, message: str, text: str) -> None:
        content = {
            "msgtype": "m.text",
            "body": f"* {text}",
            "m.new_content": {"msgtype": "m.text", "body": text},
            "m.relates_to": {"rel_type": "m.replace", "event_id": message},
        }
        await self.send(person, chat, "m.room.message", content)

    async def delete(self, person: str, chat: str, message: str) -> None:
        path = f"rooms/{quote(chat)}/redact/{quote(message)}/{next(_NUMBERS)}"
        await self.ask(person, "PUT", path, {})

    async def press(self, person: str, chat: str, message: str, button: int) -> None:
        chosen = {"rel_type": "m.annotation", "event_id": message, "key": f"{button + 1}️⃣"}
        await self.send(person, chat, "m.reaction", {"m.relates_to": chosen})

    async def send_file(
        self, person: str, chat: str, name: str, content: bytes, content_type: str
    ) -> None:
        kind = content_type.partition("/")[0]
        kind = kind if kind in {"image", "audio", "video"} else "file"
        headers = {"Authorization": f"Bearer {self._tokens[person]}", "Content-Type": content_type}
        url = f"{self.url}/_matrix/media/v3/upload?filename={quote(name)}"
        async with self._session.post(url, data=content, headers=headers) as answer:
            uri = (await answer.json())["content_uri"]
        info = {"mimetype": content_type, "size": len(content)}
        said = {"msgtype": f"m.{kind}", "body": name, "url": uri, "info": info}
        await self.send(person, chat, "m.room.message", said)

    async def shown(self, chat: str) -> list[Shown]:
        found: dict[str, dict[str, Any]] = {}
        for event in await self.events(chat):
            content, relation = event["content"], event["content"].get("m.relates_to") or {}
            if event["sender"] != self.bot_id or not content:
                continue
            if relation.get("rel_type") == "m.replace":
                of = found[relation["event_id"]]
                of["text"], of["edits"] = content["m.new_content"]["body"], of["edits"] + 1
            elif event["type"] == "m.reaction":
                found[relation["event_id"]]["buttons"] += 1
            elif event["type"] == "m.room.message":
                of = {"text": content["body"], "edits": 0, "buttons": 0, "file": None}
                if "url" in content:
                    of["file"] = await self._download(content["url"])
                found[event["event_id"]] = of
        return [Shown(id=event_id, **of) for event_id, of in found.items()]

    def outage(self) -> AbstractAsyncContextManager[None]:
        return self._gate.cut()

    def losing_answers(self) -> AbstractAsyncContextManager[None]:
        return self._gate.losing_answers()

    async def shut_out(self, person: str, chat: str) -> None:
        del person  # in a direct chat both may do all, so that none can remove the other
        await self.ask(self.bot_id, "POST", f"rooms/{quote(chat)}/leave", {})

    async def revoke(self) -> None:
        await self.ask(self.bot_id, "POST", "logout", {})

    async def limit_messages(self, per_second: int) -> None:
        """Let the server take so many messages of the bot, and ask for a pause before more."""
        url = f"{self.url}/_synapse/admin/v1"
        async with self._session.get(f"{url}/register") as answer:
            nonce = str((await answer.json())["nonce"])
        name = f"admin{next(_NUMBERS)}"
        signed = f"{nonce}\0{name}\0secret\0admin".encode()
        body: dict[str, Any] = {
            "nonce": nonce,
            "username": name,
            "password": "secret",
            "admin": True,
            "mac": hmac.digest(REGISTRATION_SECRET.encode(), signed, "sha1").hex(),
        }
        async with self._session.post(f"{url}/register", json=body) as answer:
            headers = {"Authorization": f"Bearer {(await answer.json())['access_token']}"}
        limit = {"messages_per_second": per_second, "burst_count": 1}
        path = f"{url}/users/{quote(self.bot_id)}/override_ratelimit"
        async with self._session.post(path, json=limit, headers=headers) as answer:
            assert answer.status == 200, await answer.text()

    async def close(self) -> None:
        await self._gate.close()
        await self._session.close()

    async def events(self, chat: str) -> list[dict[str, Any]]:
        """All events of a room, as its first member sees them."""
        found: list[dict[str, Any]] = []
        start = ""
        filtering = quote(json.dumps({"lazy_load_members": True}))
        while True:
            path = f"rooms/{quote(chat)}/messages?dir=f&limit=100&filter={filtering}{start}"
            page = await self.ask(self._members[chat], "GET", path)
            found += page["chunk"]
            if "end" not in page:
                return found
            start = f"&from={page['end']}"

    async def send(self, person: str, chat: str, kind: str, content: dict[str, Any]) -> str:
        self._members[chat] = person
        path = f"rooms/{quote(chat)}/send/{kind}/{next(_NUMBERS)}"
        return str((await self.ask(person, "PUT", path, content)).get("event_id", ""))

    async def ask(self, person: str, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Ask the server on a person's behalf."""
        headers = {"Authorization": f"Bearer {self._tokens[person]}"} if person else {}
        url = f"{self.url}/_matrix/client/v3/{path}"
        async with self._session.request(method, url, json=body, headers=headers) as answer:
            found: dict[str, Any] = await answer.json()
            is_repeated = found.get("errcode") == "M_DUPLICATE_ANNOTATION"  # a second press
            assert answer.status == 200 or is_repeated, (method, path, found)
            return found

    async def _download(self, uri: str) -> bytes:
        headers = {"Authorization": f"Bearer {self._bot_token}"}
        url = f"{self.url}/_matrix/client/v1/media/download/{uri.removeprefix('mxc://')}"
        async with self._session.get(url, headers=headers) as answer:
            return await answer.read()
