"""Houses: a vault and a home with real approvals, and a manager over both."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from parachuted.access.authority import Authority, current
from parachuted.errors import StorageFailedError
from parachuted.events import Bus, Event
from parachuted.hooks import HookDecision, HookEvent, HookParticipant
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.interfaces import CallingModule, ProvidedInterface
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.status import ModuleStatus
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule, TrustLevel
from parachuted.modules.services import Services
from tests.modules.module_rig import MemoryAudit
from tests.modules.small_modules import Memory, StubServices, write_module


class ObjectingHooks:
    """Hooks that object to the modules of these names."""

    def __init__(self) -> None:
        self.objects_to: set[str] = set()
        self.asked: list[HookEvent] = []
        self.participants: list[HookParticipant] = []

    def wants(self, _event: str) -> bool:
        return bool(self.objects_to)

    async def ask(self, hook_event: HookEvent) -> HookDecision:
        self.asked.append(hook_event)
        return HookDecision(
            allowed=hook_event.data["name"] not in self.objects_to, reason="not this one"
        )

    def set_participants(self, participants: Iterable[HookParticipant]) -> None:
        self.participants = list(participants)


class FailingApprovals(ModuleApprovals):
    """Approvals on a disk that refuses what `fails` names."""

    fails: frozenset[str] = frozenset()

    def look(self) -> frozenset[str]:
        if "look" in self.fails:
            raise OSError(5, "Input/output error")
        return super().look()

    def ready(self, names: Collection[str] | None = None) -> list[ApprovedModule]:
        if "ready" in self.fails:
            raise StorageFailedError
        return super().ready(names)


class ManagerRig:
    """`add` writes and approves a module; `memory` is what modules kept, by their names; `config`
    is what each of them is told.
    """

    def __init__(self, folder: Path, preferred: Mapping[str, str]) -> None:
        self.vault, self.home = folder / "vault", folder / "home"
        self.vault.mkdir(exist_ok=True)
        self.home.mkdir(exist_ok=True, mode=0o700)
        self.asker, self.memory, self.config = (
            ObjectingHooks(),
            dict[str, Memory](),
            dict[str, object](),
        )
        self.problems: dict[str, str | None] = {}
        self.events: list[Event] = []
        self.audit = MemoryAudit()
        self.bus = Bus(self.clock)
        self.bus.subscribe(self.events.append)
        self.trust = FailingApprovals(self.home, self.vault, env=dict(os.environ))
        self.modules = ModuleManager(
            trust=self.trust,
            make_services=self.services,
            start_worker=InProcessHost,  # the real one has tests of its own
            bus=self.bus,
            asker=self.asker,
            vault=self.vault,
            clock=self.clock,
            report=self.problems.__setitem__,
            preferred=preferred,
            audit=self.audit,
            look_every_s=0.05,
        )

    def find(self, name: str) -> ProvidedInterface | None:
        """What anybody calls that interface by."""
        return self.modules.interface(
            name, CallingModule(own=Authority, delegated=lambda authority: authority)
        )

    def clock(self) -> datetime:
        return datetime.now(UTC)

    def services(self, approved: ApprovedModule) -> Services:
        name, modules = approved.name, self.modules
        given = StubServices(
            name=name,
            config=self.config,
            tell=lambda event, data: modules.publish(name, event, data, current()),
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

    async def get(self, path: str, **query: str) -> object:
        found = self.modules.find("GET", path)
        assert found is not None, path
        return await found.host.call(found.spec.handler, {}, path=found.path_values, query=query)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[ModuleManager]:
        """Start, run until the block ends, stop."""
        await self.modules.start()
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self.modules.run(), name="modules")
                await asyncio.sleep(0)
                yield self.modules
                task.cancel()
        finally:
            await self.modules.stop()
