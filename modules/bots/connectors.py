"""Which platforms there are. Each is loaded, with its library, only where it was added."""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

from parachuted.errors import NotFoundError

from .connector import Connector, ConnectorError

_CLASSES: Final = {
    "matrix": "MatrixConnector",
    "telegram": "TelegramConnector",
    "discord": "DiscordConnector",
}
PLATFORMS: Final = tuple(_CLASSES)


def connector_class(platform: str) -> type[Connector]:
    """The connector of a platform. NotFoundError: none is known by that name; ConnectorError: this
    version has none for it, or its library is not installed.
    """
    if platform not in _CLASSES:
        raise NotFoundError(f"a bot is on one of {', '.join(PLATFORMS)}")
    try:
        found = import_module(f".{platform}", __package__)
    except ModuleNotFoundError as error:
        if error.name == f"{__package__}.{platform}":
            raise ConnectorError(f"this version of parachuted has no bot for {platform}") from error
        raise ConnectorError(
            f"the library for {platform} is not installed: run `pip install "
            f"'parachuted[{platform}]'` where parachuted is, and restart it"
        ) from error
    return cast("type[Connector]", getattr(found, _CLASSES[platform]))
