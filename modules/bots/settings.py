"""The settings of bots: who is paired and what new sessions may in one file, tokens in another,
both outside the vault, where the owner alone can read them. No answer, log or event holds a token.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic import with_config as configured
from typing_extensions import TypedDict

from parachuted.errors import StorageFailedError

from .connector import Incoming

TrustLevel: TypeAlias = Literal["direct", "sandboxed"]
ResponseMode: TypeAlias = Literal["mention", "all", "off"]

READING: Final = (
    "brain-search",
    "brain-resolve",
    "brain-context",
    "daily-search",
    "daily-today",
    "daily-journal",
)
"""The tools that read, of Brain and Daily."""


@dataclass(kw_only=True)
class SessionDefaults:
    mode: str = "default"
    allowed_folders: list[str] | None = field(default_factory=list)
    allowed_mcps: list[str] | None = field(default_factory=lambda: list(READING))
    capabilities: list[str] = field(default_factory=lambda: ["Read"])

    def permissions(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "mode"}


@dataclass(kw_only=True)
class PairedUser:
    name: str
    trust_level: TrustLevel | None = None


@dataclass(kw_only=True)
class PlatformSettings:
    enabled: bool = True
    credentials: dict[str, str] = field(default_factory=dict)
    bot_name: str = ""
    users: dict[str, PairedUser] = field(default_factory=dict)
    dm_trust_level: TrustLevel = "direct"
    group_trust_level: TrustLevel = "sandboxed"
    response_mode: ResponseMode = "mention"


@dataclass(kw_only=True)
class Settings:
    platforms: dict[str, PlatformSettings] = field(default_factory=dict)
    dm: SessionDefaults = field(default_factory=SessionDefaults)
    group: SessionDefaults = field(default_factory=lambda: SessionDefaults(allowed_mcps=[]))
    """A group may hold people who are not paired: it is read nothing until a person says so."""

    def rights_in(self, platform: str, incoming: Incoming) -> dict[str, Any]:
        """What a conversation that starts with that message has; a group never has more."""
        bot = self.platforms.get(platform) or PlatformSettings()
        defaults, level = self.group, bot.group_trust_level
        if incoming.chat_type == "dm":
            user = bot.users.get(incoming.sender_id)
            defaults, level = self.dm, (user and user.trust_level) or bot.dm_trust_level
        mode = "sandboxed" if level == "sandboxed" else defaults.mode
        return {"permissions": defaults.permissions(), "mode": mode}

    def limit_of(self, platform: str, incoming: Incoming) -> dict[str, Any]:
        """The most that a conversation may in that chat, as Chat takes it; a direct one has no
        limit.
        """
        chat = {"platform": platform, "chat_id": incoming.chat_id, "permissions": None}
        return chat if incoming.chat_type == "dm" else chat | self.rights_in(platform, incoming)


_SETTINGS: TypeAdapter[Settings] = TypeAdapter(Settings)
_SECRETS: TypeAdapter[dict[str, dict[str, str]]] = TypeAdapter(dict[str, dict[str, str]])
Read = TypeVar("Read")
_ALIASES: Final = {"bot_token": "token"}
_ANSWERED: Final = {"has_token", "bot_name", "users", "fields", "problem", "allowed_rooms"}
_HUMP: Final = re.compile("[A-Z]")


def _address(text: str) -> str:
    if text and not re.match(r"https?://\S+\Z", text):
        raise ValueError("should be an address that begins with https:// or http://")
    return text


def _known(sent: object) -> object:
    """What an app sends, by our names. What it was answered and sends back changes nothing."""
    if not isinstance(sent, Mapping):
        return sent
    found = {_HUMP.sub(lambda one: f"_{one[0].lower()}", str(name)): sent[name] for name in sent}
    found |= {str(name): sent[name] for name in sent if not _HUMP.search(str(name))}
    return {_ALIASES.get(name, name): found[name] for name in found if name not in _ANSWERED}


_Text: TypeAlias = str | None
_Address: TypeAlias = Annotated[str, AfterValidator(_address)] | None


@configured(ConfigDict(extra="forbid"))
class _PlatformChange(TypedDict, total=False):
    enabled: bool
    dm_trust_level: TrustLevel
    group_trust_level: TrustLevel
    response_mode: ResponseMode
    allowed_users: list[str | int]
    token: _Text
    access_token: _Text
    homeserver_url: _Address
    user_id: _Text
    base_url: _Address
    base_file_url: _Address
    webhook_url: _Address


@configured(ConfigDict(extra="forbid"))
class DefaultsChange(TypedDict, total=False):
    """What is set of the defaults of one kind of chat; what is left out stays."""

    mode: Literal["default", "workspace", "trusted", "sandboxed"]
    allowed_folders: list[str] | None
    allowed_mcps: list[str] | None
    capabilities: list[Literal["Read", "Glob", "Grep", "Write", "Edit", "Bash", "WebFetch"]]


PlatformChange: TypeAlias = Annotated[_PlatformChange, BeforeValidator(_known)]


class SettingsFile:
    """Both files, and what they say. `secrets.json` is in no backup that is not asked for it."""

    def __init__(self, folder: Path) -> None:
        """Raises StorageFailedError where one cannot be read: then no one is let in."""
        self._path, self._secrets = folder / "bots.json", folder / "secrets.json"
        self.present = _load(self._path, _SETTINGS, Settings())
        for name, credentials in _load(self._secrets, _SECRETS, {}).items():
            if name in self.present.platforms:
                self.present.platforms[name].credentials = credentials

    def save(self) -> None:
        """Write them, each whole. StorageFailedError."""
        document = asdict(self.present)
        secrets = {name: one.pop("credentials") for name, one in document["platforms"].items()}
        _write(self._secrets, secrets)
        _write(self._path, document)

    def of(self, name: str) -> PlatformSettings:
        """What is set for one platform, or what would be."""
        return self.platform(name) or PlatformSettings()

    def platform(self, name: str) -> PlatformSettings | None:
        return self.present.platforms.get(name)


def _load(path: Path, kind: TypeAdapter[Read], empty: Read) -> Read:
    try:
        return kind.validate_json(path.read_bytes())
    except FileNotFoundError:
        return empty
    except (ValidationError, OSError):
        pass  # what it says of the text may be a token
    raise StorageFailedError(f"{path} cannot be read; mend it, or remove it and add the bots again")


def _write(path: Path, document: object) -> None:
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(json.dumps(document, indent=1))
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(path)  # made with mode 0600
    except OSError as error:
        raise StorageFailedError(f"{path} cannot be written: {error.strerror}") from error
