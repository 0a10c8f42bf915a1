"""Scopes: what an identity may do, by the route that was matched and never by the raw path.

A scope names a module (`*`: all), capabilities, of which none implies another, and maybe paths. One
on daily, chat or brain is also one on the vault's own routes, for that module's folder.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    with_config,
)

from parachuted.keys.path_globs import PathGlob

Capability: TypeAlias = Literal["read", "write", "admin"]
CAPABILITIES: tuple[Capability, ...] = ("read", "write", "admin")
VAULT = "vault"
KNOWN_MODULES = ("vault", "curator", "system", "daily", "chat", "brain", "*")
_FOLDERS = {
    "daily": PathGlob("Daily/**"),
    "chat": PathGlob("Chat/**"),
    "brain": PathGlob("Brain/**"),
}


_MODULE = re.compile(r"\*|[a-z][a-z0-9_-]{0,63}")


def _module(name: str) -> str:
    if not _MODULE.fullmatch(name):
        raise ValueError("should be the name of a module, or *")
    return name


def _glob(text: object) -> PathGlob:
    if not isinstance(text, str):
        raise ValueError("should be a text")  # noqa: TRY004  pydantic takes a ValueError for its caller's mistake
    return PathGlob(text)


def _without_unique(schema: dict[str, Any]) -> None:
    """A capability that is said twice counts once."""
    schema.pop("uniqueItems", None)


_Capabilities = Annotated[
    frozenset[Capability],
    Field(
        min_length=1,
        max_length=len(CAPABILITIES),
        json_schema_extra=_without_unique,
    ),
    PlainSerializer(lambda given: [one for one in CAPABILITIES if one in given]),
]
_Glob = Annotated[
    PathGlob,
    PlainValidator(_glob),
    PlainSerializer(lambda glob: glob.text),
    WithJsonSchema({"type": "string", "maxLength": 1_000}),
]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyScope:
    """Without paths: everywhere."""

    module: Annotated[str, Field(max_length=64), AfterValidator(_module)]
    capabilities: _Capabilities
    paths: Annotated[tuple[_Glob, ...] | None, Field(exclude_if=lambda paths: paths is None)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGrant:
    """Each alternative is a set of patterns that must all hold; None: every path."""

    alternatives: tuple[tuple[tuple[PathGlob, ...], ...], ...] | None

    def sees(self, path: str) -> bool:
        if self.alternatives is None:
            return True
        return any(
            all(any(glob.matches(path) for glob in globs) for globs in every)
            for every in self.alternatives
        )

    def enters(self, folder: str) -> bool:
        if self.alternatives is None:
            return True
        return any(
            all(any(glob.enters(folder) for glob in globs) for globs in every)
            for every in self.alternatives
        )

    def both(self, other: AccessGrant) -> AccessGrant:
        if self.alternatives is None or other.alternatives is None or self == other:
            return self if other.alternatives is None else other
        return AccessGrant(
            alternatives=tuple(
                (*mine, *its) for mine in self.alternatives for its in other.alternatives
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """`id` and `name` are what the audit records."""

    kind: Literal["loopback", "key", "nobody"]
    id: str
    name: str
    scopes: tuple[KeyScope, ...] = ()

    @property
    def api_key(self) -> str:
        """The id of the API key, or empty where none was needed."""
        return self.id if self.kind == "key" else ""

    @property
    def has_paths(self) -> bool:
        """Whether it is a key with paths: it reaches files and nothing else."""
        return any(scope.paths is not None for scope in self.scopes)

    def is_beyond(self, grant: AccessGrant, *, for_path_keys: bool) -> bool:
        """Whether a call that its scopes allow is not for keys with paths: BEYOND_PATHS."""
        return not for_path_keys and (self.has_paths or grant != EVERYWHERE)

    @property
    def limited_key(self) -> str:
        """The id of a key that may not read and write everything, else empty.

        What follows from its writes, such as an agent in `Daily/.agents/`, could do more than the
        key.
        """
        is_whole = all(self.grant("*", one) == EVERYWHERE for one in ("read", "write"))
        return "" if is_whole else self.api_key

    def grant(self, module: str, capability: Capability) -> AccessGrant | None:
        return granted(self.scopes, module, capability)


def granted(
    scopes: tuple[KeyScope, ...], module: str, capability: Capability
) -> AccessGrant | None:
    """What these scopes allow to touch; None: not even the call."""
    found = []
    for scope in scopes:
        if capability not in scope.capabilities:
            continue
        own = () if scope.paths is None else (scope.paths,)
        if scope.module in {module, "*"}:
            found.append(own)
        elif module == VAULT and scope.module in _FOLDERS:
            found.append(((_FOLDERS[scope.module],), *own))
    if not found:
        return None
    return EVERYWHERE if () in found else AccessGrant(alternatives=tuple(found))


BEYOND_PATHS = (
    "a key with paths reaches notes, files, sync, search, links, the history of files and their "
    "events; this needs a key without paths"
)
EVERYWHERE = AccessGrant(alternatives=None)
NOWHERE = AccessGrant(alternatives=())
EVERYTHING = (KeyScope(module="*", capabilities=frozenset(CAPABILITIES)),)
NOBODY = Identity(kind="nobody", id="", name="nobody")


def is_narrower(new: Sequence[KeyScope], maker: Identity) -> bool:
    """Whether `maker`, for whom a scope names no paths, may do all that `new` allows."""
    return all(
        maker.grant(scope.module, capability) == EVERYWHERE
        for scope in new
        for capability in scope.capabilities
    )
