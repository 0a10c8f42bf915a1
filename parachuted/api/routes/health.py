"""Health: whether the daemon is well, what it is doing, where it looked for a login for the model,
and how it is restarted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from parachuted import __version__
from parachuted.access.filter import AccessFilter
from parachuted.agents.choice import BackendChoice
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, AppRequestModel
from parachuted.bubbling import PendingChanges, WatchRegistry
from parachuted.errors import ParachuteError
from parachuted.events import Problems
from parachuted.history import HistoryPruning
from parachuted.keys import EVERYWHERE, AccessGrant
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.status import Condition
from parachuted.tasks import Budget, Queue, Worker
from parachuted.vault import VaultIndex, VaultRoot, printable


class HealthQuery(AppRequestModel):
    """How much the caller may see."""

    detailed: str | None = None


class LoginResponse(TypedDict):
    """One place; `why` says what is there, or what is wrong with it."""

    place: str
    found: bool
    why: str


class LoginsResponse(TypedDict):
    """`agent` is what follows from it, in a sentence."""

    agent: str
    looked: list[LoginResponse]


class ModuleHealthResponse(TypedDict):
    """A module, and how it runs."""

    name: str
    version: str
    status: Condition


class HealthResponse(TypedDict):
    """`status` is `degraded` while there are problems, which `GET /api/doctor` tells too;
    `timestamp` is in milliseconds since 1970.

    All but the first three: when `detailed` is asked for, by this machine or with a valid key.
    Numbers and texts about notes that the caller may not read are left out, as null or empty.
    """

    status: Literal["ok", "degraded"]
    version: str
    timestamp: int
    pid: NotRequired[int]
    uptime: NotRequired[float]
    vault: NotRequired[dict[str, str | int | None]]
    agent: NotRequired[dict[str, str | bool]]
    tasks: NotRequired[dict[str, int]]
    waiting: NotRequired[list[dict[str, str | None]]]
    freshness: NotRequired[dict[str, list[str]]]
    budget: NotRequired[dict[str, float]]
    problems: NotRequired[dict[str, str]]
    history: NotRequired[dict[str, int] | None]
    modules: NotRequired[list[ModuleHealthResponse]]
    bots: NotRequired[dict[str, object]]
    docker: NotRequired[dict[str, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultHealth:
    """The vault: `path` is its folder as the settings name it, `is_watching_by` says by which
    means it is watched.
    """

    root: VaultRoot
    path: Path
    index: VaultIndex
    watches: WatchRegistry
    is_watching_by: Callable[[], str]

    def details(self, *, sees_all: bool) -> dict[str, object]:
        return {
            "path": str(self.path) if sees_all else None,
            "files": len(self.index) if sees_all else None,
            "watchers": len(self.watches) if sees_all else None,
            "watched_by": self.is_watching_by(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHealth:
    queue: Queue
    reviews: PendingChanges
    budget: Budget
    worker: Worker

    def details(self, sight: AccessFilter, *, sees_all: bool) -> dict[str, object]:
        tasks = [task for task in self.queue.all() if sight.sees(task.watcher)]
        return {
            "tasks": {
                "queued": sum(task.state == "queued" for task in tasks),
                "running": sum(sight.sees(task.watcher) for task in self.queue.running()),
            },
            "waiting": [
                {"watcher": printable(task.watcher), "reason": task.reason}
                for task in tasks
                if task.reason
            ],
            "freshness": {
                "behind": [
                    printable(watcher) for watcher in self.reviews.watchers() if sight.sees(watcher)
                ]
            },
            "budget": {**asdict(self.budget.limits), **(self.budget.used() if sees_all else {})},
        }


class HealthRoutes:
    """Answered from memory, since it is polled; only the Docker engine, for the details, is asked
    each time.
    """

    def __init__(
        self,
        *,
        vault: VaultHealth,
        loop: LoopHealth,
        chosen: BackendChoice,
        problems: Problems,
        modules: ModuleManager,
        pruning: HistoryPruning,
        started: datetime,
        clock: Callable[[], datetime],
    ) -> None:
        self._vault, self._loop, self._chosen = vault, loop, chosen
        self._problems, self._modules_running, self._pruning = problems, modules, pruning
        self._started, self._clock = started, clock

    @get("/api/health", "system", None, reach="paths", answers={200: HealthResponse})
    async def health(self, call: ApiCall, query: HealthQuery) -> dict[str, object]:
        """Whether the daemon is healthy; details for this machine or a valid key."""
        now = self._clock()
        answer: dict[str, object] = {
            "status": self._status(),
            "version": __version__,
            "timestamp": int(now.timestamp() * 1000),
        }
        is_detailed = query.detailed in {"true", "1", ""}
        if is_detailed and call.identity.kind != "nobody":
            answer |= self._details(call.identity.grant("vault", "read") or call.grant) | {
                "modules": self._modules(call)
            }
            answer["docker"] = await self._docker()
            answer["bots"] = await self._bots(call)
        return answer

    @get("/api/auth/logins", "system", "admin", reach="beyond")
    async def logins(self) -> LoginsResponse:
        """Where the daemon looked for a model login and what it found, without the login itself."""
        findings = await asyncio.to_thread(self._chosen.find_logins)
        looked = [LoginResponse(place=one.place, found=one.found, why=one.why) for one in findings]
        return LoginsResponse(agent=self._chosen.reason, looked=looked)

    async def _docker(self) -> dict[str, bool]:
        seen = (
            await self._chosen.sandboxes.probe_engine()
            if self._chosen.sandboxes is not None
            else None
        )
        return {
            "available": seen is not None and seen.is_there,
            "image_exists": seen is not None and seen.has_image,
        }

    def _modules(self, call: ApiCall) -> list[ModuleHealthResponse]:
        """For those who may ask for `GET /api/modules`."""
        if call.identity.grant("system", "read") != EVERYWHERE:
            return []
        return [
            {"name": one.name, "version": one.version, "status": one.state}
            for one in self._modules_running.status()
        ]

    async def _bots(self, call: ApiCall) -> object:
        """Each platform, as `GET /api/bots/status` says it, for those who see the modules."""
        if not self._modules(call):
            return {}
        with suppress(ParachuteError):  # it is the module's problem then, and `modules` says so
            return await self._modules_running.ask_interface("BotInterface", "statuses") or {}
        return {}

    def _status(self) -> str:
        return "degraded" if self._problems.any_open else "ok"

    def _details(self, grant: AccessGrant) -> dict[str, object]:
        """What concerns notes concerns those that the caller may read; problems may be about any,
        and are for callers who see all.
        """
        sees_all, size = grant.alternatives is None, self._pruning.known
        return {
            "pid": os.getpid(),
            "uptime": (self._clock() - self._started).total_seconds(),
            "vault": self._vault.details(sees_all=sees_all),
            "agent": {
                "backend": self._chosen.backend.name,
                "reason": self._chosen.reason,
                "paused": self._loop.worker.paused,
            },
            **self._loop.details(AccessFilter(self._vault.root, grant), sees_all=sees_all),
            "problems": self._problems.open if sees_all else {},
            "history": {"texts": size.texts, "bytes": size.text_bytes + size.record_bytes}
            if sees_all and size is not None
            else None,
        }


class SupervisorResponse(TypedDict):
    """The daemon, as the app's supervisor page shows it; seconds."""

    supervisor_uptime_seconds: int
    supervisor_version: str
    main_server_healthy: bool
    main_server_status: str
    config_loaded: bool
    main_server_uptime_seconds: int
    main_server_version: str
    main_server_port: int


