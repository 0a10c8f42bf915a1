"""Health: whether the daemon is well, what it is doing, and where it looked for a login for the
model.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from parachuted import __version__
from parachuted.access.filter import AccessFilter
from parachuted.api.http.decorators import get
from parachuted.api.http.fields import AppRequestModel
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.route import ApiCall
from parachuted.keys import EVERYWHERE, AccessGrant
from parachuted.modules.hosting.status import Condition
from parachuted.vault import printable


class HealthQuery(AppRequestModel):
    """How much is to be told."""

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


class HealthRoutes:
    """Answered from memory, since it is polled; only the Docker engine, for the details, is asked
    each time.
    """

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts

    @get("/api/health", "system", None, reach="paths", answers={200: HealthResponse})
    async def health(self, call: ApiCall, query: HealthQuery) -> dict[str, object]:
        """Whether the daemon is healthy; details for this machine or a valid key."""
        now = self._parts.clock()
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
        return answer

    @get("/api/auth/logins", "system", "admin", reach="beyond")
    async def logins(self) -> LoginsResponse:
        """Where the daemon looked for a model login and what it found, without the login itself."""
        findings = await asyncio.to_thread(self._parts.find_logins)
        looked = [LoginResponse(place=one.place, found=one.found, why=one.why) for one in findings]
        return LoginsResponse(agent=self._parts.backend_reason, looked=looked)

    async def _docker(self) -> dict[str, bool]:
        """Whether agents with a shell have what they need, as the app's settings page asks
        for it.
        """
        seen = (
            await self._parts.sandboxes.probe_engine()
            if self._parts.sandboxes is not None
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
            for one in self._parts.modules.status()
        ]

    def _status(self) -> str:
        return "degraded" if self._parts.problems.all() else "ok"

    def _details(self, grant: AccessGrant) -> dict[str, object]:
        """What is told of notes is told of those that the caller may read; problems may be about
        any, and are for who sees all.
        """
        parts, sight = self._parts, AccessFilter(self._parts.root, grant)
        now, sees_all = parts.clock(), grant.alternatives is None
        size = parts.pruning.known
        return {
            "pid": os.getpid(),
            "uptime": (now - parts.started).total_seconds(),
            "vault": {
                "path": str(parts.vault) if sees_all else None,
                "files": len(parts.index) if sees_all else None,
                "watchers": len(parts.watches) if sees_all else None,
                "watched_by": parts.is_watching_by(),
            },
            "agent": {
                "backend": parts.backend,
                "reason": parts.backend_reason,
                "paused": parts.worker.paused,
            },
            "tasks": {
                "queued": sum(
                    task.state == "queued" and sight.sees(task.watcher)
                    for task in parts.queue.all()
                ),
                "running": sum(sight.sees(task.watcher) for task in parts.queue.running()),
            },
            "waiting": [
                {"watcher": printable(task.watcher), "reason": task.reason}
                for task in parts.queue.all()
                if task.reason and sight.sees(task.watcher)
            ],
            "freshness": {
                "behind": [
                    printable(watcher)
                    for watcher in parts.reviews.watchers()
                    if sight.sees(watcher)
                ]
            },
            "budget": {**asdict(parts.budget.limits), **(parts.budget.used() if sees_all else {})},
            "problems": parts.problems.all() if sees_all else {},
            "history": {"texts": size.texts, "bytes": size.text_bytes + size.record_bytes}
            if sees_all and size is not None
            else None,
            "bots": {},
        }
