"""Health: the daemon's state, where it looked for a model login, and how it is restarted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

from parachuted import __version__
from parachuted.agents.choice import BackendChoice
from parachuted.api.flutter import SupervisorStatus
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall
from parachuted.bubbling import PendingChanges, WatchRegistry
from parachuted.errors import ParachuteError
from parachuted.events.watched_vault import WatchedVault
from parachuted.history import HistoryPruning
from parachuted.keys import EVERYWHERE
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.status import Condition
from parachuted.tasks import Budget, Queue, RunCounts, Worker
from parachuted.vault import printable


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
        found = [FoundLogin(source.place, source.found, source.why) for source in sources]
        return FoundLogins(self._chosen.reason, found)

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
