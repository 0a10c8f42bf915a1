"""Discord: the gateway and the REST API, by hikari.

Within a session the gateway itself repeats what a lost connection missed. Whenever another session
begins, what was written meanwhile is asked for: the cursor says how far each channel was read,
which of them are direct chats, since a bot cannot ask for these, and in which servers it is known
who added the bot.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, ClassVar, Final

import aiohttp
import hikari
from hikari.impl import CacheSettings, HTTPSettings

from .connector import (
    Attachment,
    Connector,
    ConnectorError,
    CredentialsError,
    Cursor,
    Incoming,
    Limits,
    Platform,
    RetryLaterError,
    UnansweredError,
)
from .discord_messages import ODD, Reader, with_tables

_INTENTS: Final = (
    hikari.Intents.GUILDS
    | hikari.Intents.GUILD_MESSAGES
    | hikari.Intents.DM_MESSAGES
    | hikari.Intents.MESSAGE_CONTENT
)
_MAY_READ: Final = (
    hikari.ApplicationFlags.MESSAGE_CONTENT_INTENT
    | hikari.ApplicationFlags.MESSAGE_CONTENT_INTENT_LIMITED
)
_WITHOUT_INTENT: Final = (
    "it may not read messages: turn on Message Content Intent on the page Bot of "
    "discord.com/developers/applications, and run `parachute bots add discord - < token.txt`"
)
_UNKNOWN_ADDER: Final = (
    "I cannot see who added me, and leave. I look in the audit log, which takes the permission "
    "View Audit Log and goes back 45 days."
)
_BAD_TOKEN: Final = "Discord does not take the bot's token"  # noqa: S105  none
_TOKEN: Final = re.compile(r"[\w.-]{1,200}", re.ASCII)
_LONGEST: Final = 2_000
_PAUSE_S: Final = 30.0  # where Discord does not say how long
_LONGEST_WAIT_S: Final = 5.0  # in the library, for a limit; a longer one is the core's to wait for
_BESIDE_MS: Final = 30_000  # messages of two channels may come in another order
_MOST_MISSED, _MOST_CHATS, _MOST_DIRECT = 1_000, 1_000, 200
_A_ROW: Final = 5
_log: Final = logging.getLogger(__name__)


class _UnreadableError(ConnectorError):
    """What Discord answered is not as hikari expects it."""


@dataclass
class _Memory:
    """What the cursor holds: the last message that is stored, of each channel."""

    read: dict[str, int] = field(default_factory=dict)
    direct: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)


class DiscordConnector(Connector):
    """One bot. A chat is a channel, of which a thread is one too; its parent is the server."""

    platform: ClassVar[Platform] = "discord"
    title: ClassVar[str] = "Discord"
    limits: ClassVar[Limits] = Limits(longest=_LONGEST, edit_s=1.0, largest_file=10 << 20)

    def __init__(
        self, credentials: Mapping[str, str], cursor: Cursor, reconnect_s: float = 12.0
    ) -> None:
        """`reconnect_s`: how long a connection may take to come or to come back."""
        self._token, self._cursor = credentials["token"].strip(), cursor
        self._reconnect_s = reconnect_s
        self._url = credentials.get("base_url") or None
        self._http = HTTPSettings()
        self._app = hikari.RESTApp(
            http_settings=self._http, max_rate_limit=_LONGEST_WAIT_S, max_retries=0, url=self._url
        )
        self._opened: hikari.impl.RESTClientImpl | None = None
        self._memory, self._before = _Memory(), 0

    async def connect(self) -> str:
        if not _TOKEN.fullmatch(self._token):
            raise CredentialsError("a bot's token is letters, digits and dots")
        if self._opened is None:
            await self._app.start()
            self._opened = self._app.acquire(self._token, hikari.TokenType.BOT)
            self._opened.start()
        me = await self._ask(self._rest.fetch_my_user())
        self._reader = Reader(self._rest.entity_factory, me.id)
        with suppress(_UnreadableError):  # it is long, and not needed
            application = await self._ask(self._rest.fetch_application())
            if not application.flags & _MAY_READ:
                raise ConnectorError(_WITHOUT_INTENT)
        return f"@{me.username}"

    async def listen(self) -> AsyncIterator[Incoming]:
        """What happens, and first what was missed."""
        self._memory = _Memory(**json.loads(await self._cursor.get() or "{}"))
        events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        others = asyncio.all_tasks()
        session = asyncio.create_task(  # noqa: TID251  it is awaited below
            self._hold(events), name="Discord's gateway"
        )
        wait_s: float | None = self._reconnect_s
        try:
            while True:
                try:
                    async with asyncio.timeout(wait_s):
                        name, payload = await events.get()
                except TimeoutError as error:
                    raise RetryLaterError("Discord cannot be reached") from error
                if name == "ended":
                    raise payload
                wait_s = self._reconnect_s if name == "disconnected" else None
                async for incoming in self._happenings(name, payload):
                    yield incoming
        finally:
            session.cancel()
            await asyncio.wait([session])
            for task in asyncio.all_tasks() - others:  # hikari leaves them where it is cancelled
                if re.search(r"\(shard \d+\)", task.get_name()):
                    task.cancel()

    async def send(
        self, chat_id: str, text: str, buttons: Sequence[str] = (), *, key: str = ""
    ) -> str:
        nonce = key[:25] or hikari.UNDEFINED  # Discord knows it for some minutes
        send = self._rest.create_message(int(chat_id), nonce=nonce, **self._content(text, buttons))
        return str((await self._ask(send)).id)

    async def edit(
        self, chat_id: str, message_id: str, text: str, buttons: Sequence[str] = ()
    ) -> None:
        content = self._content(text, buttons)
        await self._ask(self._rest.edit_message(int(chat_id), int(message_id), **content))

    async def send_file(self, chat_id: str, name: str, content: bytes, *, key: str = "") -> str:
        file, nonce = hikari.Bytes(content, name), key[:25] or hikari.UNDEFINED
        sent = await self._ask(
            self._rest.create_message(int(chat_id), attachment=file, nonce=nonce)
        )
        return str(sent.id)

    async def typing(self, chat_id: str) -> None:
        await self._ask(self._rest.trigger_typing(int(chat_id)))

    async def fetch(self, attachment: Attachment) -> bytes:
        return bytes(await self._ask(self._download(attachment)))

    async def leave(self, chat_id: str) -> None:
        await self._ask(self._rest.leave_guild(int(chat_id)))

    def size(self, text: str) -> int:
        """Units of UTF-16 of what is sent, of which there are never fewer than Discord counts."""
        return len(with_tables(text).encode("utf-16-le", "replace")) // 2

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            await self._app.close()
            self._opened = None

    @property
    def _rest(self) -> hikari.impl.RESTClientImpl:
        if self._opened is None:
            raise RetryLaterError("the bot is not connected to Discord")
        return self._opened

    async def _hold(self, events: asyncio.Queue[tuple[str, Any]]) -> None:
        """Be connected until this is cancelled, and put what happens into that queue."""
        bot = hikari.GatewayBot(
            self._token,
            banner=None,
            logs=None,
            suppress_optimization_warning=True,
            cache_settings=CacheSettings(components=hikari.api.CacheComponents.NONE),
            http_settings=self._http,
            intents=_INTENTS,
            max_rate_limit=_LONGEST_WAIT_S,
            max_retries=0,
            rest_url=self._url,
        )

        async def take(event: hikari.ShardPayloadEvent) -> None:
            events.put_nowait((event.name, event.payload))
            if event.name == "INTERACTION_CREATE":  # before Discord says that it failed
                await self._acknowledge(event.payload)

        async def disconnected(_event: hikari.ShardDisconnectedEvent) -> None:
            events.put_nowait(("disconnected", None))

        bot.subscribe(hikari.ShardPayloadEvent, take)
        bot.subscribe(hikari.ShardDisconnectedEvent, disconnected)
        problem: ConnectorError = RetryLaterError("Discord ended the connection")
        try:
            await bot.start(check_for_updates=False)
            await bot.join()
        except Exception as error:  # noqa: BLE001  it goes to the listener
            problem = _problem(error)
        finally:
            with suppress(hikari.ComponentStateConflictError):
                await bot.close()
        events.put_nowait(("ended", problem))

    async def _acknowledge(self, press: Mapping[str, Any]) -> None:
        deferred = hikari.ResponseType.DEFERRED_MESSAGE_UPDATE
        with suppress(ConnectorError, *ODD):
            answer = self._rest.create_interaction_response
            await self._ask(answer(int(press["id"]), press["token"], deferred))

    async def _happenings(self, name: str, payload: Any) -> AsyncIterator[Incoming]:  # noqa: ANN401  JSON
        """What follows from an event; one that is not as documented is left out."""
        try:
            behind = self._behind(name, payload)
            incomings = self._reader.incoming(name, payload)
            is_gone = name == "GUILD_DELETE" and not payload.get("unavailable")
            left = {str(payload["id"])} if is_gone else set()
        except ODD:
            _log.warning("something that Discord sent cannot be read", extra={"event": name})
            return
        if left & {*self._memory.servers}:
            self._memory.servers = [server for server in self._memory.servers if server not in left]
            await self._save()
        for channel, server, since in behind:
            for incoming in await self._missed(channel, server, since):
                async for each in self._brought(incoming):
                    yield each
        for incoming in incomings:
            async for each in self._brought(incoming):
                yield each

    def _behind(self, name: str, payload: Any) -> list[tuple[str, int, int]]:  # noqa: ANN401  the same
        """The channels of which something was missed, with their server, and since when."""
        read = self._memory.read
        if name == "READY":  # another session; what was read of a channel may not be known
            self._before = max(0, max(read.values(), default=0) - (_BESIDE_MS << 22))
            return [(one, 0, read[one]) for one in self._memory.direct]
        if name == "MESSAGE_CREATE" and not payload.get("guild_id") and self._before:
            channel = str(payload["channel_id"])
            return [] if channel in read else [(channel, 0, self._before)]
        if name != "GUILD_CREATE" or payload.get("unavailable"):
            return []
        joined = hikari.Snowflake.from_datetime(datetime.fromisoformat(payload["joined_at"]))
        found, number = list[tuple[str, int, int]](), int(payload["id"])
        self._reader.names[str(number)] = str(payload["name"])
        for one in (*payload["channels"], *payload["threads"]):
            channel, last = str(one["id"]), int(one.get("last_message_id") or 0)
            self._reader.names[channel] = f"{payload['name']} #{one['name']}"
            since = max(read.get(channel, self._before), joined)
            if last > since and self._before:
                found.append((channel, number, since))
        return found

    async def _missed(self, channel: str, server: int, since: int) -> list[Incoming]:
        iterator = self._rest.fetch_messages(int(channel), after=since).limit(_MOST_MISSED)
        try:
            messages = await self._ask(iterator)
            incomings = [self._reader.message(message, server) for message in messages]
        except (RetryLaterError, CredentialsError):
            raise
        except (ConnectorError, *ODD):  # such as a channel that the bot may not read
            return []
        return [incoming for incoming in incomings if incoming is not None]

    async def _brought(self, incoming: Incoming) -> AsyncIterator[Incoming]:
        """What happened. Who added the bot to a server comes before the first message there that is
        for it: until then they may become paired.
        """
        memory, chat, server = self._memory, incoming.chat_id, incoming.parent_id
        if incoming.kind != "message":
            yield incoming
            return
        number = int(incoming.message_id)
        is_for_bot = incoming.is_addressed or incoming.text.startswith(("/", "!")) or not server
        if chat not in memory.read:
            memory.read[chat] = number - 1
            memory.direct += [] if server else [chat]
            if is_for_bot:
                await self._save()
        if server and is_for_bot and server not in memory.servers:
            yield Incoming(
                update_id=f"{server} added",
                kind="added",
                chat_id=server,
                chat_type="group",
                sender_id=await self._adder(int(server), chat),
            )
            memory.servers.append(server)
        yield incoming
        memory.read[chat] = max(number, memory.read.get(chat, 0))
        if is_for_bot:  # what others say in a server is not worth a write
            await self._save()

    async def _adder(self, server: int, channel: str) -> str:
        """Who added the bot to a server; empty: it cannot be known."""
        added, own = hikari.AuditLogEventType.BOT_ADD, list[hikari.AuditLogEntry]()
        try:
            logs = await self._ask(self._rest.fetch_audit_log(server, event_type=added).limit(1))
            entries = [entry for log in logs for entry in log.entries.values()]
            own = [entry for entry in entries if entry.target_id == self._reader.own]
        except (RetryLaterError, CredentialsError):
            raise
        except ConnectorError:
            pass  # it may not look
        if own:
            return str(max(own, key=lambda log_entry: log_entry.id).user_id)
        with suppress(ConnectorError):
            await self.send(channel, _UNKNOWN_ADDER)
        return ""

    async def _save(self) -> None:
        memory = self._memory
        for one in sorted(memory.read, key=memory.read.__getitem__)[:-_MOST_CHATS]:
            del memory.read[one]
        memory.direct = [one for one in memory.direct if one in memory.read][-_MOST_DIRECT:]
        await self._cursor.put(json.dumps(asdict(memory)))

    def _content(self, text: str, buttons: Sequence[str]) -> dict[str, Any]:
        """A message in which no link is opened by Discord; that it calls no one is hikari's own."""
        rows = []
        for start in range(0, len(buttons), _A_ROW):
            row = self._rest.build_message_action_row()
            for at, one in enumerate(buttons[start : start + _A_ROW], start):
                label = one[:80].strip() or str(at + 1)
                row.add_interactive_button(hikari.ButtonStyle.SECONDARY, str(at), label=label)
            rows.append(row)
        words = with_tables(text.encode("utf-8", "replace").decode())
        flags = hikari.MessageFlag.SUPPRESS_EMBEDS
        return {"content": words, "components": rows, "flags": flags}

    async def _download(self, attachment: Attachment) -> bytes:
        content = bytearray()
        async with hikari.URL(attachment.key).stream() as parts:
            async for part in parts:
                content += part
                if len(content) > self.limits.largest_file:
                    raise ConnectorError(f"{attachment.name} is too large")
        return bytes(content)

    async def _ask(self, asked: Awaitable[Any]) -> Any:  # noqa: ANN401  any of hikari's answers
        try:
            return await asked
        except ConnectorError:
            raise
        except ODD as error:
            raise _UnreadableError("Discord's answer cannot be read") from error
        except (hikari.HikariError, aiohttp.ClientError, OSError) as error:
            raise _problem(error) from error


def _problem(error: Exception) -> ConnectorError:
    match error:
        case (
            hikari.UnauthorizedError()
            | hikari.GatewayServerClosedConnectionError(
                code=hikari.ShardCloseCode.AUTHENTICATION_FAILED
            )
        ):
            return CredentialsError(_BAD_TOKEN)
        case hikari.GatewayServerClosedConnectionError(
            code=hikari.ShardCloseCode.DISALLOWED_INTENT
        ):
            return ConnectorError(_WITHOUT_INTENT)
        case (
            hikari.RateLimitTooLongError()
            | hikari.HTTPResponseError(status=HTTPStatus.TOO_MANY_REQUESTS)
        ):
            pause = getattr(error, "retry_after", _PAUSE_S)
            return RetryLaterError("Discord asks for a pause", pause)
        case hikari.ClientHTTPResponseError():
            return ConnectorError(f"Discord refused it: {error.message[:200]}")
        case hikari.HTTPError() if not isinstance(error.__cause__, aiohttp.ClientConnectorError):
            return UnansweredError("Discord did not answer")  # it was reached
    return RetryLaterError("Discord cannot be reached")
