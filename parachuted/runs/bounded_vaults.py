"""Bounded vaults: open the vault for a module, or for a run of its agent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from parachuted.access.authority import Authority, current
from parachuted.access.origin import Origin
from parachuted.access.origins import Origins
from parachuted.access.run_watch import RunWatch
from parachuted.audit.events import AuditRecorder
from parachuted.runs.bounded_vault import BoundedVault
from parachuted.runs.bounds import ModuleBounds
from parachuted.search import Search
from parachuted.tools import Writing, unwatched
from parachuted.vault import Author, Caller, Store, VaultIndex, WriteResult


class BoundedVaults:
    """Opens the vault for one module, or for one run of its agent."""

    def __init__(
        self,
        store: Store,
        index: VaultIndex,
        search: Search,
        audit: AuditRecorder | None = None,
    ) -> None:
        self.store, self._index, self._search, self._audit = store, index, search, audit

    def of_module(
        self,
        name: str,
        bounds: ModuleBounds,
        *,
        authority: Callable[[], Authority] = current,
        writing: Writing = unwatched,
        origins: Origins | None = None,
        own: Origin = "agent",
    ) -> BoundedVault:
        """The vault for a module's own code."""

        def author() -> Author:
            now = authority()
            return Author(
                by=f"module:{name}",
                run=now.call.run if now.call is not None else None,
                causes=(now.call.causes if now.call is not None else ())
                or now.causes_at(self.store.clock()),
                key=now.caller if now.is_limited else "",
                caller=Caller("module", name, now.request_id),
            )

        return BoundedVault(
            self.store,
            self._index,
            self._search,
            bounds,
            author,
            audit=self._audit,
            authority=authority,
            writing=writing,
            origins=origins,
            own=own,
        )

    def of_run(
        self,
        bounds: ModuleBounds,
        author: Author,
        *,
        run: RunWatch,
        authority: Callable[[], Authority],
        wrote: Callable[[WriteResult], None],
    ) -> BoundedVault:
        """The vault for one run of an agent."""
        return BoundedVault(
            self.store,
            self._index,
            self._search,
            bounds,
            lambda: author,
            audit=self._audit,
            authority=authority,
            writing=lambda _path: nullcontext(wrote),
            run=run,
        )
