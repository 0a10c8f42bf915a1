"""API key: one entry of keys.yaml, and how one is made; only the SHA-256 of the key is stored."""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    with_config,
)

from parachuted.home_files import PlainValue
from parachuted.keys.scopes import NOBODY, Identity, KeyScope
from parachuted.texts.adapters import late_adapter
from parachuted.texts.mistakes import mistakes_in
from parachuted.texts.times import time_of

_NEEDED = ("expires", "paths")


def time_text(at: datetime | None) -> str | None:
    """To the second, in UTC."""
    return None if at is None else time_of(at, "seconds")


def parse_time(text: str) -> datetime:
    """An ISO 8601 time; without a zone it is UTC. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).astimezone(UTC)


def _moment(value: object) -> datetime:
    try:
        return parse_time(value if isinstance(value, str) else "")
    except (ValueError, OverflowError) as error:
        raise ValueError("should be a time, such as 2026-03-01T12:00:00Z") from error


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("should be one line that can be shown")
    return text


_Text = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_one_line)]
_Time = Annotated[datetime, PlainValidator(_moment), PlainSerializer(time_text)]
_IfAny = Field(exclude_if=lambda value: value is None)


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """`key_hash` is `sha256:` and 64 hexadecimal digits; `expires` None: never.

    `parent` is the id of the key that signed this one's browser in; both are revoked together.
    """

    id: _Text
    key_hash: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
    name: _Text
    created: _Time | None = None
    last_used: _Time | None = None
    expires: Annotated[_Time | None, _IfAny] = None
    parent: Annotated[_Text | None, _IfAny] = None
    scopes: tuple[KeyScope, ...]

    def is_over(self, now: datetime) -> bool:
        return self.expires is not None and self.expires <= now

    def identity(self) -> Identity:
        return Identity(kind="key", id=self.id, name=self.name, scopes=self.scopes)


_KEY, _SCOPE = late_adapter(ApiKey), late_adapter(KeyScope)


def hash_of(key: str) -> str:
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


def parse_key(entry: PlainValue) -> ApiKey:
    """The key of an entry. Raises ValueError for what is not understood wholly."""
    if not isinstance(entry, dict):
        raise ValueError("it is not a mapping of names to values")  # noqa: TRY004  what is wrong is the text
    scopes = entry.get("scopes")
    for part in (entry, *(scopes if isinstance(scopes, list) else ())):
        for name in _NEEDED if isinstance(part, dict) else ():
            if name in part and part[name] is None:
                raise ValueError(f"{name} says nothing; without it, the key has no such limit")
    said = {name: value for name, value in entry.items() if value is not None}
    usual = {"id": f"k_{str(said.get('key_hash'))[7:19]}", "name": "unnamed"}
    try:
        return _KEY().validate_python(usual | said)
    except ValidationError as error:
        raise ValueError("; ".join(mistakes_in(error))) from error


def key_document(key: ApiKey) -> dict[str, object]:
    document: dict[str, object] = _KEY().dump_python(key, mode="json")
    return document


PREFIX = "para_"
_LENGTH = 32
_LETTERS = string.ascii_letters + string.digits
_SPAN = re.compile(r"([1-9][0-9]{0,4})([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}
USUAL = (KeyScope(module="*", capabilities=frozenset({"read", "write"})),)


@dataclass(frozen=True, slots=True, kw_only=True)
class MintedKey:
    """`secret` is shown once and kept nowhere."""

    key: ApiKey
    secret: str


def mint(
    name: str,
    scopes: Sequence[KeyScope],
    *,
    now: datetime,
    expires: datetime | None = None,
    parent: str | None = None,
) -> MintedKey:
    """Raises ValueError, with the reason, for a name or an end that cannot be."""
    if not 1 <= len(name) <= 100 or not name.isprintable() or name != name.strip():  # noqa: PLR2004
        raise ValueError("the name of a key should be a text of 1 to 100 characters in one line")
    if name == NOBODY.name:
        raise ValueError(f"no key can be called {name}: it is what the audit calls who shows none")
    if expires is not None and expires <= now:
        raise ValueError("the key would be over before it is used")
    secret = PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    made = now.replace(microsecond=0)
    key = ApiKey(
        id=f"k_{secrets.token_hex(6)}",
        key_hash=hash_of(secret),
        name=name,
        scopes=tuple(scopes),
        created=made,
        expires=expires,
        parent=parent,
    )
    return MintedKey(key=key, secret=secret)


def parse_words(words: str, paths: Sequence[str]) -> KeyScope:
    """The scope of `daily:read,write`, limited to these patterns (none: every path).

    Raises ValueError, with the reason.
    """
    module, mark, capabilities = words.partition(":")
    if not mark:
        raise ValueError(
            f"{words[:80]!r} should be a module and what may be done there, such as "
            "daily:read,write"
        )
    named = [part.strip() for part in capabilities.split(",")]
    try:
        return _SCOPE().validate_python(
            {"module": module, "capabilities": named, "paths": paths or None}
        )
    except ValidationError as error:
        raise ValueError("; ".join(mistakes_in(error))) from error


def parse_end(words: str, now: datetime) -> datetime:
    """When `90d` (or 12h, 4w, 1y) from now is, or an ISO 8601 time. Raises ValueError."""
    span = _SPAN.fullmatch(words)
    try:
        end = now + timedelta(hours=int(span[1]) * _HOURS[span[2]]) if span else parse_time(words)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{words[:80]!r} should be a span such as 90d (h, d, w or y) or a time such as "
            "2027-01-31T12:00:00Z"
        ) from error
    return end.replace(microsecond=0)
