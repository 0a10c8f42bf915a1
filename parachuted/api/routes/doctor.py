"""Doctor: the problems of the vault and of single notes, each with what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import starmap

from parachuted.agents.gateway.gateway import Gateway
from parachuted.api.http.decorators import get
from parachuted.api.http.module_dispatcher import ModuleDispatcher
from parachuted.api.http.route import ApiCall
from parachuted.audit.log import AuditLog
from parachuted.bubbling import WatchDeclaration, WatchRegistry
from parachuted.errors import StorageFailedError
from parachuted.events.watched_vault import WatchedVault
from parachuted.history import HistoryPruning, HistorySize
from parachuted.search import Search
from parachuted.state import SQLITE_VERSION, DatabaseStatus
from parachuted.tools.doctor import (
    DoctorFinding,
    check_audit,
    check_notes,
    check_watches,
    conflict_copies,
    finding_of_note,
    finding_of_problem,
)
from parachuted.vault import Store, VaultPath

_MODULE = "curator"


@dataclass(frozen=True, slots=True)
class IndexedNotes:
    """`waiting` is how many files are yet to be indexed."""

    indexed: int
    waiting: int


@dataclass(frozen=True, slots=True)
class DatabaseList:
    sqlite: str
    files: list[DatabaseStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    findings: list[DoctorFinding]
    search: IndexedNotes
    history: HistorySize | None
    databases: DatabaseList


class DoctorRoutes:
    def __init__(
        self,
        watched: WatchedVault,
        *,
        store: Store,
        watches: WatchRegistry,
        search: Search,
        pruning: HistoryPruning,
        audit: AuditLog,
        gateway: Gateway | None,
        modules: ModuleDispatcher,
    ) -> None:
        self._watched, self._store, self._watches = watched, store, watches
        self._search, self._pruning, self._audit = search, pruning, audit
        self._gateway, self._modules = gateway, modules

    @get("/api/doctor", _MODULE, "admin")
    async def doctor(self, call: ApiCall) -> DoctorReport:
        """Problems of the vault and of single notes."""
        paths = list(self._watched.index.paths())
        found, search = await asyncio.to_thread(self._look, paths, self._watches.all())
        modules = map(asdict, await self._modules.findings(call))
        return DoctorReport(
            findings=[
                *found,
                *(DoctorFinding(about=finding.pop("module"), **finding) for finding in modules),
            ],
            search=search,
            history=await self._history_size(),
            databases=await asyncio.to_thread(self._databases),
        )

    def _databases(self) -> DatabaseList:
        store, state = self._store, self._watched.state
        found = [store.history.status(), state.database.status()]
        found += [store.objects.seen_status(), self._search.status()]
        if self._gateway is not None:
            found.append(self._gateway.usage_store.database.status())
        return DatabaseList(SQLITE_VERSION, found)

    async def _history_size(self) -> HistorySize | None:
        try:
            return await self._pruning.size()
        except (StorageFailedError, OSError):  # which is a problem by itself
            return None

    def _look(
        self, paths: Sequence[VaultPath], declared: Sequence[WatchDeclaration]
    ) -> tuple[list[DoctorFinding], IndexedNotes]:
        """In a thread."""
        unindexed, search = self._searchable()
        audit = check_audit(self._audit.folder, self._audit.head)
        problems = {**self._watched.problems.open, **audit}
        return [
            *starmap(finding_of_problem, problems.items()),
            *check_watches(self._watches, declared),
            *check_notes(self._store, paths),
            *conflict_copies(paths),
            *unindexed,
        ], search

    def _searchable(self) -> tuple[list[DoctorFinding], IndexedNotes]:
        """Notes that search does not know whole, and how many it knows."""
        search = self._search
        try:
            found = [
                finding_of_note(
                    note.path, "unindexed", f"not found by all of its text: {note.reason}"
                )
                for note in search.unindexed()
            ]
            return found, IndexedNotes(search.count(), search.indexer.waiting)
        except StorageFailedError:  # which is a problem by itself
            return [], IndexedNotes(0, search.indexer.waiting)
