"""Scopes: what an identity may do, decided by the route that was matched and never by the raw path.

A scope names a module (`*`: all), capabilities, and optionally patterns of paths. No capability
implies another. A scope on a module that keeps its notes in a folder of the vault (daily, chat,
brain) is also one on the vault's own routes, for that folder alone.

Also whether a new key provably has no more rights than its maker; when in doubt, it is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one line of a key allows. `paths` None: every path."""

    module: str
    capabilities: frozenset[Capability]
    paths: tuple[PathGlob, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGrant:
    """What a caller may touch on the route it reached.

    Each alternative is a set of patterns that must all hold; None: every path.
    """

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

    @property
    def word(self) -> str:
        """The same word for grants of the same patterns; "" for every path."""
        if self.alternatives is None:
            return ""
        patterns = sorted(
            sorted({tuple(sorted({repr(glob) for glob in globs})) for globs in every})
            for every in self.alternatives
        )
        return hashlib.sha256(repr(patterns).encode()).hexdigest()[:16]

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
    """Who asks. `kind`: loopback, key, or nobody; `id` and `name` are what the audit records."""

    kind: Literal["loopback", "key", "nobody"]
    id: str
    name: str
    scopes: tuple[Scope, ...] = ()

    @property
    def api_key(self) -> str:
        """The id of the API key, or empty where none was needed."""
        return self.id if self.kind == "key" else ""

    @property
    def limited_key(self) -> str:
        """The same of a key that may not read and write everything, else empty: what follows from
        its writes, such as an agent in `Daily/.agents/`, could do more than the key.
        """
        is_whole = all(self.grant("*", one) == EVERYWHERE for one in ("read", "write"))
        return "" if is_whole else self.api_key

    def grant(self, module: str, capability: Capability) -> AccessGrant | None:
        """What it may touch where `capability` on `module` is asked for; None: nothing."""
        return granted(self.scopes, module, capability)


def granted(scopes: tuple[Scope, ...], module: str, capability: Capability) -> AccessGrant | None:
    """What these scopes allow to touch where `capability` on `module` is asked for; None:
    nothing.
    """
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


EVERYWHERE = AccessGrant(alternatives=None)
NOWHERE = AccessGrant(alternatives=())
EVERYTHING = (Scope(module="*", capabilities=frozenset(CAPABILITIES)),)
NOBODY = Identity(kind="nobody", id="", name="nobody")


def is_narrower(new: Sequence[Scope], maker: Identity) -> bool:
    """Whether all that `new` allows, on each route and each path, is allowed to `maker` too."""
    return all(
        _is_allowed(scope, capability, maker) for scope in new for capability in scope.capabilities
    )


def _is_allowed(scope: Scope, capability: Capability, maker: Identity) -> bool:
    """A maker's scope on daily is one on a part of the vault too; then so is the new one's, and no
    more than it.
    """
    grant = maker.grant(scope.module, capability)
    if grant is None or (scope.paths is None and grant.alternatives is not None):
        return False
    if scope.paths is None or grant.alternatives is None:
        return True
    return all(
        any(all(_covers(globs, path) for globs in every) for every in grant.alternatives)
        for path in scope.paths
    )


def _covers(globs: tuple[PathGlob, ...], path: PathGlob) -> bool:
    return any(glob.covers(path) for glob in globs)
