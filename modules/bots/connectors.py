"""The platforms, and what each asks for. Only one that was added has its library loaded."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Final, cast

from parachuted.errors import NotFoundError

from .connector import Connector, ConnectorError, CredentialField


@dataclass(frozen=True, slots=True, kw_only=True)
class _Platform:
    connector: str
    library: str
    fields: tuple[CredentialField, ...]


_PLATFORMS: Final = {
    "matrix": _Platform(
        connector="MatrixConnector",
        library="nio",
        fields=(
            CredentialField(name="homeserver_url", label="The server's address, https://..."),
            CredentialField(name="user_id", label="The bot's account, @bot:server"),
            CredentialField(name="access_token", label="Its access token", is_secret=True),
        ),
    ),
    "telegram": _Platform(
        connector="TelegramConnector",
        library="telegram",
        fields=(
            CredentialField(name="token", label="Its token, from @BotFather", is_secret=True),
            CredentialField(
                name="base_url", label="A server of your own, .../bot", is_optional=True
            ),
            CredentialField(
                name="base_file_url", label="Its files, .../file/bot", is_optional=True
            ),
            CredentialField(
                name="webhook_url",
                label="This daemon as Telegram reaches it, https://...",
                is_optional=True,
                takes_token=False,
            ),
        ),
    ),
    "discord": _Platform(
        connector="DiscordConnector",
        library="hikari",
        fields=(
            CredentialField(name="token", label="Its token, from the page Bot", is_secret=True),
            CredentialField(name="base_url", label="Another server, .../api/v10", is_optional=True),
        ),
    ),
}
PLATFORMS: Final = tuple(_PLATFORMS)


def fields_of(platform: str) -> tuple[CredentialField, ...]:
    return _found(platform).fields


def lacking(platform: str) -> str:
    """Why a platform cannot be added here; empty: it can. NotFoundError."""
    if find_spec(_found(platform).library) is not None:
        return ""
    return (
        f"the library for {platform} is not installed: run `pip install 'parachuted[{platform}]'` "
        "where parachuted is, and restart it"
    )


def connector_class(platform: str) -> type[Connector]:
    """The connector of a platform. NotFoundError; ConnectorError: it lacks its library."""
    if problem := lacking(platform):
        raise ConnectorError(problem)
    module = import_module(f".{platform}", __package__)
    return cast("type[Connector]", getattr(module, _found(platform).connector))


def _found(platform: str) -> _Platform:
    if platform not in _PLATFORMS:
        raise NotFoundError(f"a bot is on one of {', '.join(PLATFORMS)}")
    return _PLATFORMS[platform]
