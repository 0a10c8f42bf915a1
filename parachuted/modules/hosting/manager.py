"""Keeps the running modules in line with those that may run: it compares the two and acts on the
difference, so an approval, an edit of modules.yaml and a restart are the same act.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from parachuted.access.agent_config import AgentConfig
from parachuted.access.caller import NO_CALLER, Caller
from parachuted.access.events import EventFilter
from parachuted.access.grant import grant_of
from parachuted.errors import ActRefusedError, NotFoundError, ParachuteError
from parachuted.hooks import HookEvent, Hooks
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import Inbox
from parachuted.modules.hosting.exchange import ModuleExchange, start_order
from parachuted.modules.hosting.host import COMMAND_LIMIT_S, HandlerCall, ModuleHost
from parachuted.modules.hosting.status import ModuleFinding, ModuleReports, ModuleStatus, status_of
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule, ModuleEntry, reads_any_note
from parachuted.modules.registry.declaration import ModuleDeclaration, ToolSpec
from parachuted.modules.results import Finding
from parachuted.processes.beat import next_beat
from parachuted.runs.agent_tools import ModuleTrust

log = logging.getLogger(__name__)

_BEFORE_LOAD = "module.load.before"
_SLOW = (
    "it handles events more slowly than they come, so some were dropped; restart it "
    "when that is mended"
)


@dataclass(slots=True, kw_only=True, eq=False)
class _Module:
    """One module that may run. `problem` is why it could not start, which leaves `host` None."""

    approved: ApprovedModule
    host: ModuleHost | None = None
    inbox: Inbox | None = None
    delivery: asyncio.Task[None] | None = None
    problem: str | None = None

    @property
    def failure(self) -> str | None:
        found = self.problem if self.host is None else self.host.problem
        return _SLOW if found is None and self.inbox is not None and self.inbox.dropped else found


async def ask_to_load(
    hooks: Hooks, vault: Path, clock: Callable[[], datetime], approved: ApprovedModule
) -> None:
    """Raises ActRefusedError where a hook objects."""
    if not hooks.wants(_BEFORE_LOAD):
        return
    name, version = approved.name, approved.manifest.version
    data = {"name": name, "version": version, "hash": approved.digest, "trust": approved.trust}
    decision = await hooks.ask(
        HookEvent(event=_BEFORE_LOAD, at=clock(), data=data, vault=vault, module=name)
    )
    if not decision.allowed:
        raise ActRefusedError(f"a hook objects to the module {name}: {decision.reason}")


class ModuleManager:
    def __init__(
        self,
        trust: ModuleApprovals,
        make_host: Callable[[ApprovedModule], ModuleHost],
        ask_to_load: Callable[[ApprovedModule], Awaitable[None]],
        exchange: ModuleExchange,
        audit: ModuleAudit,
        reports: ModuleReports,
    ) -> None:
        self._trust, self._make_host, self._ask_to_load = trust, make_host, ask_to_load
        self._exchange, self._audit, self._reports = exchange, audit, reports
        self.routes, self.interfaces = exchange.routes, exchange.interfaces
        self.scheduler = exchange.scheduler
        self._modules: dict[str, _Module] = {}
        self._entries: list[ModuleEntry] = []
        self.look_every_s, self._is_behind = 2.0, True
        self._lock = asyncio.Lock()
        self._has_started, self._may_answer = False, asyncio.Event()

    async def wait_started(self, seconds: float) -> bool:
        """Wait at most so long for all to be started; whether they are. `run`'s end ends it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # wait_for may lose a cancel on Python 3.11
                await self._may_answer.wait()
        return self._has_started

    async def refresh(self) -> None:
        """Read folders and approvals for `status`; `run` acts on changes and reports failures."""
        before = self._entries
        with contextlib.suppress(ParachuteError, OSError):
            entries = await asyncio.to_thread(self._trust.entries)
            if self._entries is before:  # else `sync` has read them meanwhile, and perhaps later
                self._entries = entries
                self._reports.publish_changes(entries)

    async def stop(self) -> None:
        self._exchange.events.deliver_to(())
        async with self._lock:
            await self._end(list(self._modules.values()))

    async def run(self) -> None:
        """Start all that may run, run schedules, and follow approvals, until cancelled.
        A module's failure affects no other; where the disk refuses, it tries again.
        """
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._look()
                    self.scheduler.begin_due(group)
                    self._publish_failures()
                    await next_beat(self.look_every_s)
        finally:
            self.scheduler.stop()
            self._may_answer.set()

    async def sync(self, names: Collection[str] | None = None) -> None:
        """Act on the difference between what runs and what may run, of `names` (None: all)."""
        async with self._lock:
            ready = await asyncio.to_thread(self._trust.ready, names)
            self._entries = await asyncio.to_thread(self._trust.entries)
            wanted = {approved.name: approved for approved in ready}
            outdated = [
                module
                for name, module in self._modules.items()
                if (names is None or name in names) and wanted.get(name) != module.approved
            ]
            await self._end(outdated)
            new = [approved for approved in ready if approved.name not in self._modules]
            await self._begin(new)
            self._reports.publish_changes(self._entries)
            self._reports.say(await asyncio.to_thread(lambda: self._trust.problem))
            self._publish_failures()

    async def restart(self, name: str) -> None:
        """Raises NotFoundError where no such module may run."""
        async with self._lock:
            if name not in self._modules:
                raise NotFoundError(
                    f"the module {name} is not enabled and approved; `parachute modules status` "
                    "shows its state"
                )
            await self._end([self._modules[name]])
        await self.sync({name})

    def status(self) -> list[ModuleStatus]:
        return [self._status(entry) for entry in sorted(self._entries, key=lambda one: one.name)]

    def _status(self, entry: ModuleEntry) -> ModuleStatus:
        schedules = [schedule.words() for schedule in self.scheduler.of(entry.name)]
        module = self._modules.get(entry.name)
        if module is None:
            return status_of(entry, schedules=schedules)
        return status_of(
            entry,
            module.host,
            module.failure,
            schedules=schedules,
        )

    def status_of(self, name: str) -> ModuleStatus:
        """Raises NotFoundError."""
        found = next((module for module in self.status() if module.name == name), None)
        if found is None:
            raise NotFoundError(f"there is no module {name}")
        return found

    def declared(self) -> list[ModuleDeclaration]:
        return [host.declared for host in self.hosts()]

    def hosts(self) -> list[ModuleHost]:
        """The modules that run, by name."""
        found = [module.host for module in self._modules.values() if module.host is not None]
        return sorted(found, key=lambda host: host.name)

    def tools(self) -> list[tuple[str, ToolSpec]]:
        return [(host.name, spec) for host in self.hosts() for spec in host.declared.tools]

    async def findings(self, caller: Caller) -> list[ModuleFinding]:
        """What their doctors report, a doctor that fails, and what waits for approval."""
        found = [
            ModuleFinding(
                module=module.name,
                problem="it waits for your approval, and does not run",
                advice=f"`parachute modules approve {module.name}` shows what it may do, and asks",
            )
            for module in self.status()
            if module.status == "unapproved"
        ]

        async def ask(host: ModuleHost) -> list[Finding]:
            try:
                return await host.doctor(caller.fork())
            except ParachuteError as error:
                advice = f"`parachute modules status {host.name}` shows more"
                return [Finding(problem=f"its doctor failed: {error.message}", advice=advice)]

        asked = [host for host in self.hosts() if host.declared.has_doctor]
        answers = await asyncio.gather(*(ask(host) for host in asked))
        for host, findings in zip(asked, answers, strict=True):
            found += [ModuleFinding(module=host.name, **asdict(finding)) for finding in findings]
        return found

    async def call_tool(
        self, module: str, tool: str, arguments: Mapping[str, object], caller: Caller
    ) -> object:
        """Raises NotFoundError where there is no such tool, and what `ModuleHost.call` raises."""
        host, handler = self._handler(module, "tool", tool)
        call = host.call(HandlerCall(handler, arguments, caller))
        if caller.chain.within is None:  # a request, which the API tells of
            return await call
        run = caller.chain.run or ""
        with self._audit.call("agent", run, module, f"tool {tool}", caller) as answer:
            answer.value = await call
        return answer.value

    async def call_command(
        self, module: str, command: str, arguments: Mapping[str, object], caller: Caller
    ) -> object:
        """As `call_tool`, of a command of the command line."""
        host, handler = self._handler(module, "command", command)
        return await host.call(HandlerCall(handler, arguments, caller, COMMAND_LIMIT_S))

    def _handler(
        self, module: str, kind: Literal["tool", "command"], name: str
    ) -> tuple[ModuleHost, str]:
        for host in self.hosts():
            declared = host.declared.tools if kind == "tool" else host.declared.commands
            for spec in declared:
                if (host.name, spec.name) == (module, name):
                    return host, spec.handler
        raise NotFoundError(f"there is no {kind} {name} of a module {module}")

    def approved(self, name: str) -> ApprovedModule | None:
        module = self._modules.get(name)
        return module.approved if module is not None else None

    def trust_of(self, module: str) -> ModuleTrust:
        """One that may not run is not trusted."""
        approved = self.approved(module)
        if approved is None:
            return ModuleTrust(is_trusted=False)
        return ModuleTrust(
            is_trusted=approved.trust != "untrusted", provides=approved.manifest.provides
        )

    def agents_of(self, name: str) -> Mapping[str, AgentConfig]:
        return next((host.declared.agents for host in self.hosts() if host.name == name), {})

    async def ask_interface(self, name: str, method: str) -> object:
        """Ask its provider, on no one's behalf; None while no module provides it."""
        found = self.interfaces.find(name)
        return found and await found[0].call_interface(name, method, (), {}, NO_CALLER)

    async def _begin(self, ready: list[ApprovedModule]) -> None:
        for started_together in start_order(ready):
            async with asyncio.TaskGroup() as group:
                for approved in started_together:
                    module = self._modules[approved.name] = _Module(approved=approved)
                    group.create_task(self._begin_one(module), name=f"begin {approved.name}")

    async def _begin_one(self, module: _Module) -> None:
        name, version = module.approved.name, module.approved.manifest.version
        host: ModuleHost | None = None
        try:
            await self._ask_to_load(module.approved)
            self._exchange.events.declare(module.approved.manifest)
            host = self._make_host(module.approved)
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
            self._exchange.events.withdraw(name)
        else:
            log.info("a module is running", extra={"of": name, "version": version})
            self._reports.began(module.approved)

    def _serve(self, module: _Module, host: ModuleHost) -> None:
        manifest = module.approved.manifest
        self._exchange.add(host, is_trusted=module.approved.trust != "untrusted")
        event_filter = EventFilter.of_module(
            host.name,
            grant_of(manifest.permissions.read),
            has_others=reads_any_note(manifest, module.approved.trust),
        )
        module.host, module.inbox = host, Inbox(host, event_filter)
        module.delivery = asyncio.get_running_loop().create_task(
            module.inbox.run(), name=f"events of {host.name}"
        )
        self._deliver()

    async def _end(self, ending: list[_Module]) -> None:
        """Who uses an interface before who provides it."""
        for module in ending:
            self._modules.pop(module.approved.name, None)
            self._reports.forget(module.approved.name)
        self._deliver()  # nothing new comes to those that are about to end
        named = {module.approved.name: module for module in ending}
        for ended_together in reversed(start_order(module.approved for module in ending)):
            async with asyncio.TaskGroup() as group:
                for approved in ended_together:
                    work = self._end_one(named[approved.name])
                    group.create_task(work, name=f"end {approved.name}")

    async def _end_one(self, module: _Module) -> None:
        host = module.host
        if host is None:
            return
        self._exchange.remove(host)
        if module.delivery is not None:
            module.delivery.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await module.delivery
        try:
            await host.stop()
        except Exception:  # a wall, as for what it begins
            log.exception("a module did not end as it should", extra={"of": host.name})
        self._exchange.events.withdraw(host.name)
        self._reports.ended(module.approved)

    def _deliver(self) -> None:
        modules = self._modules.values()
        self._exchange.events.deliver_to(
            module.inbox for module in modules if module.inbox is not None
        )

    async def _look(self) -> None:
        """Follow modules.yaml. While the disk refuses, what runs goes on."""
        try:
            # before all are compared, so that what changes meanwhile is seen after
            if await asyncio.to_thread(self._trust.look) or self._is_behind:
                await self.sync()
            self._is_behind, self._has_started = False, True
            self._may_answer.set()
        except (ParachuteError, OSError) as error:
            self._is_behind = True
            log.warning("what may run could not be read", extra={"error": str(error)})
            self._reports.say(f"what may run could not be read: {error}")

    def _publish_failures(self) -> None:
        failures = {
            name: (module.approved.manifest.version, module.failure)
            for name, module in self._modules.items()
        }
        self._reports.publish_failures(self._entries, failures)
