"""Author reach: what the author of a write may touch, and so what follows from it.

A person who saved a file in an editor, or whose API key is not limited, may touch everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from parachuted.access.authority import Authority
from parachuted.access.grant import NOTHING, any_of, exactly
from parachuted.agents.active_runs import ActiveRuns
from parachuted.history.run_account import NAME
from parachuted.keys import AccessGrant, Identity

_MODULE = "module:"


class AuthorReach:
    """Limits the authority of what follows from a write to what its author may touch, and to the
    file itself.
    """

    def __init__(
        self,
        identity_of: Callable[[str], Identity | None],
        holds: Callable[[Identity], bool],
        runs: ActiveRuns,
    ) -> None:
        """`identity_of` finds an API key by its id, `holds` says whether it still may ask, and
        `runs` know what each run of an agent was granted.
        """
        self._identity_of, self._holds, self._runs = identity_of, holds, runs

    def limited(
        self, authority: Authority, paths: Sequence[str], by: str, key: str, run: str | None
    ) -> Authority:
        """The authority, limited to the author that the history calls `by`, who wrote through that
        API key or in that run.
        """
        if key:
            authority = self._limited_to_key(authority, paths, by, key)
        if run is None or not is_agents(by):
            return authority
        granted = self._runs.granted(run)
        reads, writes = (NOTHING, NOTHING) if granted is None else granted
        return _within(authority, paths, reads, writes)

    def _limited_to_key(
        self, authority: Authority, paths: Sequence[str], by: str, key: str
    ) -> Authority:
        """A module's code wrote with the key's scope on that module, all else with the one on the
        vault. Of a key that is gone, the file alone is left.
        """
        identity = self._identity_of(key)
        if identity is None:
            return _within(replace(authority, caller=key), paths, NOTHING, NOTHING)
        module = by.removeprefix(_MODULE) if by.startswith(_MODULE) else None
        reads, writes = (
            identity.grant(module or "vault", "write" if module else one) or NOTHING
            for one in ("read", "write")
        )
        limited = _within(authority, paths, reads, writes)
        return replace(limited, caller=key, holds=lambda: self._holds(identity))


def is_agents(by: str) -> bool:
    """Whether the author of that name is an agent that the daemon runs."""
    return by == NAME or by.startswith("agent:") or (by.startswith(_MODULE) and "/" in by)


def _within(
    authority: Authority, paths: Sequence[str], reads: AccessGrant, writes: AccessGrant
) -> Authority:
    own = exactly(paths)
    return authority.narrowed(any_of(reads, own), any_of(writes, own))
