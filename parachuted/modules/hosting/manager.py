"""Keeps the running modules in line with those that may run: it compares the two and acts on the
difference, so an approval, an edit of modules.yaml and a restart are the same act.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from parachuted.access.agent_config import AgentConfig
from parachuted.access.caller import NO_CALLER, Caller
from parachuted.access.events import EventFilter
from parachuted.access.grant import grant_of
from parachuted.errors import ActRefusedError, NotFoundError, ParachuteError
from parachuted.events import Bus, Problems
from parachuted.hooks import HookEvent, Hooks
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import Inbox
from parachuted.modules.hosting.exchange import ModuleExchange
from parachuted.modules.hosting.host import COMMAND_LIMIT_S, HandlerCall, ModuleHost
from parachuted.modules.hosting.status import ModuleFinding, ModuleStatus, status_of
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule, ModuleEntry, reads_any_note
from parachuted.modules.registry.declaration import ToolSpec
from parachuted.modules.results import Finding
from parachuted.processes.beat import next_beat
from parachuted.runs.agent_tools import ModuleTrust

log = logging.getLogger(__name__)

_BEFORE_LOAD = "module.load.before"
_SLOW = "it handles events more slowly than they come, so some were dropped"
_CHANGED = (
    "its folder is not what was approved; `parachute modules diff {0}` shows how, "
    "`parachute modules approve {0}` takes it"
)


@dataclass(slots=True, kw_only=True, eq=False)
class _Module:
    """One module that may run. `problem` is why it could not start, which leaves `host` None;
    `reported` is the failure that was published last.
    """

    approved: ApprovedModule
    host: ModuleHost | None = None
    inbox: Inbox | None = None
    delivery: asyncio.Task[None] | None = None
    problem: str | None = None
    reported: str | None = None

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
        bus: Bus,
        problems: Problems,
    ) -> None:
        self._trust, self._make_host, self._ask_to_load = trust, make_host, ask_to_load
        self._exchange, self._audit, self._bus, self._problems = exchange, audit, bus, problems
        self.routes, self.interfaces = exchange.routes, exchange.interfaces
        self.scheduler = exchange.scheduler
        self._modules: dict[str, _Module] = {}
        self._entries: list[ModuleEntry] = []
        self._changed: dict[str, str | None] = {}
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
                self._report()

    async def stop(self) -> None:
        async with self._lock:
            await self._end([module.approved for module in self._modules.values()])

    async def run(self) -> None:
        """Start all that may run, run schedules, and follow approvals, until cancelled.
        A module's failure affects no other; where the disk refuses, it tries again.
        """
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._look()
                    self.scheduler.begin_due(group)
                    self._report()
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
            await self._end(
                [
                    module.approved
                    for name, module in self._modules.items()
                    if (names is None or name in names) and wanted.get(name) != module.approved
                ]
            )
            new = [approved for approved in ready if approved.name not in self._modules]
            for group in start_order(new):
                await asyncio.gather(*map(self._begin_one, group))
            self._problems.set("modules", await asyncio.to_thread(lambda: self._trust.problem))
            self._report()

    async def restart(self, name: str) -> None:
        """Raises NotFoundError where no such module may run."""
        async with self._lock:
            if name not in self._modules:
                raise NotFoundError(
                    f"the module {name} is not enabled and approved; `parachute modules status` "
                    "shows its state"
                )
            await self._end([self._modules[name].approved])
        await self.sync({name})

    def status(self) -> list[ModuleStatus]:
        return [self._status(entry) for entry in self._entries]

    def _status(self, entry: ModuleEntry) -> ModuleStatus:
        module = self._modules.get(entry.name)
        schedules = [schedule.words() for schedule in self.scheduler.of(entry.name)]
        if module is None:
            return status_of(entry)
        return status_of(entry, module.host, module.failure, schedules=schedules)

    def status_of(self, name: str) -> ModuleStatus:
        """Raises NotFoundError."""
        for entry in self._entries:
            if entry.name == name:
                return self._status(entry)
        raise NotFoundError(f"there is no module {name}")

    def hosts(self) -> list[ModuleHost]:
        """The modules that run, by name."""
        modules = (self._modules[name] for name in sorted(self._modules))
        return [module.host for module in modules if module.host is not None]

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

        async def ask(host: ModuleHost) -> list[ModuleFinding]:
            try:
                findings = await host.doctor(caller.fork())
            except ParachuteError as error:
                findings = [Finding(problem=f"its doctor failed: {error.message}")]
            return [ModuleFinding(module=host.name, **asdict(finding)) for finding in findings]

        asked = [ask(host) for host in self.hosts() if host.declared.has_doctor]
        return [*found, *(each for findings in await asyncio.gather(*asked) for each in findings)]

    async def call_tool(
        self, module: str, tool: str, arguments: Mapping[str, object], caller: Caller
    ) -> object:
        """Raises NotFoundError where there is no such tool, and what `ModuleHost.call` raises."""
        host, handler = self._handler(module, "tools", tool)
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
        host, handler = self._handler(module, "commands", command)
        return await host.call(HandlerCall(handler, arguments, caller, COMMAND_LIMIT_S))

    def _handler(
        self, module: str, kind: Literal["tools", "commands"], name: str
    ) -> tuple[ModuleHost, str]:
        for host in self.hosts():
            specs = host.declared.tools if kind == "tools" else host.declared.commands
            for spec in specs if host.name == module else ():
                if spec.name == name:
                    return host, spec.handler
        raise NotFoundError(f"the module {module} has no {name} among its {kind}")

    def approved_modules(self) -> list[ApprovedModule]:
        return [module.approved for module in self._modules.values()]

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

    async def _begin_one(self, approved: ApprovedModule) -> None:
        name, version, host = approved.name, approved.manifest.version, None
        module = self._modules[name] = _Module(approved=approved)
        try:
            await self._ask_to_load(approved)
            self._exchange.events.declare(approved.manifest)
            host = self._make_host(approved)
            await host.start()
            self._exchange.add(host, is_trusted=approved.trust != "untrusted")
        except Exception as error:  # a module's callback: nothing of it ends the others
            module.problem = (host and host.problem) or str(error) or type(error).__name__
            log.warning(
                "a module could not begin",
                extra={"of": name, "error": str(error)},
                exc_info=not isinstance(error, ParachuteError),
            )
            await self._leave(name, host)
            return
        reads = grant_of(approved.manifest.permissions.read)
        has_others = reads_any_note(approved.manifest, approved.trust)
        module.host = host
        module.inbox = Inbox(host, EventFilter.of_module(name, reads, has_others=has_others))
        module.delivery = asyncio.get_running_loop().create_task(module.inbox.run())
        self._exchange.events.inboxes[name] = module.inbox
        log.info("a module is running", extra={"of": name, "version": version})
        self._bus.publish("module.enabled", name=name, version=version, hash=approved.digest)

    async def _leave(self, name: str, host: ModuleHost | None) -> None:
        """End what it does, then forget what it offered."""
        self._exchange.remove(name)
        if host is not None:
            try:
                await host.stop()
            except Exception:  # a wall, as for what it begins
                log.exception("a module did not end as it should", extra={"of": name})
        self._exchange.scheduler.remove(name)  # what it set while it ended
        self._exchange.events.withdraw(name)

    async def _end(self, ending: Iterable[ApprovedModule]) -> None:
        """Who uses an interface before who provides it."""
        for group in reversed(start_order(ending)):
            await asyncio.gather(*map(self._end_one, group))

    async def _end_one(self, approved: ApprovedModule) -> None:
        name, module = approved.name, self._modules.pop(approved.name)
        self._exchange.events.inboxes.pop(name, None)
        if module.host is None or module.delivery is None:
            return
        module.delivery.cancel()
        await asyncio.wait([module.delivery])
        await self._leave(name, module.host)
        self._bus.publish("module.disabled", name=name, version=approved.manifest.version)

    async def _look(self) -> None:
        """Follow modules.yaml. While the disk refuses, what runs goes on."""
        try:
            # before all are compared, so that what changes meanwhile is seen after
            if self._trust.look() or self._is_behind:
                await self.sync()
            self._is_behind, self._has_started = False, True
            self._may_answer.set()
        except (ParachuteError, OSError) as error:
            self._is_behind = True
            log.warning("what may run could not be read", extra={"error": str(error)})
            self._problems.set("modules", f"what may run could not be read: {error}")

    def _report(self) -> None:
        """Publish each new failure and change, and list what is wrong until it is gone."""
        changed = {it.name: it.found_digest for it in self._entries if it.state == "changed"}
        for name, digest in changed.items():
            if self._changed.get(name) != digest:
                self._bus.publish("module.changed", name=name, hash=digest)
        self._changed = changed
        problems = {name: _CHANGED.format(name) for name in changed}
        for entry in self._entries:
            if entry.record.enabled and entry.problem is not None:
                problems[entry.name] = _last_line(entry.problem)
        for name, module in self._modules.items():
            failure = module.failure
            if failure is not None:
                problems[name] = _last_line(failure)
                if failure != module.reported:
                    version = module.approved.manifest.version
                    self._bus.publish(
                        "module.failed", name=name, version=version, error=problems[name]
                    )
            module.reported = failure
        self._problems.replace("module:", problems)


def start_order(modules: Iterable[ApprovedModule]) -> list[list[ApprovedModule]]:
    """Groups, each to start at once: who uses an interface after who provides it, cycles last."""
    left, groups = list(modules), list[list[ApprovedModule]]()
    while left:
        provided = {each.name: set(each.manifest.provides) for each in left}
        group = [
            module
            for module in left
            if all(
                provides.isdisjoint(module.manifest.optional_requires)
                for name, provides in provided.items()
                if name != module.name
            )
        ]
        groups.append(group or left)
        left = [module for module in left if module not in groups[-1]]
    return groups


def _last_line(problem: str) -> str:
    return problem.strip().splitlines()[-1][:300] if problem.strip() else "it failed"
