"""Minting: makes a new key, and parses what people write for its rights and lifetime."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from parachuted.keys.api_key import ApiKey, hash_of, parse_scope, parse_time
from parachuted.keys.path_globs import PathGlob
from parachuted.keys.scopes import NOBODY, Scope

PREFIX = "para_"
_LENGTH = 32
_LETTERS = string.ascii_letters + string.digits
_SPAN = re.compile(r"([1-9][0-9]{0,4})([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}
USUAL = (Scope(module="*", capabilities=frozenset({"read", "write"})),)


@dataclass(frozen=True, slots=True, kw_only=True)
class MintedKey:
    """A new key: `secret` is shown once and kept nowhere."""

    key: ApiKey
    secret: str


def mint(
    name: str, scopes: Sequence[Scope], *, now: datetime, expires: datetime | None = None
) -> MintedKey:
    """Make a key. Raises ValueError, with the reason, for a name or an end that cannot be."""
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
    )
    return MintedKey(key=key, secret=secret)


def parse_words(words: str, paths: Sequence[str]) -> Scope:
    """The scope of `daily:read,write`, limited to these patterns (none: every path).

    Raises ValueError, with the reason.
    """
    module, mark, capabilities = words.partition(":")
    if not mark:
        raise ValueError(
            f"{words[:80]!r} should be a module and what may be done there, such as "
            "daily:read,write"
        )
    scope = parse_scope(
        {"module": module, "capabilities": [one.strip() for one in capabilities.split(",")]}
    )
    return Scope(
        module=scope.module,
        capabilities=scope.capabilities,
        paths=tuple(map(PathGlob, paths)) if paths else None,
    )


def parse_end(words: str, now: datetime) -> datetime:
    """When `90d` (or 12h, 4w, 1y) from now is, or the ISO 8601 time that it is.

    Raises ValueError, with the reason.
    """
    span = _SPAN.fullmatch(words)
    try:
        end = now + timedelta(hours=int(span[1]) * _HOURS[span[2]]) if span else parse_time(words)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{words[:80]!r} should be a span such as 90d (h, d, w or y) or a time such as "
            "2027-01-31T12:00:00Z"
        ) from error
    return end.replace(microsecond=0)
