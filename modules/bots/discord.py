"""Discord: the gateway and the REST API, by hikari.

Within a session the gateway itself repeats what a lost connection missed. Whenever another session
begins, what was written since is asked for: the cursor says up to which message all is stored,
which direct chats there are, which a bot cannot ask for, and in which servers it is known who added
the bot.
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
from typing import Any, ClassVar, Final

import aiohttp
import hikari
from hikari.impl import CacheSettings, HTTPSettings

from .connector import (
    Attachment,
    ConnectorError,
    CredentialField,
    CredentialsError,
    Cursor,
    Incoming,
    Limits,
    Platform,
    RetryLaterError,
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
    "discord.com/developers/applications, and run `parachute bots add discord` again"
)
_WITHOUT_LOG: Final = (
    "I cannot see who added me, for which I need the permission View Audit Log, and leave."
)
_BAD_TOKEN: Final = "Discord does not take the bot's token any more"  # noqa: S105  none
_LONGEST: Final = 2_000
_RECONNECT_S: Final = 8.0
_LONGEST_WAIT_S: Final = 5.0  # in the library, for a limit; a longer one is the core's to wait for
_BESIDE_MS: Final = 30_000  # messages of two channels may come in another order
_MOST_MISSED, _MOST_DIRECT = 1_000, 500
_A_ROW: Final = 5
_log: Final = logging.getLogger(__name__)


@dataclass
class _Memory:
    """What the cursor holds."""

    after: int = 0
    direct: list[int] = field(default_factory=list)
    servers: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> _Memory:
        return cls(**json.loads(text)) if text else cls()

    @property
    def since(self) -> int:
        """A little before the last message that is stored."""
        return max(0, self.after - (_BESIDE_MS << 22))


class DiscordConnector:
    """One bot. A chat is a channel, of which a thread is one too; its parent is the server."""

    platform: ClassVar[Platform] = "discord"
    title: ClassVar[str] = "Discord"
    fields: ClassVar[tuple[CredentialField, ...]] = (
        CredentialField(name="token", label="Its token, from the page Bot", is_secret=True),
        CredentialField(name="base_url", label="Another server, .../api/v10", is_optional=True),
    )
    limits: ClassVar[Limits] = Limits(longest=_LONGEST, edit_s=1.0, largest_file=10 << 20)

    def __init__(self, credentials: Mapping[str, str], cursor: Cursor) -> None:
        self._token, self._cursor = credentials["token"].strip(), cursor
        self._url = credentials.get("base_url") or None
        self._http = HTTPSettings()
        self._app = hikari.RESTApp(
            http_settings=self._http, max_rate_limit=_LONGEST_WAIT_S, max_retries=0, url=self._url
        )
        self._opened: hikari.impl.RESTClientImpl | None = None
        self._memory = _Memory()
        self._awaited: set[int] = set()

    async def connect(self) -> str:
        """Check the token, and that the bot may read messages."""
        if self._opened is None:
            await self._app.start()
            self._opened = self._app.acquire(self._token, hikari.TokenType.BOT)
            self._opened.start()
        me = await self._ask(self._rest.fetch_my_user())
        self._reader = Reader(self._rest.entity_factory, me.id)
        with suppress(*ODD):
            application = await self._ask(self._rest.fetch_application(), is_read=False)
            if not application.flags & _MAY_READ:
                raise ConnectorError(_WITHOUT_INTENT)
        return f"@{me.username}"

    async def listen(self) -> AsyncIterator[Incoming]:
        """What happens, and first what was missed."""
        self._memory = _Memory.of(await self._cursor.get())
        events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        others = asyncio.all_tasks()
        session = asyncio.create_task(  # noqa: TID251  it is awaited below
            self._hold(events), name="Discord's gateway"
        )
        wait_s: float | None = _RECONNECT_S
        try:
            while True:
                try:
                    async with asyncio.timeout(wait_s):
                        name, payload = await events.get()
                except TimeoutError as error:
                    raise RetryLaterError("Discord cannot be reached") from error
                if name == "ended":
                    raise payload
                wait_s = _RECONNECT_S if name == "disconnected" else None
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
        """Send a message, with its buttons below it."""
        nonce = key[:25] or hikari.UNDEFINED  # Discord knows it for some minutes
        send = self._rest.create_message(int(chat_id), nonce=nonce, **self._content(text, buttons))
        return str((await self._ask(send)).id)

    async def edit(
        self, chat_id: str, message_id: str, text: str, buttons: Sequence[str] = ()
    ) -> None:
        """Replace a message's text and buttons."""
        content = self._content(text, buttons)
        await self._ask(self._rest.edit_message(int(chat_id), int(message_id), **content))

    async def send_file(self, chat_id: str, name: str, content: bytes, *, key: str = "") -> str:
        """Send a file as it is."""
        file, nonce = hikari.Bytes(content, name), key[:25] or hikari.UNDEFINED
        sent = await self._ask(
            self._rest.create_message(int(chat_id), attachment=file, nonce=nonce)
        )
        return str(sent.id)

    async def typing(self, chat_id: str) -> None:
        """Say for ten seconds that the bot types."""
        await self._ask(self._rest.trigger_typing(int(chat_id)))

    async def fetch(self, attachment: Attachment) -> bytes:
        """Download a file."""
        return bytes(await self._ask(self._download(attachment)))

    async def join(self, chat_id: str) -> None:
        """The bot is in a server as soon as it was added."""

    async def leave(self, chat_id: str) -> None:
        """Leave a server."""
        await self._ask(self._rest.leave_guild(int(chat_id)))

    def size(self, text: str) -> int:
        """Units of UTF-16 of what is sent, of which there are never fewer than Discord counts."""
        return len(with_tables(text).encode("utf-16-le", "replace")) // 2

    async def close(self) -> None:
        """Close the connections."""
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
        try:
            await bot.start(check_for_updates=False)
            await bot.join()
            events.put_nowait(("ended", RetryLaterError("Discord ended the connection")))
        except Exception as error:  # noqa: BLE001  it goes to the listener
            events.put_nowait(("ended", _problem(error)))
        finally:
            with suppress(hikari.ComponentStateConflictError):
                await bot.close()

    async def _acknowledge(self, press: Mapping[str, Any]) -> None:
        """End what a pressed button shows."""
        deferred = hikari.ResponseType.DEFERRED_MESSAGE_UPDATE
        with suppress(ConnectorError, *ODD):
            answer = self._rest.create_interaction_response
            await self._ask(answer(int(press["id"]), press["token"], deferred))

    async def _happenings(self, name: str, payload: Any) -> AsyncIterator[Incoming]:  # noqa: ANN401  JSON
        """What follows from an event of the gateway. One that is not as documented is left out."""
        try:
            match name:
                case "READY":
                    self._awaited = {int(one["id"]) for one in payload["guilds"]}
                    found = [(one, 0, self._memory.since) for one in self._memory.direct]
                case "GUILD_CREATE" if not payload.get("unavailable"):
                    found = self._channels(payload)
                case "GUILD_DELETE" if not payload.get("unavailable"):
                    await self._left(int(payload["id"]))
                    return
                case _:
                    found = []
            incoming = self._reader.incoming(name, payload)
        except ODD:
            _log.warning("something that Discord sent cannot be read", extra={"event": name})
            return
        for channel, server, since in found:
            for missed in await self._missed(channel, server, since):
                async for one in self._introduced(missed):
                    yield one
        if name == "GUILD_CREATE":
            self._awaited.discard(int(payload["id"]))
        for one in incoming:
            if one.kind != "message":
                yield one
                continue
            await self._remember(one)
            async for introduced in self._introduced(one):
                yield introduced
            if not self._awaited:  # else what another server has missed would be passed over
                self._memory.after = max(self._memory.after, int(one.message_id))
                await self._save()

    def _channels(self, server: Mapping[str, Any]) -> list[tuple[int, int, int]]:
        """The channels of a server in which something was written meanwhile, and since when."""
        number, joined = (
            int(server["id"]),
            hikari.Snowflake.from_datetime(datetime.fromisoformat(server["joined_at"])),
        )
        since, found = max(self._memory.since, joined), list[tuple[int, int, int]]()
        self._reader.names[number] = str(server["name"])
        for one in (*server["channels"], *server["threads"]):
            self._reader.names[int(one["id"])] = f"{server['name']} #{one['name']}"
            if int(one.get("last_message_id") or 0) > since and self._memory.after:
                found.append((int(one["id"]), number, since))
        return found

    async def _missed(self, channel: int, server: int, since: int) -> list[Incoming]:
        """What was written in a channel since then."""
        asked = self._rest.fetch_messages(channel, after=since).limit(_MOST_MISSED)
        try:
            messages = await self._ask(asked)
            found = [self._reader.message(one, server) for one in messages]
        except (RetryLaterError, CredentialsError):
            raise
        except (ConnectorError, *ODD):  # such as a channel that the bot may not read
            return []
        return [one for one in found if one is not None]

    async def _introduced(self, message: Incoming) -> AsyncIterator[Incoming]:
        """A message, after who added the bot if it is addressed in a server for the first time.

        Only then: who adds the bot to a server cannot write to it before, and so not be paired.
        """
        server = int(message.parent_id or 0)
        is_for_bot = message.is_addressed or message.text.startswith(("/", "!"))
        if server and is_for_bot and server not in self._memory.servers:
            yield Incoming(
                update_id=f"{server} added",
                kind="added",
                chat_id=str(server),
                chat_type="group",
                sender_id=await self._adder(server, int(message.chat_id)),
            )
            self._memory.servers.append(server)
            await self._save()
        yield message

    async def _adder(self, server: int, channel: int) -> str:
        """Who added the bot to a server; empty: it cannot be known."""
        added = hikari.AuditLogEventType.BOT_ADD
        try:
            logs = await self._ask(self._rest.fetch_audit_log(server, event_type=added).limit(1))
        except (RetryLaterError, CredentialsError):
            raise
        except ConnectorError:
            with suppress(ConnectorError):
                await self.send(str(channel), _WITHOUT_LOG)
            return ""
        entries = [one for log in logs for one in log.entries.values()]
        own = [one for one in entries if one.target_id == self._reader.own]
        return str(max(own, key=lambda one: one.id).user_id) if own else ""

    async def _left(self, server: int) -> None:
        if server in self._memory.servers:
            self._memory.servers.remove(server)
            await self._save()

    async def _remember(self, message: Incoming) -> None:
        """Have it asked for again unless it is stored."""
        chat, memory = int(message.chat_id), self._memory
        is_known = message.chat_type == "group" or chat in memory.direct
        if is_known and memory.after:
            return
        memory.after = memory.after or int(message.message_id) - 1
        if not is_known:
            memory.direct = [*memory.direct, chat][-_MOST_DIRECT:]
        await self._save()

    async def _save(self) -> None:
        await self._cursor.put(json.dumps(asdict(self._memory)))

    def _content(self, text: str, buttons: Sequence[str]) -> dict[str, Any]:
        """A message that calls no one, and in which no link is opened by Discord."""
        rows = []
        for start in range(0, len(buttons), _A_ROW):
            row = self._rest.build_message_action_row()
            for at, one in enumerate(buttons[start : start + _A_ROW], start):
                label = one[:80].strip() or str(at + 1)
                row.add_interactive_button(hikari.ButtonStyle.SECONDARY, str(at), label=label)
            rows.append(row)
        nobody = dict.fromkeys(("mentions_everyone", "user_mentions", "role_mentions"), False)
        words = with_tables(text.encode("utf-8", "replace").decode())
        flags = hikari.MessageFlag.SUPPRESS_EMBEDS
        return {**nobody, "content": words, "components": rows, "flags": flags}

    async def _download(self, attachment: Attachment) -> bytes:
        content = bytearray()
        async with hikari.URL(attachment.key).stream() as parts:
            async for part in parts:
                content += part
                if len(content) > self.limits.largest_file:
                    raise ConnectorError(f"{attachment.name} is too large")
        return bytes(content)

    async def _ask(self, asked: Awaitable[Any], *, is_read: bool = True) -> Any:  # noqa: ANN401  any of hikari's answers
        try:
            return await asked
        except ConnectorError:
            raise
        except ODD as error:
            if not is_read or isinstance(error, hikari.HikariError):
                raise
            raise ConnectorError("Discord's answer cannot be read") from error
        except (hikari.HikariError, aiohttp.ClientError, OSError) as error:
            raise _problem(error) from error


def _problem(error: Exception) -> ConnectorError:
    match error:
        case hikari.UnauthorizedError():
            return CredentialsError(_BAD_TOKEN)
        case hikari.GatewayServerClosedConnectionError(
            code=hikari.ShardCloseCode.AUTHENTICATION_FAILED
        ):
            return CredentialsError(_BAD_TOKEN)
        case hikari.GatewayServerClosedConnectionError(
            code=hikari.ShardCloseCode.DISALLOWED_INTENT
        ):
            return ConnectorError(_WITHOUT_INTENT)
        case hikari.RateLimitTooLongError(retry_after=pause):
            return RetryLaterError("Discord asks for a pause", pause)
        case hikari.ClientHTTPResponseError() if error.status != 429:  # noqa: PLR2004  a limit
            return ConnectorError(f"Discord refused it: {error.message[:200]}")
    return RetryLaterError("Discord cannot be reached")
