"""API key: one entry of keys.yaml, and how one is made; only the SHA-256 of the key is stored."""

from __future__ import annotations

import hashlib
import re
import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeGuard

from parachuted.home_files import PlainValue
from parachuted.keys.path_globs import PathGlob
from parachuted.keys.scopes import CAPABILITIES, NOBODY, Identity, Scope
from parachuted.texts.times import time_of

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_MODULE = re.compile(r"\*|[a-z][a-z0-9_-]{0,63}")
_MOST_NAME = 100
_FIELDS = frozenset(
    {"id", "key_hash", "name", "created", "last_used", "expires", "parent", "scopes"}
)
_SCOPE_FIELDS = frozenset({"module", "capabilities", "paths"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """`key_hash` is `sha256:` and 64 hexadecimal digits; `expires` None: never.

    `parent` is the id of the key that signed this one's browser in; both are revoked together.
    """

    id: str
    key_hash: str
    name: str
    scopes: tuple[Scope, ...]
    created: datetime | None = None
    last_used: datetime | None = None
    expires: datetime | None = None
    parent: str | None = None

    def is_over(self, now: datetime) -> bool:
        return self.expires is not None and self.expires <= now

    def identity(self) -> Identity:
        return Identity(kind="key", id=self.id, name=self.name, scopes=self.scopes)


def hash_of(key: str) -> str:
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


def parse_key(entry: PlainValue) -> ApiKey:
    """The key of an entry. Raises ValueError for what is not understood wholly."""
    if not isinstance(entry, dict):
        raise ValueError("it is not a mapping of names to values")  # noqa: TRY004  what is wrong is the text
    if unknown := sorted(set(entry) - _FIELDS):
        raise ValueError(f"{unknown[0][:80]!r} means nothing")
    kept = entry.get("key_hash")
    if not isinstance(kept, str) or not _HASH.fullmatch(kept):
        raise ValueError("key_hash should be sha256: and 64 hexadecimal digits")
    scopes = entry.get("scopes")
    if not isinstance(scopes, list):
        raise ValueError("scopes should be a list")  # noqa: TRY004
    return ApiKey(
        id=_text(entry, "id") or f"k_{kept[7:19]}",
        key_hash=kept,
        name=_text(entry, "name") or "unnamed",
        scopes=tuple(parse_scope(scope) for scope in scopes),
        created=_time(entry, "created"),
        last_used=_time(entry, "last_used"),
        expires=_time(entry, "expires"),
        parent=_text(entry, "parent"),
    )


def parse_scope(scope: object) -> Scope:
    """Raises ValueError, with the reason."""
    if not isinstance(scope, Mapping):
        raise ValueError("a scope should have a module and capabilities")  # noqa: TRY004
    if unknown := sorted(str(name) for name in set(scope) - _SCOPE_FIELDS):
        raise ValueError(f"{unknown[0][:80]!r} means nothing in a scope")
    module, capabilities, paths = scope.get("module"), scope.get("capabilities"), scope.get("paths")
    if not isinstance(module, str) or not _MODULE.fullmatch(module):
        raise ValueError("module should be the name of one, or *")
    allowed = frozenset(
        capability
        for capability in CAPABILITIES
        if _is_texts(capabilities) and capability in capabilities
    )
    if not _is_texts(capabilities) or not allowed or allowed != set(capabilities):
        raise ValueError(f"capabilities of {module} should be some of {', '.join(CAPABILITIES)}")
    if "paths" not in scope:
        return Scope(module=module, capabilities=allowed)
    if not _is_texts(paths):
        raise ValueError(f"paths of {module} should be a list of patterns")
    return Scope(module=module, capabilities=allowed, paths=tuple(map(PathGlob, paths)))


def scope_document(scope: Scope) -> dict[str, object]:
    document: dict[str, object] = {
        "module": scope.module,
        "capabilities": [
            capability for capability in CAPABILITIES if capability in scope.capabilities
        ],
    }
    return (
        document
        if scope.paths is None
        else {**document, "paths": [glob.text for glob in scope.paths]}
    )


def key_document(key: ApiKey) -> dict[str, object]:
    document: dict[str, object] = {
        "id": key.id,
        "key_hash": key.key_hash,
        "name": key.name,
        "created": time_text(key.created),
        "last_used": time_text(key.last_used),
    }
    if key.expires is not None:
        document["expires"] = time_text(key.expires)
    if key.parent is not None:
        document["parent"] = key.parent
    return {**document, "scopes": [scope_document(scope) for scope in key.scopes]}


def time_text(at: datetime | None) -> str | None:
    """To the second, in UTC."""
    return None if at is None else time_of(at, "seconds")


def parse_time(text: str) -> datetime:
    """An ISO 8601 time; without a zone it is UTC. Raises ValueError."""
    at = datetime.fromisoformat(text)
    return (at.replace(tzinfo=UTC) if at.tzinfo is None else at).astimezone(UTC)


def _text(entry: Mapping[str, PlainValue], name: str) -> str | None:
    value = entry.get(name)
    if value is not None and (
        not isinstance(value, str) or not 1 <= len(value) <= _MOST_NAME or not value.isprintable()
    ):
        raise ValueError(f"{name} should be a text of 1 to {_MOST_NAME} characters")
    return value


def _time(entry: Mapping[str, PlainValue], name: str) -> datetime | None:
    value = entry.get(name)
    if value is None:
        if name == "expires" and name in entry:
            raise ValueError("expires should be a time; without it, the key has no end")
        return None
    try:
        return parse_time(value if isinstance(value, str) else "")
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} should be a time, such as 2026-03-01T12:00:00Z") from error


def _is_texts(value: object) -> TypeGuard[Sequence[str]]:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(one, str) for one in value)
    )


PREFIX = "para_"
_LENGTH = 32
_LETTERS = string.ascii_letters + string.digits
_SPAN = re.compile(r"([1-9][0-9]{0,4})([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}
USUAL = (Scope(module="*", capabilities=frozenset({"read", "write"})),)


@dataclass(frozen=True, slots=True, kw_only=True)
class MintedKey:
    """`secret` is shown once and kept nowhere."""

    key: ApiKey
    secret: str


def mint(
    name: str,
    scopes: Sequence[Scope],
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
    named = [part.strip() for part in capabilities.split(",")]
    scope = {"module": module, "capabilities": named}
    return parse_scope({**scope, "paths": paths} if paths else scope)


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