class PowerResponse(TypedDict):
    """What the daemon does next."""

    status: Literal["running", "stopping", "restarting"]


class SupervisorRoutes:
    """The routes of an app's supervisor page. Where it ends, the answer goes out before the end."""

    def __init__(
        self,
        *,
        problems: Problems,
        started: datetime,
        clock: Callable[[], datetime],
        port: Callable[[], int],
        end: Callable[[bool], None],
    ) -> None:
        """`end` takes whether the daemon restarts."""
        self._problems, self._started, self._clock = problems, started, clock
        self._port, self._end = port, end

    @get("/supervisor/status", "system", "admin", reach="beyond")
    async def supervisor(self) -> SupervisorResponse:
        """The daemon's state, for the app's supervisor page.

        The real supervisor is systemd or launchd.
        """
        uptime = max(0, int((self._clock() - self._started).total_seconds()))
        return {
            "supervisor_uptime_seconds": uptime,
            "supervisor_version": __version__,
            "main_server_healthy": not self._problems.any_open,
            "main_server_status": "running",
            "config_loaded": True,
            "main_server_uptime_seconds": uptime,
            "main_server_version": __version__,
            "main_server_port": self._port(),
        }

    @post("/supervisor/server/start", "system", "admin", reach="beyond")
    async def start(self) -> PowerResponse:
        """Does nothing: the daemon is already running."""
        return PowerResponse(status="running")

    @post("/supervisor/server/stop", "system", "admin", reach="beyond")
    async def stop(self) -> PowerResponse:
        """Stop the daemon; only its machine can start it again."""
        asyncio.get_running_loop().call_soon(self._end, False)  # noqa: FBT003  whether it restarts
        return PowerResponse(status="stopping")

    @post("/supervisor/server/restart", "system", "admin", reach="beyond")
    async def restart(self) -> PowerResponse:
        """Restart the daemon with the current settings."""
        asyncio.get_running_loop().call_soon(self._end, True)  # noqa: FBT003
        return PowerResponse(status="restarting")
