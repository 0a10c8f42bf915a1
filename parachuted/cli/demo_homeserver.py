"""Demo homeserver: as much of a Matrix server as a bot asks for, on loopback: direct chats, with
nothing stored. For the demo and for tests of the page.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

from aiohttp import web

Event: TypeAlias = dict[str, Any]
_API: Final = "/_matrix/client/v3"
_ROOM: Final = f"{_API}/rooms/{{room}}"


class DemoHomeserver:
    """What has happened in the rooms, and the bot's account. People write by `write`."""

    bot_id = "@notes:demo"

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        self.url = ""
        self._events: list[Event] = []
        self._by_key: dict[str, str] = {}
        self._news = asyncio.Event()

    def app(self) -> web.Application:
        """What the connector asks."""
        app = web.Application(middlewares=[self._check_token])
        app.add_routes(
            [
                web.get(f"{_API}/account/whoami", self._who),
                web.get(f"{_API}/sync", self._sync),
                web.post(f"{_API}/join/{{room}}", self._join),
                web.put(f"{_ROOM}/typing/{{user}}", self._nothing),
                web.put(f"{_ROOM}/send/{{kind}}/{{key}}", self._send),
            ]
        )
        return app

    async def write(self, person: str, text: str) -> None:
        """A person writes to the bot, in a direct chat that they begin for it."""
        room, user = f"!{person.lower()}:demo", f"@{person.lower()}:demo"
        if not self._of(room):
            for member, content in (
                (user, {"membership": "join", "displayname": person}),
                (self.bot_id, {"membership": "invite", "is_direct": True}),
            ):
                self._add(room, user, "m.room.member", content, state_key=member)
        said = {"msgtype": "m.text", "body": text}
        self._add(room, user, "m.room.message", said)

    async def answers(self, person: str) -> list[str]:
        """What the bot has said to them, as it is after its edits."""
        found: dict[str, str] = {}
        for event in self._of(f"!{person.lower()}:demo"):
            content = event["content"]
            if event["sender"] == self.bot_id and event["type"] == "m.room.message":
                replaced = content.get("m.relates_to", {}).get("event_id", event["event_id"])
                found[replaced] = content.get("m.new_content", content)["body"]
        return [*found.values()]

    @web.middleware
    async def _check_token(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.token not in {token, request.query.get("access_token")}:
            refused = {"errcode": "M_UNKNOWN_TOKEN", "error": "no account has this token"}
            return web.json_response(refused, status=401)
        return await handler(request)

    async def _who(self, request: web.Request) -> web.Response:
        del request
        return web.json_response({"user_id": self.bot_id})

    async def _nothing(self, request: web.Request) -> web.Response:
        del request
        return web.json_response({})

    async def _join(self, request: web.Request) -> web.Response:
        room = request.match_info["room"]
        joined = {"membership": "join", "displayname": "Notes"}
        self._add(room, self.bot_id, "m.room.member", joined, state_key=self.bot_id)
        return web.json_response({"room_id": room})

    async def _send(self, request: web.Request) -> web.Response:
        key, room = request.match_info["key"], request.match_info["room"]
        if key not in self._by_key:
            kind, content = request.match_info["kind"], await request.json()
            self._by_key[key] = self._add(room, self.bot_id, kind, content)
        return web.json_response({"event_id": self._by_key[key]})

    async def _sync(self, request: web.Request) -> web.Response:
        since = int(request.query.get("since") or 0)
        if since == len(self._events):
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self._news.wait(), int(request.query.get("timeout") or 0) / 1_000
                )
        new = self._events[since:]
        rooms: dict[str, dict[str, Any]] = {"invite": {}, "join": {}, "leave": {}}
        for room in dict.fromkeys(str(one["room_id"]) for one in new):
            state = [one for one in self._of(room) if "state_key" in one]
            events = [one for one in new if one["room_id"] == room]
            if any(self._is_bots_join(one) for one in events):
                events = self._of(room)  # who joins sees what was said before
            if any(self._is_bots_join(one) for one in state):
                timeline = {"events": events, "limited": False, "prev_batch": str(since)}
                rooms["join"][room] = {"timeline": timeline, "state": {"events": state}}
            else:
                rooms["invite"][room] = {"invite_state": {"events": state}}
        return web.json_response({"next_batch": str(len(self._events)), "rooms": rooms})

    def _is_bots_join(self, event: Event) -> bool:
        return event.get("state_key") == self.bot_id and event["content"]["membership"] == "join"

    def _of(self, room: str) -> list[Event]:
        return [one for one in self._events if one["room_id"] == room]

    def _add(self, room: str, sender: str, kind: str, content: dict[str, Any], **more: str) -> str:
        number = len(self._events) + 1
        head = {"event_id": f"${number}:demo", "room_id": room, "origin_server_ts": number}
        self._events.append({**head, "type": kind, "sender": sender, "content": content, **more})
        self._news.set()
        return f"${number}:demo"


class ServedHomeserver:
    """The same on a loop of its own, for callers who have none."""

    def __init__(self, server: DemoHomeserver, loop: asyncio.AbstractEventLoop) -> None:
        self._server, self._loop = server, loop
        self.bot_id, self.token, self.url = server.bot_id, server.token, server.url

    def write(self, person: str, text: str) -> None:
        """A person writes to the bot."""
        asyncio.run_coroutine_threadsafe(self._server.write(person, text), self._loop).result()

    def answers(self, person: str) -> list[str]:
        """What the bot has said to them."""
        return asyncio.run_coroutine_threadsafe(self._server.answers(person), self._loop).result()


@contextmanager
def served_homeserver() -> Iterator[ServedHomeserver]:
    """A homeserver at a free port of loopback."""
    loop, server = asyncio.new_event_loop(), DemoHomeserver()
    runner = web.AppRunner(
        server.app(), handler_cancellation=True, shutdown_timeout=0, access_log=None
    )

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result()
        yield ServedHomeserver(server, loop)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
