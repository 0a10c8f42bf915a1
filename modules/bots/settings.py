"""The settings of bots: tokens, who is paired, and what new sessions may. One file outside the
vault, which its owner alone can read; no answer, log or event holds a token.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from parachuted.errors import StorageFailedError

TrustLevel: TypeAlias = Literal["direct", "sandboxed"]
ResponseMode: TypeAlias = Literal["mention", "all", "off"]

_READING: Final = (
    "brain-search",
    "brain-resolve",
    "brain-context",
    "daily-search",
    "daily-today",
    "daily-journal",
)


@dataclass(kw_only=True)
class SessionDefaults:
    """What a new bot session may."""

    mode: str = "default"
    allowed_folders: list[str] | None = field(default_factory=list)
    allowed_mcps: list[str] | None = field(default_factory=lambda: list(_READING))
    capabilities: list[str] = field(default_factory=lambda: ["Read"])

    def permissions(self) -> dict[str, Any]:
        """The permissions, as a session has them."""
        return {name: value for name, value in asdict(self).items() if name != "mode"}


@dataclass(kw_only=True)
class PairedUser:
    """A person who may talk to the bot."""

    name: str
    trust_level: TrustLevel | None = None


@dataclass(kw_only=True)
class PlatformSettings:
    """One bot."""

    enabled: bool = True
    credentials: dict[str, str] = field(default_factory=dict)
    bot_name: str = ""
    users: dict[str, PairedUser] = field(default_factory=dict)
    dm_trust_level: TrustLevel = "direct"
    group_trust_level: TrustLevel = "sandboxed"
    response_mode: ResponseMode = "mention"


@dataclass(kw_only=True)
class Settings:
    """All of them."""

    platforms: dict[str, PlatformSettings] = field(default_factory=dict)
    dm: SessionDefaults = field(default_factory=SessionDefaults)
    group: SessionDefaults = field(default_factory=SessionDefaults)


_SETTINGS: TypeAdapter[Settings] = TypeAdapter(Settings)


class SettingsFile:
    """The file, and what it says."""

    def __init__(self, path: Path) -> None:
        """Raises StorageFailedError where it cannot be read: then no one is let in."""
        self._path = path
        try:
            self.present = _SETTINGS.validate_json(path.read_bytes())
        except FileNotFoundError:
            self.present = Settings()
        except (ValidationError, OSError) as error:
            raise StorageFailedError(
                f"{path} cannot be read; mend it, or remove it and add the bots again"
            ) from error  # its text may be a token

    def save(self) -> None:
        """Write it whole, or leave it as it was. StorageFailedError."""
        text = json.dumps(asdict(self.present), indent=1)
        try:
            with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(self._path)  # made with mode 0600
        except OSError as error:
            raise StorageFailedError(f"{self._path} cannot be written: {error.strerror}") from error

    def platform(self, name: str) -> PlatformSettings | None:
        """One platform, if it was added."""
        return self.present.platforms.get(name)


def within(permissions: Mapping[str, Any], mode: str, most: SessionDefaults) -> bool:
    """Whether a session may no more than that default. Pure."""
    bound = most.permissions()
    return (
        mode in {most.mode, "default", "sandboxed"}
        and _is_part(permissions.get("allowed_folders"), bound["allowed_folders"])
        and _is_part(permissions.get("allowed_mcps"), bound["allowed_mcps"])
        and set(permissions.get("capabilities") or ()) <= set(bound["capabilities"])
        and permissions.get("sandbox_override") is None
    )


def _is_part(names: object, bound: list[str] | None) -> bool:
    return bound is None or (isinstance(names, list | tuple) and set(names) <= set(bound))
