"""Narrowing: whether a new key provably has no more rights than its maker.

When in doubt, it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from parachuted.keys.path_globs import PathGlob
from parachuted.keys.scopes import Capability, Identity, Scope


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
