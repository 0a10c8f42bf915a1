"""Scopes: what an identity may do, decided by the route that was matched and never by the raw path.

A scope names a module (`*`: all), capabilities, and optionally patterns of paths. No capability
implies another. A scope on a module that keeps its notes in a folder of the vault (daily, chat,
brain) is also one on the vault's own routes, for that folder alone.
"""

from __future__ import annotations

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
        """Whether that file of the vault exists for the caller."""
        if self.alternatives is None:
            return True
        return any(
            all(any(glob.matches(path) for glob in globs) for globs in every)
            for every in self.alternatives
        )

    def enters(self, folder: str) -> bool:
        """Whether a file that exists for the caller could be below that folder."""
        if self.alternatives is None:
            return True
        return any(
            all(any(glob.enters(folder) for glob in globs) for globs in every)
            for every in self.alternatives
        )

    def both(self, other: AccessGrant) -> AccessGrant:
        """What both see."""
        if self.alternatives is None or other.alternatives is None or self == other:
            return self if other.alternatives is None else other
        return AccessGrant(
            alternatives=tuple(
                (*mine, *its) for mine in self.alternatives for its in other.alternatives
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who asks. `kind`: loopback, key, or nobody; `id` and `name` are what the audit tells."""

    kind: Literal["loopback", "key", "nobody"]
    id: str
    name: str
    scopes: tuple[Scope, ...] = ()

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
EVERYTHING = (Scope(module="*", capabilities=frozenset(CAPABILITIES)),)
NOBODY = Identity(kind="nobody", id="", name="nobody")
