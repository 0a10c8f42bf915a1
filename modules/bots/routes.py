"""The routes of bots, as the app and the page call them, and the commands of the terminal."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules import Body, Response, command, interface, route

from .chats import ChatRoutes
from .connector import ConnectorError, RetryLaterError
from .connectors import PLATFORMS, connector_class, fields_of, lacking
from .conversations import limit_chats
from .pairing import Pairing, request_id
from .settings import (
    DefaultsChange,
    PairedUser,
    PlatformChange,
    PlatformSettings,
    TrustLevel,
)
from .store import PairingRequest

Name = Annotated[str, Field(max_length=300)]
_LARGEST_UPDATE = 1 << 20
_TELEGRAMS = "X-Telegram-Bot-Api-Secret-Token"
_LEVELS = "in direct chats: direct, or sandboxed, which may only read"
PlatformName = Literal["matrix", "telegram", "discord"]


class ConnectorStatus(TypedDict):
    """One bot; `status` is `connected`, `connecting`, `stopped`, or `none` where there is none."""

    running: bool
    status: str
    bot_name: str
    problem: str


class BotStatus(TypedDict):
    connectors: dict[str, ConnectorStatus]


class PlatformConfig(TypedDict):
    """What is set for one bot, without its token. `problem`: why it cannot be added here."""

    enabled: bool
    has_token: bool
    bot_name: str
    dm_trust_level: str
    group_trust_level: str
    response_mode: str
    allowed_users: list[str]
    users: dict[str, str]
    fields: list[dict[str, Any]]
    problem: str
    homeserver_url: str
    user_id: str


class BotConfig(TypedDict):
    """The settings of all, and the defaults of new sessions in direct messages and groups."""

    matrix: PlatformConfig
    telegram: PlatformConfig
    discord: PlatformConfig
    defaults: dict[str, Any]


class Tried(TypedDict):
    success: bool
    error: str | None
    bot_name: str | None


class PendingCount(TypedDict):
    pending: int


class PendingPairing(TypedDict):
    id: str
    platform: str
    sender_id: str
    sender_name: str
    code: str


class PendingPairings(TypedDict):
    pending: list[PendingPairing]


class Done(TypedDict):
    status: str


class BotRoutes(ChatRoutes):
    pairing: Pairing
    errors: dict[str, ConnectorError]

    @abstractmethod
    async def start_bot(self, platform: str) -> None:
        """Start a bot, or start it again with other settings."""

    @abstractmethod
    async def stop_bot(self, platform: str) -> None:
        """Stop a bot."""

    @route("GET", "/status")
    async def status(self) -> BotStatus:
        """Which bots there are, and whether they are connected."""
        return {"connectors": await self.statuses()}

    @interface("BotInterface")
    async def statuses(self) -> dict[str, ConnectorStatus]:
        """The same for `/api/health`, by platforms."""
        return {name: self._status(name) for name in PLATFORMS}

    @route("GET", "/config", capability="admin")
    async def config_of_all(self) -> BotConfig:
        """The settings, without tokens."""
        present = self.file.present
        found = {name: self._config(name) for name in PLATFORMS}
        defaults = {"dm": vars(present.dm), "group": vars(present.group)}
        return {**found, "defaults": defaults}  # type: ignore[typeddict-item]  # by name

    @route("PUT", "/config", capability="admin")
    async def configure(
        self,
        matrix: PlatformChange | None = None,
        telegram: PlatformChange | None = None,
        discord: PlatformChange | None = None,
        defaults: dict[Literal["dm", "group"], DefaultsChange] | None = None,
    ) -> BotConfig:
        """Change settings; what is left out stays. A token is sent when it is another one, and
        nothing is changed where the platform does not take it.
        """
        named = {"matrix": matrix, "telegram": telegram, "discord": discord}
        changes = {name: dict(said) for name, said in named.items() if said is not None}
        present = self.file.present
        for name, said in changes.items():
            try:
                await self._check(name, said)
            except ConnectorError as error:
                raise EditRefusedError(f"nothing was changed: {name}: {error.message}") from error
        for name, said in changes.items():
            present.platforms[name] = self._changed(name, said)
        for place, more in (defaults or {}).items():
            setattr(present, place, replace(getattr(present, place), **more))
        self.file.save()
        await limit_chats(self, self.file, self.store)
        for name in changes:
            is_enabled = present.platforms[name].enabled
            await (self.start_bot(name) if is_enabled else self.stop_bot(name))
        return await self.config_of_all()

    @route("POST", "/{platform}", capability="admin", tolerant=True)
    async def add(
        self, platform: PlatformName, token: str, homeserver_url: str = "", user_id: str = ""
    ) -> Tried:
        """Add a bot, or give it another token, and start it, if the platform takes the token."""
        return await _tried(self._add(platform, token, homeserver_url, user_id))

    @route("POST", "/{platform}/start", capability="admin")
    async def start(self, platform: PlatformName) -> Tried:
        """Start a bot, now and with the daemon."""
        return await _tried(self._set_enabled(platform, is_enabled=True))

    @route("POST", "/{platform}/stop", capability="admin")
    async def stop(self, platform: PlatformName) -> Tried:
        """Stop a bot, until it is started again."""
        return await _tried(self._set_enabled(platform, is_enabled=False))

    @route("POST", "/{platform}/test", capability="admin")
    async def test(self, platform: PlatformName) -> Tried:
        """Whether the platform takes the token."""
        return await _tried(self._name_of(platform))

    @route("POST", "/telegram/webhook", secret_header=_TELEGRAMS)
    async def webhook(self, body: Body) -> Response | Done:
        """What Telegram says of the bot, where a webhook is set: no key is needed, but its
        secret.
        """
        bot = self.bots.get("telegram")
        try:
            update = json.loads(await body.read(_LARGEST_UPDATE))
            if not isinstance(update, dict):
                raise ValueError("it is no object")  # noqa: TRY004, TRY301  as of JSON
        except (ValueError, RecursionError) as error:
            raise EditRefusedError("an update is a JSON object") from error
        if bot is None or bot.has_ended:
            return Response(status=503, body="the bot is stopped")
        try:
            await bot.connector.receive(update)
        except RetryLaterError as error:
            return Response(status=503, body=error.message)
        return {"status": "stored"}

    async def route_secret(self, path: str) -> str:
        bot = self.bots.get("telegram") if path == "/telegram/webhook" else None
        return bot.connector.webhook_secret if bot is not None else ""

    @route("DELETE", "/{platform}", capability="admin")
    async def remove(self, platform: PlatformName) -> Done:
        """Remove a bot, its token and who was paired with it. Its conversations stay."""
        await self.stop_bot(platform)
        settings = self.file.present.platforms.pop(platform, None)
        if settings is None:
            raise NotFoundError(f"there is no bot on {platform}")
        self.file.save()
        if settings.credentials.get("webhook_url"):
            with suppress(ConnectorError):  # where it cannot be taken away, its calls are refused
                await self._name_of(platform, settings.credentials | {"webhook_url": ""})
        await self.store.forget(platform)
        return {"status": "removed"}

    @route("DELETE", "/{platform}/users/{user_id}", capability="admin")
    async def unpair(self, platform: PlatformName, user_id: str) -> Done:
        """Let a person in no more."""
        settings = self.file.platform(platform)
        if settings is None or settings.users.pop(user_id, None) is None:
            raise NotFoundError(f"{user_id[:80]} is not paired")
        self.file.save()
        return {"status": "removed"}

    @route("GET", "/pairing/count")
    async def count_pairings(self) -> PendingCount:
        """How many wait to be paired."""
        return {"pending": len(await self.pairing.pending())}

    @route("GET", "/pairing", capability="admin")
    async def list_pairings(self) -> PendingPairings:
        """Who waits to be paired."""
        return {"pending": [_pairing(request) for request in await self.pairing.pending()]}

    @route("POST", "/pairing/{pairing_id}/approve", capability="admin", tolerant=True)
    async def approve(self, pairing_id: Name, trust_level: TrustLevel | None = None) -> Done:
        """Let a person talk to the bot."""
        await self._approve(pairing_id, trust_level)
        return {"status": "approved"}

    @route("POST", "/pairing/{pairing_id}/deny", capability="admin", tolerant=True)
    async def deny(self, pairing_id: Name) -> Done:
        """Do not."""
        await self.pairing.deny(pairing_id)
        return {"status": "denied"}

    @command("status")
    async def status_command(self, *, as_text: bool = False) -> str | dict[str, Any]:
        """Which bots there are, and who waits to be paired."""
        waiting = await self.pairing.pending()
        if not as_text:
            return {**(await self.status()), "pending": [_pairing(one) for one in waiting]}
        lines = [_line(name, self._status(name)) for name in PLATFORMS]
        lines += [
            f"{request.sender_name} ({request.sender_id}) waits on {request.platform}: "
            f"`parachute bots pairing approve {request.code}`"
            for request in waiting
        ]
        return "\n".join(lines)

    @command("add")
    async def add_command(
        self, platform: PlatformName, token: str, homeserver_url: str = "", user_id: str = ""
    ) -> str:
        """Add a bot by its token; `-` reads it from standard input, where no history keeps it."""
        self._check_person()
        try:
            name = await self._add(platform, token, homeserver_url, user_id)
        except ConnectorError as error:
            raise type(error)(f"{error.message}; nothing was kept") from error
        return f"Connected as {name}. Write to it; it answers with a code that pairs you."

    @command("remove")
    async def remove_command(self, platform: PlatformName) -> str:
        """Remove a bot and its token; its conversations stay."""
        self._check_person()
        await self.remove(platform)
        return f"The bot on {platform} is removed."

    @command("pairing")
    async def pairing_command(
        self,
        decision: Annotated[Literal["approve", "deny"], Field(description="approve or deny")],
        code: str,
        trust_level: Annotated[TrustLevel | None, Field(description=_LEVELS)] = None,
    ) -> str:
        """Let somebody who has that code talk to the bot, or not."""
        self._check_person()
        if decision == "deny":
            one = await self.pairing.deny(code)
            return f"{one.sender_name} ({one.sender_id}) stays a stranger."
        one = await self._approve(code, trust_level)
        return f"{one.sender_name} ({one.sender_id}) may talk to the bot on {one.platform}."

    async def _add(self, platform: str, token: str, homeserver_url: str, user_id: str) -> str:
        """Keep a token that the platform takes, and return the bot's name. ConnectorError."""
        if not token.strip():
            raise EditRefusedError("the token is empty")
        said = {"homeserver_url": homeserver_url, "user_id": user_id, "token": token.strip()}
        fields = fields_of(platform)
        secret = next(field.name for field in fields if field.is_secret)
        present = self.file.platform(platform) or PlatformSettings()
        credentials = {
            field.name: said.get(field.name) or present.credentials.get(field.name, "")
            for field in fields
        } | {secret: token.strip()}
        missing = [
            field.name for field in fields if not credentials[field.name] and not field.is_optional
        ]
        if missing:
            options = " ".join(f"--{name.replace('_', '-')}" for name in missing)
            raise EditRefusedError(f"a bot on {platform} needs {options} too")
        name = await self._name_of(platform, credentials)
        changed = self._changed(platform, {"enabled": True, **credentials})
        self.file.present.platforms[platform] = replace(changed, bot_name=name)
        self.file.save()
        await self.start_bot(platform)
        return name

    async def _approve(self, name: str, trust_level: TrustLevel | None) -> PairingRequest:
        one = await self.pairing.take(name)
        settings = self.file.platform(one.platform)
        if settings is None:
            raise NotFoundError(f"there is no bot on {one.platform}")
        settings.users[one.sender_id] = PairedUser(name=one.sender_name, trust_level=trust_level)
        self.file.save()
        await self.store.add_group(one.platform, one.chat_id, one.sender_id)
        return one

    async def _set_enabled(self, platform: str, *, is_enabled: bool) -> str:
        settings = self._added(platform)
        settings.enabled = is_enabled
        self.file.save()
        await (self.start_bot(platform) if is_enabled else self.stop_bot(platform))
        return settings.bot_name

    def _added(self, platform: str) -> PlatformSettings:
        settings = self.file.platform(platform)
        if settings is None:
            raise ConnectorError("it was not added yet")
        return settings

    async def _name_of(self, platform: str, credentials: dict[str, str] | None = None) -> str:
        if credentials is None:
            credentials = self._added(platform).credentials
        connector = connector_class(platform)(credentials, _NoCursor())
        try:
            return await connector.connect()
        finally:
            await connector.close()

    async def _check(self, platform: str, said: dict[str, Any]) -> None:
        """Raises ConnectorError: a new token is not taken, or the bot cannot be started so."""
        held, fields = self._changed(platform, said).credentials, fields_of(platform)
        has_token = any(said.get(field.name) for field in fields if field.is_secret)
        missing = [
            field.name for field in fields if not (field.is_optional or held.get(field.name))
        ]
        if missing and (has_token or said.get("enabled")):
            raise ConnectorError(f"{' and '.join(missing)} is missing")
        if has_token:
            await self._name_of(platform, held)

    def _changed(self, platform: str, said: dict[str, Any]) -> PlatformSettings:
        """The settings with these changes, which are not kept yet."""
        fields = {field.name: field for field in fields_of(platform)}
        settings = self.file.platform(platform) or PlatformSettings(enabled=False)
        held, known = settings.credentials, settings.users
        new = {
            name: str(said[name])
            for name, one in fields.items()
            if said.get(name) or (one.is_optional and said.get(name) == "")
        }
        kept = [field for field in fields.values() if not field.is_secret and field.takes_token]
        if any(held.get(one.name, "") != new[one.name] for one in kept if one.name in new):
            # a token is sent to no address but the one that it was entered with
            new = {field.name: "" for field in fields.values() if field.is_secret} | new
        allowed = [str(user) for user in said.get("allowed_users", known)]
        plain = {"enabled", "dm_trust_level", "group_trust_level", "response_mode"}
        return replace(
            settings,
            credentials=held | new,
            users={one: known.get(one, PairedUser(name=one)) for one in allowed},
            **{name: value for name, value in said.items() if name in plain},
        )

    def _status(self, platform: str) -> ConnectorStatus:
        settings, bot = self.file.platform(platform), self.bots.get(platform)
        error = self.error_of(platform)
        status = "none" if settings is None else "stopped"
        if bot is not None and not bot.has_ended:
            status = "connected" if bot.is_connected else "connecting"
        return {
            "running": bot is not None and bot.is_connected,
            "status": status,
            "bot_name": (bot.name if bot else "") or (settings.bot_name if settings else ""),
            "problem": error.message if error is not None else "",
        }

    def error_of(self, platform: str) -> ConnectorError | None:
        bot = self.bots.get(platform)
        return bot.error if bot is not None else self.errors.get(platform)

    def _config(self, platform: str) -> PlatformConfig:
        settings = self.file.platform(platform) or PlatformSettings(enabled=False)
        fields = fields_of(platform)
        secrets = {field.name for field in fields if field.is_secret}
        return {
            "enabled": settings.enabled,
            "has_token": any(settings.credentials.get(name) for name in secrets),
            "bot_name": settings.bot_name,
            "dm_trust_level": settings.dm_trust_level,
            "group_trust_level": settings.group_trust_level,
            "response_mode": settings.response_mode,
            "allowed_users": [*settings.users],
            "users": {user_id: user.name for user_id, user in settings.users.items()},
            "fields": [asdict(field) for field in fields],
            "problem": lacking(platform),
            "homeserver_url": settings.credentials.get("homeserver_url", ""),
            "user_id": settings.credentials.get("user_id", ""),
        }

    def _check_person(self) -> None:
        call = self.current_call
        if call.key or call.run or call.is_strangers:
            raise ActRefusedError("only a person at the machine does that: run it there")


async def _tried(work: Awaitable[str]) -> Tried:
    try:
        return {"success": True, "error": None, "bot_name": await work or None}
    except ConnectorError as error:
        return {"success": False, "error": error.message, "bot_name": None}


class _NoCursor:
    async def get(self) -> str:
        return ""

    async def put(self, text: str) -> None:
        del text


def _pairing(request: PairingRequest) -> PendingPairing:
    return {
        "id": request_id(request),
        "platform": request.platform,
        "sender_id": request.sender_id,
        "sender_name": request.sender_name,
        "code": request.code,
    }


def _line(platform: str, status: ConnectorStatus) -> str:
    words = f"{platform}: {status['status']}"
    words += f" as {status['bot_name']}" if "connect" in words and status["bot_name"] else ""
    return words + (f" ({status['problem']})" if status["problem"] else "")
