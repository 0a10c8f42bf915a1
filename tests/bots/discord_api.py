"""Discord's gateway and REST API on loopback, as its public documentation has them."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
import zlib
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler

Json = dict[str, Any]

_EPOCH_MS: Final = 1_420_070_400_000
_MESSAGE_CONTENT: Final = 1 << 15
_MAY_READ: Final = 1 << 19
_JOINED: Final = "2026-01-01T00:00:00.000000+00:00"
_UNAUTHORIZED: Final = (401, {"message": "401: Unauthorized", "code": 0})


class Refused(Exception):  # noqa: N818  an answer of the server's
    def __init__(self, status: int, body: Json) -> None:
        super().__init__(status, body)
        self.status, self.body = status, body


@dataclass
class Session:
    """A session of the gateway: it goes on when its connection is lost."""

    id: str
    events: list[Json] = field(default_factory=list)
    socket: web.WebSocketResponse | None = None
    deflate: Any = None

    async def send(self, document: Json) -> None:
        if self.socket is None:
            return
        text = json.dumps(document)
        # A bot that was killed this moment has left: it asks for the event when it resumes.
        with contextlib.suppress(ConnectionResetError):
            if self.deflate is None:
                await self.socket.send_str(text)
            else:
                data = self.deflate.compress(text.encode()) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
                await self.socket.send_bytes(data)


class DiscordApi:
    """One bot, and what it may ask. `asked` are the requests, `opcodes` what it told the gateway.

    `is_deaf`: heartbeats are not acknowledged. `sees_log`: it may look into audit logs.
    """

    def __init__(self) -> None:
        self.token = "MjcyNzI3MjcyNzI3MjcyNzI3.Gtest.token_of_a_test"  # noqa: S105  a test's
        self.bot = self.user("NotesBot", 272727272727272727) | {"bot": True}
        self.flags = _MAY_READ
        self.url, self.gateway = "", ""
        self.channels: dict[int, Json] = {}
        self.guilds: dict[int, Json] = {}
        self.added_by: dict[int, int] = {}
        self.added_at: dict[int, str] = {}
        self.messages: dict[tuple[int, int], Json] = {}
        self.edits: dict[tuple[int, int], int] = {}
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.opcodes: list[int] = []
        self.refusals: list[tuple[int, Json]] = []  # of the next requests that write
        self.loses_answers = False  # what is asked is done, and nothing says so
        self.left: list[int] = []
        self.acknowledged: list[int] = []
        self.sessions: dict[str, Session] = {}
        self.heartbeat_ms, self.is_deaf, self.sees_log = 41_250, False, True
        self._last_ms = 0
        self._nonces: dict[tuple[int, str], Json] = {}

    async def open(self) -> DiscordApi:
        app = web.Application(client_max_size=64 << 20, middlewares=[self._guard])
        base, messages = "/api/v10", "/api/v10/channels/{channel}/messages"
        app.add_routes(
            [
                web.get("/gateway/", self._gateway),
                web.get("/cdn/{name:.+}", self._file),
                web.get(f"{base}/users/@me", self._me),
                web.get(f"{base}/oauth2/applications/@me", self._application),
                web.get(f"{base}/gateway/bot", self._gateway_bot),
                web.post(f"{base}/channels/{{channel}}/typing", self._typing),
                web.post(messages, self._send),
                web.patch(f"{messages}/{{message}}", self._edit),
                web.get(messages, self._history),
                web.get(f"{base}/guilds/{{guild}}/audit-logs", self._log),
                web.delete(f"{base}/users/@me/guilds/{{guild}}", self._leave),
                web.post(f"{base}/interactions/{{press}}/{{token}}/callback", self._acknowledge),
            ]
        )
        self._runner = web.AppRunner(
            app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def close(self) -> None:
        await self.cut(1001)
        await self._runner.cleanup()

    def snowflake(self) -> int:
        """An id; each has a millisecond of its own, as a busy server would not have it."""
        self._last_ms = max(int(time.time() * 1_000) - _EPOCH_MS, self._last_ms + 1)
        return self._last_ms << 22

    def user(self, name: str, number: int) -> Json:
        names = {"username": name.lower(), "global_name": name, "discriminator": "0"}
        return {"id": str(number), **names, "avatar": None, "public_flags": 0}

    def message(self, channel: int, author: Json, **what: Any) -> Json:
        """A message, as REST has it."""
        number = self.snowflake()
        said = {
            "id": str(number),
            "channel_id": str(channel),
            "author": author,
            "content": "",
            "timestamp": _at(number),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": 0,
            "flags": 0,
            "components": [],
            **what,
        }
        self.messages[channel, number] = said
        self.channels[channel]["last_message_id"] = str(number)
        return said

    async def tell(self, name: str, said: Json) -> None:
        """An event of the gateway about a message or the like, with its server's id."""
        guild = self.channels[int(said["channel_id"])].get("guild_id")
        more: Json = {}
        if guild:
            more["guild_id"] = guild
            if "author" in said:
                more["member"] = {"roles": [], "joined_at": _JOINED, "nick": None, "flags": 0}
        await self.dispatch(name, {**said, **more})

    async def dispatch(self, name: str, data: Json) -> None:
        for session in [*self.sessions.values()]:
            await self._dispatch(session, name, data)

    async def _dispatch(self, session: Session, name: str, data: Json) -> None:
        event = {"op": 0, "t": name, "s": len(session.events) + 1, "d": data}
        session.events.append(event)
        await session.send(event)

    async def join(self, guild: int, person: int) -> None:
        """A person adds the bot to a server."""
        self.added_by[guild], self.added_at[guild] = person, _at(self.snowflake())
        created = self._created(guild)
        await self.dispatch("GUILD_CREATE", created)

    async def cut(self, code: int, *, forget: bool = False) -> None:
        """Close the gateway's connections with that code."""
        for session in [*self.sessions.values()]:
            if session.socket is not None:
                await session.socket.close(code=code)
        if forget:
            self.sessions.clear()

    async def revoke(self) -> None:
        self.token = "another"  # noqa: S105  a test's
        await self.cut(4004)

    async def _gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        is_packed = request.query.get("compress") == "zlib-stream"
        session = Session("", socket=socket, deflate=zlib.compressobj() if is_packed else None)
        await session.send({"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}})
        try:
            async for frame in socket:
                if frame.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                    session = await self._told(session, json.loads(frame.data))
        finally:
            if session.socket is socket:  # and not one on which the bot has resumed meanwhile
                session.socket = None
        return socket

    async def _told(self, session: Session, document: Json) -> Session:
        opcode, data = document["op"], document["d"]
        self.opcodes.append(opcode)
        socket = session.socket
        assert socket is not None
        if opcode == 1 and not self.is_deaf:
            await session.send({"op": 11, "d": None})
        if opcode in {2, 6} and data["token"] != self.token:
            await socket.close(code=4004, message=b"Authentication failed.")
        elif opcode == 2 and data["intents"] & _MESSAGE_CONTENT and not self.flags & _MAY_READ:
            await socket.close(code=4014, message=b"Disallowed intent(s).")
        elif opcode == 2:
            session.id = f"s{self.snowflake()}"
            self.sessions[session.id] = session
            await self._ready(session)
        elif opcode == 6:
            return await self._resume(session, data)
        return session

    async def _ready(self, session: Session) -> None:
        guilds = [{"id": str(one), "unavailable": True} for one in self.added_by]
        ready = {
            "v": 10,
            "user": self._own_user(),
            "guilds": guilds,
            "session_id": session.id,
            "resume_gateway_url": self.gateway_url,
            "application": {"id": self.bot["id"], "flags": self.flags},
        }
        await self._dispatch(session, "READY", ready)
        for guild in [*self.added_by]:
            await self._dispatch(
                session, "GUILD_CREATE", {**self._created(guild), "unavailable": False}
            )

    async def _resume(self, session: Session, data: Json) -> Session:
        found = self.sessions.get(data["session_id"])
        if found is None:
            await session.send({"op": 9, "d": False})
            return session
        found.socket, found.deflate = session.socket, session.deflate
        for event in found.events[data["seq"] :]:
            await found.send(event)
        await self._dispatch(found, "RESUMED", {})
        return found

    @property
    def is_online(self) -> bool:
        return any(session.socket is not None for session in self.sessions.values())

    @property
    def gateway_url(self) -> str:
        return self.gateway or f"{self.url.replace('http', 'ws', 1)}/gateway/"

    def _created(self, guild: int) -> Json:
        own = [
            channel for channel in self.channels.values() if channel.get("guild_id") == str(guild)
        ]
        more = {
            "channels": [one for one in own if one["type"] == 0],
            "joined_at": self.added_at[guild],
        }
        return {**self.guilds[guild], **more, "threads": [one for one in own if one["type"] == 11]}

    def _own_user(self) -> Json:
        return {**self.bot, "mfa_enabled": True, "verified": True, "email": None, "flags": 0}

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith("/api/") or request.path.endswith("/callback"):
            return await handler(request)
        self.asked.append((request.method, request.path))
        refused = None
        if request.headers.get("Authorization") != f"Bot {self.token}":
            refused = _UNAUTHORIZED
        elif self.refusals and request.method in {"POST", "PATCH"}:
            refused = self.refusals.pop(0)
        if refused is None:
            try:
                return await handler(request)
            except Refused as error:
                refused = error.status, error.body
            finally:
                if self.loses_answers and request.transport is not None:
                    request.transport.abort()
        return web.json_response(refused[1], status=refused[0])

    async def _me(self, _request: web.Request) -> web.Response:
        return web.json_response(self._own_user())

    async def _gateway_bot(self, _request: web.Request) -> web.Response:
        limit = {"total": 1_000, "remaining": 999, "reset_after": 0, "max_concurrency": 1}
        found = {"url": self.gateway_url, "shards": 1, "session_start_limit": limit}
        return web.json_response(found)

    async def _typing(self, request: web.Request) -> web.Response:
        self._channel(request)
        return web.Response(status=204)

    async def _leave(self, request: web.Request) -> web.Response:
        guild = request.match_info["guild"]
        self.left.append(int(guild))
        self.added_by.pop(int(guild), None)
        await self.dispatch("GUILD_DELETE", {"id": guild})
        return web.Response(status=204)

    async def _acknowledge(self, request: web.Request) -> web.Response:
        assert (await request.json())["type"] == 6
        number = request.match_info["press"]
        assert request.match_info["token"] == f"t{number}"
        self.acknowledged.append(int(number))
        return web.json_response({"interaction": {"id": number, "type": 3}})

    async def _application(self, _request: web.Request) -> web.Response:
        found = {
            "id": self.bot["id"],
            "name": "Notes",
            "description": "",
            "bot_public": False,
            "bot_require_code_grant": False,
            "owner": self.user("Owner", 1),
            "verify_key": "00",
            "flags": self.flags,
            "approximate_guild_count": 0,
            "approximate_user_install_count": 0,
        }
        return web.json_response(found)

    def _channel(self, request: web.Request) -> int:
        number = int(request.match_info["channel"])
        found = self.channels.get(number)
        if found is None:
            raise Refused(404, {"message": "Unknown Channel", "code": 10003})
        if found.get("is_hidden") or int(found.get("guild_id") or 0) in self.left:
            raise Refused(403, {"message": "Missing Access", "code": 50001})
        return number

    async def _send(self, request: web.Request) -> web.Response:
        channel, files = self._channel(request), []
        if request.content_type.startswith("multipart/"):
            form = await request.post()
            said = json.loads(form["payload_json"])  # type: ignore[arg-type]  # bytes, for its type
            for name, part in form.items():
                if name.startswith("files["):
                    assert isinstance(part, web.FileField)
                    files.append(self.attachment(part.filename, part.file.read(), ""))
        else:
            said = await request.json()
        known = self._nonces.get((channel, said.get("nonce") or ""))
        if known is not None and said.get("enforce_nonce"):
            return web.json_response(known)
        what = {**_checked(said, is_empty=not files), "attachments": files}
        sent = self.message(channel, self.bot, **what)
        if said.get("nonce"):
            assert len(said["nonce"]) <= 25
            self._nonces[channel, said["nonce"]] = sent
        await self.tell("MESSAGE_CREATE", sent)
        return web.json_response(sent)

    async def _edit(self, request: web.Request) -> web.Response:
        channel, number = self._channel(request), int(request.match_info["message"])
        found = self.messages.get((channel, number))
        if found is None:
            raise Refused(404, {"message": "Unknown Message", "code": 10008})
        if found["author"] != self.bot:
            body = {"message": "Cannot edit a message authored by another user", "code": 50005}
            raise Refused(403, body)
        found |= {**_checked(await request.json()), "edited_timestamp": _at(self.snowflake())}
        self.edits[channel, number] = self.edits.get((channel, number), 0) + 1
        await self.tell("MESSAGE_UPDATE", found)
        return web.json_response(found)

    async def _history(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        after, limit = int(request.query.get("after") or 0), int(request.query["limit"])
        own = [
            said for (place, one), said in self.messages.items() if place == channel and one > after
        ]
        return web.json_response(sorted(own, key=lambda one: int(one["id"]))[:limit][::-1])

    async def _log(self, request: web.Request) -> web.Response:
        guild = int(request.match_info["guild"])
        if not self.sees_log:
            raise Refused(403, {"message": "Missing Permissions", "code": 50013})
        assert request.query["action_type"] == "28"
        entry = {
            "id": str(guild + 1),
            "user_id": str(self.added_by[guild]),
            "target_id": self.bot["id"],
            "action_type": 28,
        }
        other = {**entry, "id": str(guild + 2), "user_id": "3", "target_id": "4"}
        names = ("auto_moderation_rules", "integrations", "users", "threads", "webhooks")
        found = {"audit_log_entries": [other, entry], **{name: [] for name in names}}
        return web.json_response(found)

    def attachment(self, name: str, content: bytes, content_type: str) -> Json:
        number = self.snowflake()
        self.files[f"{number}/{name}"] = content
        url = f"{self.url}/cdn/{number}/{name}"
        found = {"id": str(number), "filename": name, "size": len(content), "url": url}
        return {
            **found,
            "proxy_url": url,
            **({"content_type": content_type} if content_type else {}),
        }

    async def _file(self, request: web.Request) -> web.Response:
        content = self.files.get(request.match_info["name"])
        return web.Response(status=404) if content is None else web.Response(body=content)


def _at(number: int) -> str:
    seconds, ms = divmod((number >> 22) + _EPOCH_MS, 1_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03}000+00:00"


def _checked(said: Json, *, is_empty: bool = True) -> Json:
    """What a message may hold. Refused: Discord would not take it."""
    text, rows = said.get("content") or "", said.get("components") or []
    if is_empty and not text.strip():
        raise Refused(400, {"message": "Cannot send an empty message", "code": 50006})
    labels = [one["label"] for row in rows for one in row["components"]]
    if (
        len(text) > 2_000
        or len(rows) > 5
        or any(not 1 <= len(row["components"]) <= 5 for row in rows)
        or any(not 1 <= len(label) <= 80 for label in labels)
    ):
        raise Refused(400, {"message": "Invalid Form Body", "code": 50035})
    assert said["allowed_mentions"] == {"parse": []}
    for number, one in enumerate(itertools.chain(rows, *(row["components"] for row in rows)), 1):
        one["id"] = number
    return {"content": text.strip(), "components": rows, "flags": said.get("flags", 0)}
