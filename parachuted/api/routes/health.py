"""Health: the daemon's state, its problems and those of notes, each with what to do about it; where
it looked for a model login, and how it is restarted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import starmap
from typing import Literal

from parachuted import __version__
from parachuted.agents.choice import BackendChoice
from parachuted.agents.gateway.gateway import Gateway
from parachuted.api.flutter import SupervisorStatus
from parachuted.api.http.decorators import get, post
from parachuted.api.http.module_dispatcher import ModuleDispatcher
from parachuted.api.http.route import ApiCall
from parachuted.audit.log import AuditLog
from parachuted.bubbling import PendingChanges, WatchDeclaration, WatchRegistry
from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.events.watched_vault import WatchedVault
from parachuted.history import HistoryPruning, HistorySize
from parachuted.keys import EVERYWHERE
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.status import Condition
from parachuted.search import Search
from parachuted.state import SQLITE_VERSION, DatabaseStatus
from parachuted.tasks import Budget, Queue, RunCounts, Worker
from parachuted.tools.doctor import (
    DoctorFinding,
    check_audit,
    check_notes,
    check_watches,
    conflict_copies,
    finding_of_note,
    finding_of_problem,
)
from parachuted.vault import Store, VaultPath, printable


@dataclass(frozen=True, slots=True)
class FoundLogin:
    """`why` says what is there, or what is wrong with it. The login is not here."""

    place: str
    found: bool
    why: str


@dataclass(frozen=True, slots=True)
class FoundLogins:
    """`agent` is what follows from it, in a sentence."""

    agent: str
    looked: list[FoundLogin]


@dataclass(frozen=True, slots=True)
class ModuleHealth:
    name: str
    version: str
    status: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """`degraded` while `GET /api/doctor` has problems; `timestamp` in milliseconds."""

    status: Literal["ok", "degraded"]
    version: str
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailedHealth(Health):
    """With `detailed`, for this machine or a key that may read all notes."""

    pid: int
    uptime: float
    vault: dict[str, str | int]
    agent: dict[str, str | bool]
    tasks: dict[str, int]
    waiting: list[dict[str, str | None]]
    freshness: dict[str, list[str]]
    budget: RunCounts
    problems: Mapping[str, str]
    history: dict[str, int] | None
    modules: list[ModuleHealth]
    bots: object
    docker: dict[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHealth:
    watches: WatchRegistry
    queue: Queue
    reviews: PendingChanges
    budget: Budget
    worker: Worker


class HealthRoutes:
    """Answered from memory, since it is polled; only the Docker engine is asked each time."""

    def __init__(
        self,
        watched: WatchedVault,
        loop: LoopHealth,
        *,
        chosen: BackendChoice,
        modules: ModuleManager,
        pruning: HistoryPruning,
        started: datetime,
    ) -> None:
        self._watched, self._loop, self._chosen = watched, loop, chosen
        self._modules_running, self._pruning, self._started = modules, pruning, started

    @get("/api/health", "system", None, for_app=True)
    async def health(self, call: ApiCall, detailed: str | None = None) -> DetailedHealth | Health:
        """Whether the daemon is healthy; details for this machine or a key for all notes."""
        watched, loop, now = self._watched, self._loop, self._watched.clock()
        health = Health(
            status="degraded" if watched.problems.any_open else "ok",
            version=__version__,
            timestamp=int(now.timestamp() * 1000),
        )
        if detailed not in {"true", "1", ""} or call.reading != EVERYWHERE:
            return health
        tasks, size = loop.queue.all(), self._pruning.known
        return DetailedHealth(
            **asdict(health),
            pid=os.getpid(),
            uptime=(now - self._started).total_seconds(),
            vault={
                "path": str(watched.settings.vault),
                "files": len(watched.index),
                "watchers": len(loop.watches),
                "watched_by": "polling" if watched.detector.polling else "events",
            },
            agent={
                "backend": self._chosen.backend.name,
                "reason": self._chosen.reason,
                "paused": loop.worker.paused,
            },
            tasks={
                "queued": sum(task.state == "queued" for task in tasks),
                "running": len(loop.queue.running()),
            },
            waiting=[
                {"watcher": printable(task.watcher), "reason": task.reason}
                for task in tasks
                if task.reason
            ],
            freshness={"behind": list(map(printable, loop.reviews.watchers()))},
            budget=loop.budget.counts(),
            problems=watched.problems.open,
            history={"texts": size.texts, "bytes": size.text_bytes + size.record_bytes}
            if size is not None
            else None,
            modules=self._modules(call),
            bots=await self._bots(call),
            docker=await self._docker(),
        )

    async def _docker(self) -> dict[str, bool]:
        if self._chosen.sandboxes is None:
            return {"available": False, "image_exists": False}
        status = await self._chosen.sandboxes.status()
        return {"available": status.engine is not None, "image_exists": status.image is not None}

    @get("/api/auth/logins", "system", "admin")
    async def logins(self) -> FoundLogins:
        """Where the daemon looked for a model login and what it found, without the login itself."""
        sources = await asyncio.to_thread(self._chosen.find_logins)
        logins = [FoundLogin(source.place, source.found, source.why) for source in sources]
        return FoundLogins(self._chosen.reason, logins)

    def _modules(self, call: ApiCall) -> list[ModuleHealth]:
        """For those who may ask for `GET /api/modules`."""
        if call.identity.grant("system", "read") != EVERYWHERE:
            return []
        found = self._modules_running.status()
        return [ModuleHealth(module.name, module.version, module.status) for module in found]

    async def _bots(self, call: ApiCall) -> object:
        """As `GET /api/bots/status` says it, for those who see the modules."""
        if not self._modules(call):
            return {}
        with suppress(ParachuteError):  # it is the module's problem then, and `modules` says so
            return await self._modules_running.ask_interface("BotInterface", "statuses") or {}
        return {}


class SupervisorRoutes:
    def __init__(
        self, watched: WatchedVault, started: datetime, end: Callable[[bool], None]
    ) -> None:
        """`end` takes whether the daemon restarts; the answer goes out before."""
        self._watched, self._started, self._end = watched, started, end

    @get("/supervisor/status", "system", "admin")
    async def supervisor(self) -> SupervisorStatus:
        """The daemon's state, for the app's supervisor page.

        The real supervisor is systemd or launchd.
        """
        uptime = max(0, int((self._watched.clock() - self._started).total_seconds()))
        return SupervisorStatus(
            supervisor_uptime_seconds=uptime,
            supervisor_version=__version__,
            main_server_healthy=not self._watched.problems.any_open,
            main_server_uptime_seconds=uptime,
            main_server_version=__version__,
            main_server_port=self._watched.port,
        )

    @post("/supervisor/server/start", "system", "admin", wrapped="status")
    async def start(self) -> Literal["running"]:
        """Does nothing: the daemon is already running."""
        return "running"

    @post("/supervisor/server/stop", "system", "admin", wrapped="status")
    async def stop(self) -> Literal["stopping"]:
        """Stop the daemon; only its machine can start it again."""
        asyncio.get_running_loop().call_soon(self._end, False)  # noqa: FBT003  whether it restarts
        return "stopping"

    @post("/supervisor/server/restart", "system", "admin", wrapped="status")
    async def restart(self) -> Literal["restarting"]:
        """Restart the daemon with the current settings."""
        asyncio.get_running_loop().call_soon(self._end, True)  # noqa: FBT003
        return "restarting"


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
        findings, search = await asyncio.to_thread(self._look, paths, self._watches.all())
        modules = map(asdict, await self._modules.findings(call))
        return DoctorReport(
            findings=[
                *findings,
                *(DoctorFinding(about=finding.pop("module"), **finding) for finding in modules),
            ],
            search=search,
            history=await self._history_size(),
            databases=await asyncio.to_thread(self._databases),
        )

    def _databases(self) -> DatabaseList:
        store, state = self._store, self._watched.state
        database_statuses = [store.history.status(), state.database.status()]
        database_statuses += [store.objects.seen_status(), self._search.status()]
        if self._gateway is not None:
            database_statuses.append(self._gateway.usage_store.database.status())
        return DatabaseList(SQLITE_VERSION, database_statuses)

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
            findings = [
                finding_of_note(
                    note.path, "unindexed", f"not found by all of its text: {note.reason}"
                )
                for note in search.unindexed()
            ]
            return findings, IndexedNotes(search.count(), search.indexer.waiting)
        except StorageFailedError:  # which is a problem by itself
            return [], IndexedNotes(0, search.indexer.waiting)
