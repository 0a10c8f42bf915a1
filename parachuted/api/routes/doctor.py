"""Doctor: the problems of the vault and of single notes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict

from typing_extensions import TypedDict

from parachuted.agents.gateway import Gateway
from parachuted.api.http.decorators import get
from parachuted.api.http.module_dispatcher import ModuleDispatcher
from parachuted.api.http.route import ApiCall
from parachuted.api.routes.findings import (
    FindingResponse,
    module_findings,
    note_findings,
    problem_findings,
)
from parachuted.audit.log import AuditLog
from parachuted.bubbling import WatchDeclaration, WatchRegistry
from parachuted.errors import StorageFailedError
from parachuted.events import Problems
from parachuted.history import HistoryPruning
from parachuted.search import Search
from parachuted.state import SQLITE_VERSION, DatabaseStatus
from parachuted.times import Time, time_of
from parachuted.tools import VaultDoctor
from parachuted.tools.doctor import check_control_folder, conflict_copies
from parachuted.vault import Store, VaultIndex, printable


def watch_notes(
    declarations: Iterable[WatchDeclaration], watches: WatchRegistry, *, names_others: bool
) -> list[dict[str, object]]:
    """What of each of these `watch:` lists could not be read, and which patterns match nothing.

    May take a moment in a large vault.

    `names_others`: whether a sentence may name folders and notes other than the one that watches.
    """
    found = [(one.watcher, "watch", problem) for one in declarations for problem in one.problems]
    if names_others:
        found += [
            (one.watcher, "watch-unmatched", message)
            for one in declarations
            for message in watches.unmatched(one.watcher)
        ]
    return [
        {"path": printable(path), "code": code, "message": printable(message)}
        for path, code, message in found
    ]


class IndexResponse(TypedDict):
    """How many notes can be found by search, and how many files are to be indexed yet."""

    indexed: int
    waiting: int


class HistorySizeResponse(TypedDict):
    """What the history takes: earlier texts and their bytes, those of texts that were only seen,
    those of the record, and since when.
    """

    texts: int
    text_bytes: int
    seen_bytes: int
    record_bytes: int
    writes: int
    since: Time | None


class DatabasesResponse(TypedDict):
    """The SQLite library, and the files that are kept with it."""

    sqlite: str
    files: list[DatabaseStatus]


class ModuleFindingResponse(TypedDict):
    """Something wrong that a module reports: what, what to do, in which file of the vault, and on
    which line.
    """

    module: str
    problem: str
    advice: str
    path: str | None
    line: int | None


class DoctorResponse(TypedDict):
    """Problems of the vault, and oddities of single notes; those of which search does not know all
    the text are among them. `findings` are all of these and those of modules, with what to do.
    """

    findings: list[FindingResponse]
    problems: dict[str, str]
    notes: list[dict[str, object]]
    modules: list[ModuleFindingResponse]
    search: IndexResponse | None
    history: HistorySizeResponse | None
    databases: DatabasesResponse | None


_MODULE = "curator"


class DoctorRoutes:
    def __init__(  # noqa: PLR0913  it looks at many parts
        self,
        *,
        store: Store,
        index: VaultIndex,
        watches: WatchRegistry,
        search: Search,
        problems: Problems,
        pruning: HistoryPruning,
        audit: AuditLog,
        gateway: Gateway | None,
        modules: ModuleDispatcher,
    ) -> None:
        self._store, self._index, self._watches, self._search = store, index, watches, search
        self._problems, self._pruning, self._audit = problems, pruning, audit
        self._gateway, self._modules = gateway, modules

    @get("/api/doctor", _MODULE, "admin", reach="paths")
    async def doctor(self, call: ApiCall) -> DoctorResponse:
        """Problems of the vault and of single notes."""
        notes = [
            asdict(oddity) for oddity in await VaultDoctor(self._store, self._index).check_notes()
        ]
        watches = await asyncio.to_thread(
            watch_notes,
            self._watches.all(),
            self._watches,
            names_others=call.grant.alternatives is None,
        )
        unindexed, indexed = await asyncio.to_thread(self._searchable)
        notes = [
            note
            for note in (*watches, *notes, *conflict_copies(self._index.paths()), *unindexed)
            if call.sight.sees(str(note["path"]))
        ]
        found = await self._found_by_modules(call)
        if (
            call.grant.alternatives is not None
        ):  # problems may name any note, and numbers count them
            return {
                "findings": [*note_findings(notes), *module_findings(found)],
                "problems": {},
                "notes": notes,
                "modules": found,
                "search": None,
                "history": None,
                "databases": None,
            }
        history = await self._history_size()
        problems = self._problems.open | await asyncio.to_thread(
            check_control_folder, self._store.root, self._audit.folder, self._audit.head
        )
        return {
            "findings": [
                *problem_findings(problems),
                *note_findings(notes),
                *module_findings(found),
            ],
            "problems": problems,
            "notes": notes,
            "modules": found,
            "search": indexed,
            "history": history,
            "databases": await asyncio.to_thread(self._databases),
        }

    async def _found_by_modules(self, call: ApiCall) -> list[ModuleFindingResponse]:
        """What the modules report, as far as the caller may read the files that it is about."""
        return [
            {
                "module": module,
                "problem": one.problem,
                "advice": one.advice,
                "path": one.path,
                "line": one.line,
            }
            for module, one in await self._modules.findings(call)
            if call.grant.alternatives is None
            or (one.path is not None and call.sight.sees(one.path))
        ]

    def _databases(self) -> DatabasesResponse:
        store = self._store
        found = [store.history.status(), store.objects.seen_status(), self._search.status()]
        if self._gateway is not None:
            found.append(self._gateway.usage_store.status())
        return {"sqlite": SQLITE_VERSION, "files": found}

    async def _history_size(self) -> HistorySizeResponse | None:
        try:
            size = await self._pruning.size()
        except (StorageFailedError, OSError):  # which is a problem by itself
            return None
        return {
            "texts": size.texts,
            "text_bytes": size.text_bytes,
            "seen_bytes": size.seen_bytes,
            "record_bytes": size.record_bytes,
            "writes": size.writes,
            "since": time_of(size.since) if size.since is not None else None,
        }

    def _searchable(self) -> tuple[list[dict[str, object]], IndexResponse]:
        """The notes that search does not know whole, and how many it knows: none without an
        index. In a thread.
        """
        search = self._search
        try:
            found: list[dict[str, object]] = [
                {
                    "path": printable(one.path),
                    "code": "unindexed",
                    "message": f"not found by all of its text: {one.reason}",
                }
                for one in search.unindexed()
            ]
            return found, {"indexed": search.count(), "waiting": search.indexer.waiting}
        except StorageFailedError:  # which is a problem by itself
            return [], {"indexed": 0, "waiting": search.indexer.waiting}
