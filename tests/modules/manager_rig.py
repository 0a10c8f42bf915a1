"""Houses: a vault and a home with real approvals, and a manager over both."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from parachuted.access.caller import Caller, current
from parachuted.errors import StorageFailedError
from parachuted.events import Bus, Event, Problems
from parachuted.hooks import HookDecision, HookEvent
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import EventPublisher
from parachuted.modules.hosting.exchange import Interfaces, ModuleExchange
from parachuted.modules.hosting.host import HandlerCall, InterfaceMethods
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.manager import ModuleManager, ask_to_load
from parachuted.modules.hosting.schedules import ModuleScheduler
from parachuted.modules.hosting.status import ModuleStatus
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule, TrustLevel
from parachuted.modules.registry.arguments import RequestParts
from parachuted.modules.services import Services
from tests.modules.module_rig import MemoryAudit
from tests.modules.small_modules import Memory, StubServices, write_module


class ObjectingHooks:
    """Hooks that object to the modules of these names."""

    def __init__(self) -> None:
        self.objects_to: set[str] = set()
        self.asked: list[HookEvent] = []

    def wants(self, _event: str) -> bool:
        return bool(self.objects_to)

    async def ask(self, hook_event: HookEvent) -> HookDecision:
        self.asked.append(hook_event)
        return HookDecision(
            allowed=hook_event.data["name"] not in self.objects_to, reason="not this one"
        )


class FailingApprovals(ModuleApprovals):
    """Approvals on a disk that refuses what `fails` names."""

    fails: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._look, self.look = self.look, self.look_or_fail

    def look_or_fail(self) -> frozenset[str]:
        if "look" in self.fails:
            raise OSError(5, "Input/output error")
        return self._look()

    def ready(self, names: Collection[str] | None = None) -> list[ApprovedModule]:
        if "ready" in self.fails:
            raise StorageFailedError
        return super().ready(names)


class ManagerRig:
    """`add` writes and approves a module; `memory` is what modules kept, by their names;
    `ahead` is how far its clock was put forward.
    """

    def __init__(self, folder: Path) -> None:
        self.vault, self.home = folder / "vault", folder / "home"
        self.vault.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True, mode=0o700)
        self.asker, self.memory = ObjectingHooks(), dict[str, Memory]()
        self.ahead = timedelta()
        self.events: list[Event] = []
        self.audit = MemoryAudit()
        self.bus = Bus(self.clock)
        self.bus.subscribe(self.events.append)
        self.problems = Problems(self.bus)
        self.trust = FailingApprovals(self.home, self.vault, env=dict(os.environ))
        audit = ModuleAudit(self.audit, self.clock)
        self.exchange = ModuleExchange(
            EventPublisher(self.bus, audit),
            Interfaces(audit),
            ModuleScheduler(self.clock, None, audit),
        )
        self.modules = ModuleManager(
            self.trust,
            lambda approved: InProcessHost(approved, self.services(approved)),
            partial(ask_to_load, self.asker, self.vault, self.clock),
            self.exchange,
            audit,
            self.bus,
            self.problems,
        )
        self.modules.look_every_s = 0.05

    def find(self, name: str) -> InterfaceMethods | None:
        """What anybody calls that interface by."""
        return self.modules.interfaces.get(name, "", lambda: (Caller(), Caller()))

    def clock(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def services(self, approved: ApprovedModule) -> Services:
        name, events = approved.name, self.exchange.events
        given = StubServices(
            name=name,
            tell=lambda event, data: events.publish(name, event, data, current()),
            find=self.find,
        )
        given.state = self.memory.setdefault(name, given.state)
        return given

    def write(self, name: str, body: str, manifest: str = "", **files: str) -> Path:
        return write_module(
            self.vault / "Modules" / name, body, name=name, manifest=manifest, **files
        )

    def approve(self, name: str, trust: TrustLevel = "trusted") -> None:
        digest = self.trust.entry(name).found_digest
        assert digest is not None
        self.trust.approve(name, digest, trust=trust)

    def add(self, name: str, body: str = "pass", manifest: str = "", **files: str) -> None:
        self.write(name, body, manifest, **files)
        self.approve(name)

    def status(self, name: str) -> ModuleStatus:
        return next(status for status in self.modules.status() if status.name == name)

    def reported(self, event: str) -> list[Mapping[str, object]]:
        return [one.data for one in self.events if one.event == event]

    def delete(self, *paths: str) -> None:
        """Publish that a person deleted these files."""
        for path in paths:
            self.bus.publish(
                "file.deleted", path=path, by="person", run=None, causes=[], digest=None
            )

    async def get(self, path: str, **query: str) -> object:
        found = self.modules.routes.find("GET", path)
        assert found is not None, path
        return await found.host.call(
            HandlerCall(
                found.spec.handler, {}, request=RequestParts(path=found.path_values, query=query)
            )
        )

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[ModuleManager]:
        """Start, run until the block ends, stop."""
        try:
            with contextlib.suppress(StorageFailedError):
                await self.modules.sync()
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self.modules.run(), name="modules")
                await asyncio.sleep(0)
                yield self.modules
                task.cancel()
        finally:
            await self.modules.stop()
