"""Keeps the running modules in line with those that may run, and gives access to all of them.

It compares the two and acts on the difference. An approval, an edit of modules.yaml, a disabled
module and a restart are all the same act, and it does not matter how many were missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from parachuted.access.agent_config import AgentConfig
from parachuted.access.authority import Authority
from parachuted.access.events import EventFilter
from parachuted.access.grant import grant_of
from parachuted.access.origins import Origins
from parachuted.audit.chain import AuditRecorder
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.events import Bus
from parachuted.hooks.responses import OfferedTools
from parachuted.modules.hosting.audited import AuditedInterface, ModuleAudit
from parachuted.modules.hosting.event_publisher import AuthorReach, EventPublisher
from parachuted.modules.hosting.hosted_module import (
    HostedModule,
    LoadGuard,
    MakeCallRun,
    ModuleReports,
    RecordedModule,
    ask_to_load,
    module_findings,
)
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.inbox import Inbox
from parachuted.modules.hosting.interfaces import ArrivalOrder, CallingModule, Interfaces, waves
from parachuted.modules.hosting.module_hooks import ModuleHook
from parachuted.modules.hosting.route_table import MatchedRoute, ModuleRouteTable
from parachuted.modules.hosting.running_module import CALL_LIMIT_S, RunningModule
from parachuted.modules.hosting.scheduler import ModuleSchedule, ModuleScheduler
from parachuted.modules.hosting.set_schedules import SetSchedules
from parachuted.modules.hosting.status import ModuleStatus, status_of
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule, ModuleEntry
from parachuted.modules.registry.declaration import ModuleDeclaration, ToolSpec
from parachuted.modules.results import Finding
from parachuted.modules.services import Services
from parachuted.processes.beat import next_beat
from parachuted.runs.agent_tools import ModuleTrust
from parachuted.state import StateStore
from parachuted.vault import VaultPath, WriteResult

log = logging.getLogger(__name__)

_AT_ONCE = 8
_UNSHOWN = 1 << 32  # behind all that a manifest says, and so a person was shown


class ModuleManager:
    """All modules of one vault.

    `start` starts what may run, `run` follows changes and drives events and schedules, `stop` ends
    all. `make_services` makes a module's services, `start_worker` a module host; `report` sets a
    problem by subject, None clears it; `preferred` names the provider of an interface that several
    provide. `make_run` makes the record of a call, whose writes are then one run; `author_reach`
    limits what follows from a write to what its author may touch.
    """

    def __init__(  # noqa: PLR0913  the parts of a part
        self,
        *,
        trust: ModuleApprovals,
        make_services: Callable[[ApprovedModule], Services],
        start_worker: Callable[[ApprovedModule, Services], RunningModule],
        bus: Bus,
        asker: LoadGuard,
        vault: Path,
        clock: Callable[[], datetime],
        report: Callable[[str, str | None], None],
        preferred: Mapping[str, str],
        audit: AuditRecorder,
        state: StateStore | None = None,
        origins: Origins | None = None,
        set_schedules: SetSchedules | None = None,
        make_run: MakeCallRun | None = None,
        author_reach: AuthorReach | None = None,
        look_every_s: float = 2.0,
    ) -> None:
        self._trust, self._make_services, self._start_worker = trust, make_services, start_worker
        self._bus, self._asker, self._vault = bus, asker, vault
        self._clock, self._report = clock, report
        self._origins, self._make_run = origins, make_run
        self._interfaces = Interfaces(preferred)
        self._audit = ModuleAudit(audit, clock)
        self._publishing = EventPublisher(bus, author_reach)
        self._routes = ModuleRouteTable()
        self.scheduler = ModuleScheduler(clock, state, self._audit, set_schedules)
        self._look_every_s = look_every_s
        self._kept: dict[str, HostedModule] = {}
        self._order = ArrivalOrder(state)
        self._entries: list[ModuleEntry] = []
        self._is_behind = True
        self._reports = ModuleReports(bus, report)
        self._lock = asyncio.Lock()
        self._has_started, self._may_answer = False, asyncio.Event()
        self._group: asyncio.TaskGroup | None = None

    async def start(self) -> None:
        """Start all modules that may run.

        A failure is reported and affects only its module. Raises nothing of a module's. Where the
        disk refuses, none is started, and `run` tries again.
        """
        try:
            await self._look()
        except BaseException:
            self._may_answer.set()
            raise

    async def wait_started(self, seconds: float) -> bool:
        """Wait at most so long for all to be started; whether they are. `run`'s end ends it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._may_answer.wait(), seconds)
        return self._has_started

    async def refresh(self) -> None:
        """Read the folders and approvals now, for `status`; `run` acts on what changed, and reports
        a disk that refuses.
        """
        before = self._entries
        with contextlib.suppress(ParachuteError, OSError):
            entries = await asyncio.to_thread(self._trust.entries)
            if self._entries is before:  # else `sync` has read them meanwhile, and perhaps later
                self._entries = entries

    async def stop(self) -> None:
        self._publishing.deliver_to(())
        async with self._lock:
            await self._end(list(self._kept.values()))
            self._kept.clear()
        self._audit.flush(at_end=True)

    async def run(self) -> None:
        """Tell events, run schedules, and see what became of folders and approvals, until
        cancelled.
        """
        try:
            async with asyncio.TaskGroup() as self._group:
                for kept in self._kept.values():
                    self._begin_delivery(kept)
                while True:
                    self.scheduler.begin_due(self._group)
                    await self._look()
                    self._publish_failures()
                    self._audit.flush()
                    await next_beat(self._look_every_s)
        finally:
            self.scheduler.stop()
            self._group = None
            self._may_answer.set()

    async def sync(self, names: Collection[str] | None = None) -> None:
        """Compare what runs with what may run, and act on the difference.

        To be called after each change of an approval.

        `names` are those that it is about; None: all.
        """
        async with self._lock:
            ready = await asyncio.to_thread(self._trust.ready, names)
            self._entries = await asyncio.to_thread(self._trust.entries)
            wanted = {one.name: one for one in ready}
            mine = [kept for name, kept in self._kept.items() if names is None or name in names]
            await self._end(
                [kept for kept in mine if wanted.get(kept.approved.name) != kept.approved]
            )
            await self._begin([one for one in ready if one.name not in self._kept])
            self._reports.publish_changes(self._entries)
            self._report("modules", await asyncio.to_thread(lambda: self._trust.problem))
            self._publish_failures()

    async def restart(self, name: str) -> None:
        """Restart one module; the others keep running.

        Raises NotFoundError where no such module may run.
        """
        async with self._lock:
            if name not in self._kept:
                raise NotFoundError(
                    f"the module {name} is not enabled and approved; `parachute modules status` "
                    "shows its state"
                )
            await self._end([self._kept[name]])
        await self.sync({name})

    def status(self) -> list[ModuleStatus]:
        choices = self._interfaces.choices()
        found = []
        for entry in sorted(self._entries, key=lambda one: one.name):
            kept = self._kept.get(entry.name)
            running = kept.running if kept is not None else None
            failure = kept.failure if kept is not None else None
            found.append(
                status_of(
                    entry,
                    where=kept.where if kept is not None else None,
                    limits=None if running is None else running.limits,
                    declared=None if running is None else running.declared,
                    problem=failure or entry.problem,
                    choices=choices,
                    schedules=self.scheduler.words(entry.name),
                    pages=self._pages_of(entry.name),
                )
            )
        return found

    def _pages_of(self, name: str) -> str:
        approved = self.approved(name)
        if approved is None or approved.manifest.static is None:
            return ""
        return f"{approved.manifest.prefix}/{approved.manifest.static.prefix}/"

    def find(self, method: str, path: str) -> MatchedRoute | None:
        return self._routes.find(method, path)

    def allowed(self, path: str) -> tuple[str, ...]:
        return self._routes.allowed(path)

    def declared(self) -> list[ModuleDeclaration]:
        return [running.declared for running in self.running()]

    def running(self) -> list[RunningModule]:
        return [
            kept.running for _name, kept in sorted(self._kept.items()) if kept.running is not None
        ]

    def tools(self) -> list[tuple[str, ToolSpec]]:
        return [
            (name, spec)
            for name, kept in sorted(self._kept.items())
            for spec in kept.tools.values()
        ]

    def schedules(self) -> list[ModuleSchedule]:
        return self.scheduler.schedules()

    def offered(self) -> OfferedTools:
        running = {name for name, kept in self._kept.items() if kept.running is not None}
        return OfferedTools(
            modules=frozenset(running),
            tools=frozenset(
                name
                for module, spec in self.tools()
                for name in (spec.name, f"mcp__{spec.agent or module}__{spec.name}")
            ),
        )

    async def findings(self, authority: Authority) -> list[tuple[str, Finding]]:
        """What the modules that run report to the doctor, each with its module's name, and those
        that wait for approval.
        """
        waiting = [
            (
                one.name,
                Finding(
                    problem="it waits for your approval, and does not run",
                    advice=f"`parachute modules approve {one.name}` shows what it may do, and asks",
                ),
            )
            for one in self.status()
            if one.state == "unapproved"
        ]
        return [*waiting, *await module_findings(self.running(), authority)]

    async def call_tool(
        self,
        module: str,
        tool: str,
        arguments: Mapping[str, object],
        authority: Authority,
        *,
        timeout_s: float = CALL_LIMIT_S,
    ) -> object:
        """Call a tool.

        Raises NotFoundError where there is none of that name, and what `RunningModule.call` raises.
        """
        kept = self._kept.get(module)
        if kept is None or tool not in kept.tools:
            raise NotFoundError(f"there is no tool {tool} of a module {module}")
        call = partial(kept.call_tool, tool, arguments, timeout_s, authority)
        if authority.within is None:  # a request, which the API tells of
            return await call()
        with self._audit.call(
            "agent", next(iter(authority.runs), ""), module, f"tool {tool}", authority
        ) as answer:
            answer.value = await call()
        return answer.value

    async def call_command(
        self, module: str, command: str, arguments: Mapping[str, object], authority: Authority
    ) -> object:
        """Do what a person asks on the command line.

        Raises NotFoundError where there is none of that name, and what `RunningModule.call` raises.
        """
        kept = self._kept.get(module)
        if kept is None:
            raise NotFoundError(f"there is no command {command} of a module {module}")
        return await kept.call_command(command, arguments, authority)

    def approved(self, name: str) -> ApprovedModule | None:
        kept = self._kept.get(name)
        return kept.approved if kept is not None else None

    def trust_of(self, module: str) -> ModuleTrust:
        """How it stands: one that may not run is not trusted."""
        approved = self.approved(module)
        if approved is None:
            return ModuleTrust(is_trusted=False)
        return ModuleTrust(
            is_trusted=approved.trust != "untrusted", provides=approved.manifest.provides
        )

    def agents_of(self, name: str) -> Mapping[str, AgentConfig]:
        kept = self._kept.get(name)
        return kept.running.declared.agents if kept is not None and kept.running is not None else {}

    def interface(self, name: str, caller: CallingModule) -> AuditedInterface | None:
        """The interface for that caller; None while no module provides it."""
        found = self._interfaces.get(name, caller)

        async def call(method: str, made: Callable[[], Awaitable[object]]) -> object:
            provider = self._interfaces.provider(name)
            with self._audit.call(
                "module", caller.name, provider, f"{name}.{method}", caller.own()
            ) as answer:
                answer.value = await made()
            return answer.value

        return None if found is None else AuditedInterface(found, call)

    async def ask_interface(self, name: str, method: str) -> object:
        """Ask its provider, on no one's behalf; None while no module provides it."""
        return (found := self._interfaces.find(name)) and await getattr(found[0], method)()

    def publish(
        self, module: str, event: str, data: Mapping[str, object], authority: Authority
    ) -> None:
        """Tell an event of a module's own, which acts on that authority.

        Raises ActRefusedError for any other.
        """
        with self._audit.publishing(module, event, data, authority):
            self._publishing.publish(module, event, data, authority)

    def writing(
        self, path: VaultPath, authority: Authority
    ) -> AbstractContextManager[Callable[[WriteResult], None]]:
        """A module writes that file, and acts on that authority; call what it gives with the
        result.
        """
        return self._publishing.writing(path, authority)

    async def _begin(self, ready: list[ApprovedModule]) -> None:
        """Begin them in waves: who uses an interface after who provides it."""
        room = asyncio.Semaphore(_AT_ONCE)
        for wave in waves(ready):
            async with asyncio.TaskGroup() as group:
                for one in wave:
                    kept = self._kept[one.name] = HostedModule(approved=one)
                    group.create_task(self._begin_one(kept, room), name=f"begin {one.name}")

    async def _begin_one(self, kept: HostedModule, room: asyncio.Semaphore) -> None:
        name, version = kept.approved.name, kept.approved.manifest.version
        async with room:
            running: RunningModule | None = None
            try:
                await ask_to_load(self._asker, kept.approved, self._clock(), self._vault)
                self._publishing.declare(kept.approved.manifest)
                made = self._make(kept.approved)
                running = (
                    made if self._make_run is None else RecordedModule(name, made, self._make_run)
                )
                await running.start()
                self._serve(kept, running)
            except Exception as error:  # a module's callback: nothing of it ends the others
                kept.problem = (
                    (running.problem if running is not None else None)
                    or str(error)
                    or type(error).__name__
                )
                log.warning(
                    "a module could not begin",
                    extra={"of": name, "error": str(error)},
                    exc_info=not isinstance(error, ParachuteError),
                )
                if running is not None:
                    await running.stop()
                self._publishing.withdraw(name)
                return
        log.info("a module is running", extra={"of": name, "version": version})
        self._bus.publish("module.enabled", name=name, version=version, hash=kept.approved.digest)

    def _make(self, approved: ApprovedModule) -> RunningModule:
        services = self._make_services(approved)
        if approved.trust == "untrusted":
            return self._start_worker(approved, services)
        return InProcessHost(approved, services)

    def _serve(self, kept: HostedModule, running: RunningModule) -> None:
        declared = running.declared
        self._routes.add(declared.name, running, declared)
        rank, is_trusted = self._order.rank(declared.name), kept.approved.trust != "untrusted"
        for interface in declared.provides:
            was_shown = interface in kept.approved.manifest.provides
            self._interfaces.offer(
                declared.name,
                [interface],
                running.interface,
                rank=rank if was_shown else rank + _UNSHOWN,
                is_trusted=is_trusted,
            )
        self.scheduler.add(running, declared)
        hears = EventFilter.of_module(
            declared.name, grant_of(kept.approved.manifest.permissions.read)
        )
        kept.inbox = Inbox(running, declared.events, hears, self._origins)
        kept.tools = {spec.name: spec for spec in declared.tools}
        kept.hooks = tuple(
            ModuleHook(running, spec, self._audit, is_trusted=is_trusted) for spec in declared.hooks
        )
        kept.running = running
        self._begin_delivery(kept)
        self._deliver()

    def _begin_delivery(self, kept: HostedModule) -> None:
        if self._group is not None and kept.inbox is not None and kept.delivery is None:
            kept.delivery = self._group.create_task(
                kept.inbox.run(), name=f"events of {kept.approved.name}"
            )

    async def _end(self, ending: list[HostedModule]) -> None:
        async with asyncio.TaskGroup() as group:
            for kept in ending:
                self._kept.pop(kept.approved.name, None)
                if kept.running is not None:
                    group.create_task(
                        self._end_one(kept, kept.running), name=f"end {kept.approved.name}"
                    )
            self._deliver()  # nothing new comes to those that are about to end

    async def _end_one(self, kept: HostedModule, running: RunningModule) -> None:
        """Stop all access to it, then end it."""
        name, version = kept.approved.name, kept.approved.manifest.version
        self._routes.remove(name)
        self._interfaces.withdraw(name)
        self.scheduler.remove(running)
        if kept.delivery is not None:
            kept.delivery.cancel()
            with suppress(asyncio.CancelledError):
                await kept.delivery
        try:
            await running.stop()
        except Exception:  # a wall, as for what it begins
            log.exception("a module did not end as it should", extra={"of": name})
        self._publishing.withdraw(name)
        self._bus.publish("module.disabled", name=name, version=version)

    def _deliver(self) -> None:
        self._publishing.deliver_to(
            kept.inbox for kept in self._kept.values() if kept.inbox is not None
        )
        self._asker.set_participants(one for kept in self._kept.values() for one in kept.hooks)

    async def _look(self) -> None:
        """Follow what has changed since the last look.

        While the disk refuses, the modules that run go on, and all is compared after.
        """
        try:
            names = await asyncio.to_thread(
                self._trust.look
            )  # before all are compared, so that what changes meanwhile is seen after
            if self._is_behind:
                await self.sync()
            elif names:
                await self.sync(names)
            self._is_behind, self._has_started = False, True
            self._may_answer.set()
        except (ParachuteError, OSError) as error:
            self._is_behind = True
            log.warning("what may run could not be read", extra={"error": str(error)})
            self._report("modules", f"what may run could not be read: {error}")

    def _publish_failures(self) -> None:
        self._reports.publish_failures(self._entries, self._kept)
