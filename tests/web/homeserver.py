"""As much of a Matrix server as a bot asks for."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from aiohttp import web

Event: TypeAlias = dict[str, Any]
Run: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def loop_beside() -> Iterator[Run]:
    """Runs coroutines on a loop in a thread beside, and waits for each."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def served_homeserver() -> Iterator[ServedHomeserver]:
    """A homeserver at a free port of loopback."""
    with loop_beside() as run:
        server = ServedHomeserver(run)
        runner = run(server.start())
        try:
            yield server
        finally:
            run(runner.cleanup())


class ServedHomeserver:
    """What has happened in the rooms, and the bot's account."""

    bot_id = "@notes:demo"

    def __init__(self, run: Run) -> None:
        self.token, self.url = secrets.token_hex(16), ""
        self._run, self._news = run, asyncio.Event()
        self._events: list[Event] = []

    def write(self, person: str, text: str) -> None:
        """A person writes to the bot, in a direct chat that they begin for it."""
        self._run(self._write(f"!{person.lower()}:demo", f"@{person.lower()}:demo", person, text))

    async def start(self) -> web.AppRunner:
        app, api = web.Application(), "/_matrix/client/v3"
        app.router.add_get(f"{api}/account/whoami", self._who)
        app.router.add_get(f"{api}/sync", self._sync)
        app.router.add_post(f"{api}/join/{{room}}", self._join)
        app.router.add_put(f"{api}/rooms/{{room}}/typing/{{user}}", self._typing)
        app.router.add_put(f"{api}/rooms/{{room}}/send/{{kind}}/{{key}}", self._send)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _write(self, room: str, user: str, name: str, text: str) -> None:
        if not self._of(room):
            joined = {"membership": "join", "displayname": name}
            self._add(room, user, "m.room.member", joined, state_key=user)
            invited = {"membership": "invite", "is_direct": True}
            self._add(room, user, "m.room.member", invited, state_key=self.bot_id)
        self._add(room, user, "m.room.message", {"msgtype": "m.text", "body": text})

    async def _who(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.token in {token, request.query.get("access_token")}:
            return web.json_response({"user_id": self.bot_id})
        refused = {"errcode": "M_UNKNOWN_TOKEN", "error": "no account has this token"}
        return web.json_response(refused, status=401)

    async def _typing(self, _request: web.Request) -> web.Response:
        return web.json_response({})

    async def _join(self, request: web.Request) -> web.Response:
        room = request.match_info["room"]
        joined = {"membership": "join", "displayname": "Notes"}
        self._add(room, self.bot_id, "m.room.member", joined, state_key=self.bot_id)
        return web.json_response({"room_id": room})

    async def _send(self, request: web.Request) -> web.Response:
        room, kind = request.match_info["room"], request.match_info["kind"]
        event = self._add(room, self.bot_id, kind, await request.json())
        return web.json_response({"event_id": event})

    async def _sync(self, request: web.Request) -> web.Response:
        since, patience = (int(request.query.get(name) or 0) for name in ("since", "timeout"))
        if since == len(self._events):
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience / 1_000):
                    await self._news.wait()
        new = self._events[since:]
        rooms: dict[str, Event] = {"invite": {}, "join": {}, "leave": {}}
        for room in {event["room_id"]: None for event in new}:
            state = [event for event in self._of(room) if "state_key" in event]
            events = [event for event in new if event["room_id"] == room]
            if any(map(self._is_bots_join, events)):
                events = self._of(room)  # who joins sees what was said before
            if any(map(self._is_bots_join, state)):
                timeline = {"events": events, "limited": False, "prev_batch": str(since)}
                rooms["join"][room] = {"timeline": timeline, "state": {"events": state}}
            else:
                rooms["invite"][room] = {"invite_state": {"events": state}}
        return web.json_response({"next_batch": str(len(self._events)), "rooms": rooms})

    def _is_bots_join(self, event: Event) -> bool:
        return event.get("state_key") == self.bot_id and event["content"]["membership"] == "join"

    def _of(self, room: str) -> list[Event]:
        return [event for event in self._events if event["room_id"] == room]

    def _add(self, room: str, sender: str, kind: str, content: Event, **more: str) -> str:
        number = len(self._events) + 1
        head = {"event_id": f"${number}:demo", "room_id": room, "origin_server_ts": number}
        self._events.append({**head, "type": kind, "sender": sender, "content": content, **more})
        self._news.set()
        return f"${number}:demo"
