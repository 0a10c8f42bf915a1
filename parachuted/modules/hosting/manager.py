"""Keeps the running modules in line with those that may run, and gives access to all of them.

It compares the two and acts on the difference. An approval, an edit of modules.yaml, a disabled
module and a restart are all the same act, and it does not matter how many were missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from parachuted.access.agent_config import AgentConfig
from parachuted.access.authority import Authority
from parachuted.access.events import EventFilter
from parachuted.access.grant import grant_of
from parachuted.access.origins import Origins
from parachuted.audit.chain import AuditRecorder
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.events import Bus
from parachuted.hooks import HookParticipant
from parachuted.hooks.responses import OfferedTools
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import AuthorReach, EventPublisher
from parachuted.modules.hosting.host import (
    CALL_LIMIT_S,
    COMMAND_LIMIT_S,
    MakeCallRun,
    ModuleHost,
)
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.inbox import Inbox
from parachuted.modules.hosting.interfaces import (
    ArrivalOrder,
    CallingModule,
    Interfaces,
    ProvidedInterface,
    waves,
)
from parachuted.modules.hosting.module_hooks import LoadGuard, ModuleHook, ask_to_load
from parachuted.modules.hosting.route_table import MatchedRoute, ModuleRouteTable
from parachuted.modules.hosting.schedules import ModuleSchedule, ModuleScheduler, SetSchedules
from parachuted.modules.hosting.status import ModuleReports, ModuleStatus, status_of
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
_SLOW = (
    "it handles events more slowly than they come, so some were dropped; restart it "
    "when that is mended"
)


@dataclass(slots=True, kw_only=True, eq=False)
class _Module:
    """One module that may run. `host` is None while it does not; `problem` is why it could not
    start.
    """

    approved: ApprovedModule
    host: ModuleHost | None = None
    inbox: Inbox | None = None
    delivery: asyncio.Task[None] | None = None
    problem: str | None = None
    tools: dict[str, ToolSpec] = field(default_factory=dict)
    hooks: tuple[HookParticipant, ...] = ()

    @property
    def failure(self) -> str | None:
        found = self.problem if self.host is None else self.host.problem
        return _SLOW if found is None and self.inbox is not None and self.inbox.dropped else found


class ModuleManager:
    """All modules of one vault.

    `start` starts what may run, `run` follows changes and drives events and schedules, `stop` ends
    all. `make_services` makes a module's services, `start_worker` the container of an untrusted
    one; `report` sets a problem by subject, None clears it; `preferred` names the provider of an
    interface that several provide. `make_run` makes the record of a call, whose writes are then one
    run; `author_reach` limits what follows from a write to what its author may touch.
    """

    def __init__(  # noqa: PLR0913  the parts of a part
        self,
        *,
        trust: ModuleApprovals,
        make_services: Callable[[ApprovedModule], Services],
        start_worker: Callable[[ApprovedModule, Services, MakeCallRun | None], ModuleHost],
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
        self._audit = ModuleAudit(audit, clock)
        self._interfaces = Interfaces(preferred, self._audit)
        self._publishing = EventPublisher(bus, author_reach)
        self._routes = ModuleRouteTable()
        self.scheduler = ModuleScheduler(clock, state, self._audit, set_schedules)
        self._look_every_s = look_every_s
        self._modules: dict[str, _Module] = {}
        self._order = ArrivalOrder(state)
        self._entries: list[ModuleEntry] = []
        self._reports = ModuleReports(bus, report)
        self._is_behind = True
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
            await self._end(list(self._modules.values()))

    async def run(self) -> None:
        """Tell events, run schedules, and see what became of folders and approvals, until
        cancelled.
        """
        try:
            async with asyncio.TaskGroup() as self._group:
                for module in self._modules.values():
                    self._begin_delivery(module)
                while True:
                    self.scheduler.begin_due(self._group)
                    await self._look()
                    self._publish_failures()
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
            wanted = {approved.name: approved for approved in ready}
            await self._end(
                [
                    module
                    for name, module in self._modules.items()
                    if (names is None or name in names) and wanted.get(name) != module.approved
                ]
            )
            await self._begin([one for one in ready if one.name not in self._modules])
            self._reports.publish_changes(self._entries)
            self._report("modules", await asyncio.to_thread(lambda: self._trust.problem))
            self._publish_failures()

    async def restart(self, name: str) -> None:
        """Restart one module; the others keep running.

        Raises NotFoundError where no such module may run.
        """
        async with self._lock:
            if name not in self._modules:
                raise NotFoundError(
                    f"the module {name} is not enabled and approved; `parachute modules status` "
                    "shows its state"
                )
            await self._end([self._modules[name]])
        await self.sync({name})

    def status(self) -> list[ModuleStatus]:
        choices = self._interfaces.choices()
        found = []
        for entry in sorted(self._entries, key=lambda entry: entry.name):
            module = self._modules.get(entry.name)
            manifest = None if module is None else module.approved.manifest
            pages = "" if manifest is None or manifest.static is None else manifest.static.prefix
            found.append(
                status_of(
                    entry,
                    None if module is None else module.host,
                    (None if module is None else module.failure) or entry.problem,
                    choices=choices,
                    schedules=self.scheduler.words(entry.name),
                    pages=f"{manifest.prefix}/{pages}/" if manifest is not None and pages else "",
                )
            )
        return found

    def find(self, method: str, path: str) -> MatchedRoute | None:
        return self._routes.find(method, path)

    def allowed(self, path: str) -> tuple[str, ...]:
        return self._routes.allowed(path)

    def declared(self) -> list[ModuleDeclaration]:
        return [host.declared for host in self.hosts()]

    def hosts(self) -> list[ModuleHost]:
        """The modules that run, by name."""
        return [
            module.host
            for _name, module in sorted(self._modules.items())
            if module.host is not None
        ]

    def tools(self) -> list[tuple[str, ToolSpec]]:
        return [
            (name, spec)
            for name, module in sorted(self._modules.items())
            for spec in module.tools.values()
        ]

    def schedules(self) -> list[ModuleSchedule]:
        return self.scheduler.schedules()

    def offered(self) -> OfferedTools:
        return OfferedTools(
            modules=frozenset(host.name for host in self.hosts()),
            tools=frozenset(
                name
                for module, spec in self.tools()
                for name in (spec.name, f"mcp__{spec.agent or module}__{spec.name}")
            ),
        )

    async def findings(self, authority: Authority) -> list[tuple[str, Finding]]:
        """What the modules that run report to the doctor, each with its module's name, and those
        that wait for approval. A doctor that fails is a finding itself.
        """
        found = [
            (
                status.name,
                Finding(
                    problem="it waits for your approval, and does not run",
                    advice=f"`parachute modules approve {status.name}` shows what it may do, and "
                    "asks",
                ),
            )
            for status in self.status()
            if status.state == "unapproved"
        ]

        async def ask(host: ModuleHost) -> list[Finding]:
            try:
                return await host.doctor(authority.forked())
            except ParachuteError as error:
                advice = f"`parachute modules status {host.name}` shows more"
                return [Finding(problem=f"its doctor failed: {error.message}", advice=advice)]

        asked = [host for host in self.hosts() if host.declared.has_doctor]
        answers = await asyncio.gather(*(ask(host) for host in asked))
        for host, findings in zip(asked, answers, strict=True):
            found += [(host.name, finding) for finding in findings]
        return found

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

        Raises NotFoundError where there is none of that name, and what `ModuleHost.call` raises.
        """
        found = self._modules.get(module)
        if found is None or found.host is None or tool not in found.tools:
            raise NotFoundError(f"there is no tool {tool} of a module {module}")
        handler = found.tools[tool].handler
        call = found.host.call(handler, arguments, timeout_s=timeout_s, authority=authority)
        if authority.within is None:  # a request, which the API tells of
            return await call
        run = next(iter(authority.runs), "")
        with self._audit.call("agent", run, module, f"tool {tool}", authority) as answer:
            answer.value = await call
        return answer.value

    async def call_command(
        self, module: str, command: str, arguments: Mapping[str, object], authority: Authority
    ) -> object:
        """Do what a person asks on the command line.

        Raises NotFoundError where there is none of that name, and what `ModuleHost.call` raises.
        """
        for host in self.hosts():
            for spec in host.declared.commands:
                if (host.name, spec.name) == (module, command):
                    return await host.call(
                        spec.handler, arguments, timeout_s=COMMAND_LIMIT_S, authority=authority
                    )
        raise NotFoundError(f"there is no command {command} of a module {module}")

    def approved(self, name: str) -> ApprovedModule | None:
        module = self._modules.get(name)
        return module.approved if module is not None else None

    def trust_of(self, module: str) -> ModuleTrust:
        """How it stands: one that may not run is not trusted."""
        approved = self.approved(module)
        if approved is None:
            return ModuleTrust(is_trusted=False)
        return ModuleTrust(
            is_trusted=approved.trust != "untrusted", provides=approved.manifest.provides
        )

    def agents_of(self, name: str) -> Mapping[str, AgentConfig]:
        module = self._modules.get(name)
        return module.host.declared.agents if module is not None and module.host is not None else {}

    def interface(self, name: str, caller: CallingModule) -> ProvidedInterface | None:
        """The interface for that caller; None while no module provides it."""
        return self._interfaces.get(name, caller)

    async def ask_interface(self, name: str, method: str) -> object:
        """Ask its provider, on no one's behalf; None while no module provides it."""
        return (found := self._interfaces.find(name)) and await getattr(found[0], method)()

    def publish(
        self, module: str, event: str, data: Mapping[str, object], authority: Authority
    ) -> None:
        """Tell an event of a module's own, which acts on that authority.

        Raises ActRefusedError for any other.
        """
        with self._audit.call("module", module, module, f"event {event}", authority) as answer:
            answer.value = data
            self._publishing.publish(module, event, data, authority)

    def writing(
        self, path: VaultPath, authority: Authority
    ) -> AbstractContextManager[Callable[[WriteResult], None]]:
        """A module writes that file, and acts on that authority; call what it gives with the
        result.
        """
        return self._publishing.writing(path, authority)

    async def _begin(self, ready: list[ApprovedModule]) -> None:
        room = asyncio.Semaphore(_AT_ONCE)
        for wave in waves(ready):
            async with asyncio.TaskGroup() as group:
                for approved in wave:
                    module = self._modules[approved.name] = _Module(approved=approved)
                    group.create_task(self._begin_one(module, room), name=f"begin {approved.name}")

    async def _begin_one(self, module: _Module, room: asyncio.Semaphore) -> None:
        name, version = module.approved.name, module.approved.manifest.version
        async with room:
            host: ModuleHost | None = None
            try:
                await ask_to_load(self._asker, module.approved, self._clock(), self._vault)
                self._publishing.declare(module.approved.manifest)
                services = self._make_services(module.approved)
                is_trusted = module.approved.trust != "untrusted"
                make = InProcessHost if is_trusted else self._start_worker
                host = make(module.approved, services, self._make_run)
                await host.start()
                self._serve(module, host)
            except Exception as error:  # a module's callback: nothing of it ends the others
                problem = host.problem if host is not None else None
                module.problem = problem or str(error) or type(error).__name__
                log.warning(
                    "a module could not begin",
                    extra={"of": name, "error": str(error)},
                    exc_info=not isinstance(error, ParachuteError),
                )
                if host is not None:
                    await host.stop()
                self._publishing.withdraw(name)
                return
        log.info("a module is running", extra={"of": name, "version": version})
        self._bus.publish("module.enabled", name=name, version=version, hash=module.approved.digest)

    def _serve(self, module: _Module, host: ModuleHost) -> None:
        declared, manifest = host.declared, module.approved.manifest
        self._routes.add(host)
        rank, is_trusted = self._order.rank(host.name), module.approved.trust != "untrusted"
        for interface in declared.provides:
            self._interfaces.offer(
                host.name, interface, host.interface, rank=rank, is_trusted=is_trusted
            )
        self.scheduler.add(host)
        can_hear = EventFilter.of_module(host.name, grant_of(manifest.permissions.read))
        module.inbox = Inbox(host, can_hear, self._origins)
        module.tools = {spec.name: spec for spec in declared.tools}
        module.hooks = tuple(
            ModuleHook(host, spec, self._audit, is_trusted=is_trusted) for spec in declared.hooks
        )
        module.host = host
        self._begin_delivery(module)
        self._deliver()

    def _begin_delivery(self, module: _Module) -> None:
        if self._group is not None and module.inbox is not None and module.delivery is None:
            module.delivery = self._group.create_task(
                module.inbox.run(), name=f"events of {module.approved.name}"
            )

    async def _end(self, ending: list[_Module]) -> None:
        async with asyncio.TaskGroup() as group:
            for module in ending:
                self._modules.pop(module.approved.name, None)
                self._reports.forget(module.approved.name)
                if module.host is not None:
                    group.create_task(
                        self._end_one(module, module.host), name=f"end {module.host.name}"
                    )
            self._deliver()  # nothing new comes to those that are about to end

    async def _end_one(self, module: _Module, host: ModuleHost) -> None:
        """Stop all access to it, then end it."""
        self._routes.remove(host.name)
        self._interfaces.withdraw(host.name)
        self.scheduler.remove(host)
        if module.delivery is not None:
            module.delivery.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await module.delivery
        try:
            await host.stop()
        except Exception:  # a wall, as for what it begins
            log.exception("a module did not end as it should", extra={"of": host.name})
        self._publishing.withdraw(host.name)
        version = module.approved.manifest.version
        self._bus.publish("module.disabled", name=host.name, version=version)

    def _deliver(self) -> None:
        modules = self._modules.values()
        self._publishing.deliver_to(one.inbox for one in modules if one.inbox is not None)
        self._asker.set_participants(hook for one in modules for hook in one.hooks)

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
        failures = {
            name: (module.approved.manifest.version, module.failure)
            for name, module in self._modules.items()
        }
        self._reports.publish_failures(self._entries, failures)
