"""Extensions: what a person adds to the daemon, put together: hooks that hear and may object, and
modules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from parachuted.access.origins import Origins
from parachuted.access.session_taint import SessionTaints
from parachuted.agents import Backend, RunLimits
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.permission import PermissionRequests
from parachuted.audit.events import AuditRecorder
from parachuted.events import Bus, Event, Problems
from parachuted.hooks import (
    HookApprovals,
    HookError,
    HookEventListener,
    HookRunner,
    HookRunRecorder,
    Hooks,
    WriteHooks,
)
from parachuted.modules.agent_service import AgentService
from parachuted.modules.hosting.cgroup import Cgroups
from parachuted.modules.hosting.isolation import IsolationFactory, Sandbox
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.module_context import ModuleContextSources, make_services
from parachuted.modules.hosting.module_host import ModuleHost
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.hosting.system_files import SystemFiles
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.prompts import ModulePrompts
from parachuted.modules.services import Services
from parachuted.runs.agent_parts import AgentParts, ModuleTrust, SandboxProvider
from parachuted.runs.bounded_vault import VaultParts
from parachuted.runs.maintenance import NAME, maintenance
from parachuted.state import StateStore
from parachuted.suggestions import Suggestions
from parachuted.tasks import Budget, Causes
from parachuted.vault import History, ObjectStore, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What both stand on.

    `folder` is where what is derived from this vault is kept; `user_home` is the person's, `home`
    the daemon's.
    """

    home: Path
    vault: Path
    folder: Path
    user_home: Path
    env: Mapping[str, str]
    clock: Callable[[], datetime]
    bus: Bus
    problems: Problems
    causes: Causes
    objects: ObjectStore

    def root_of(self, cause: str) -> str | None:
        """The file that a cause began with."""
        found = self.causes.get(cause)
        return printable(found.path) if found is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookParts:
    """The hooks, what asks them before the vault is written, and what tells them of the bus."""

    hooks: Hooks
    runner: HookRunner
    writes: WriteHooks
    listening: HookEventListener

    async def close(self) -> None:
        """Stop all hooks."""
        self.listening.close()
        await self.hooks.close()
        await self.runner.close()


def make_hooks(
    ground: Ground, *, concurrency: int, fails_closed: bool, must_approve: bool
) -> HookParts:
    """The hooks of that home. Call it on the event loop."""

    def failed(error: HookError) -> None:
        ground.bus.publish("hook.failed", hook=error.hook, event=error.event, error=error.message)

    runner = HookRunner(concurrency)
    hooks = Hooks(
        home=ground.home,
        vault=ground.vault,
        runner=runner,
        approvals=HookApprovals(ground.home),
        recorder=HookRunRecorder(ground.folder / "hooks"),
        clock=ground.clock,
        report=ground.problems.set,
        env=ground.env,
        fails_closed=fails_closed,
        must_approve=must_approve,
        on_error=failed,
    )
    loop = asyncio.get_running_loop()
    writes = WriteHooks(
        hooks, vault=ground.vault, loop=loop, clock=ground.clock, root_of=ground.root_of
    )
    listening = HookEventListener(
        ground.bus,
        hooks,
        vault=ground.vault,
        objects=ground.objects,
        root_of=ground.root_of,
        report=ground.problems.set,
    )
    return HookParts(hooks=hooks, runner=runner, writes=writes, listening=listening)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGround:
    """With what modules' agents work."""

    backend: Backend
    model: str | None
    limits: RunLimits
    budget: Budget
    history: History
    audit: AuditRecorder
    is_paused: Callable[[], bool]
    concurrency: int
    at_work: ActiveRuns
    taints: SessionTaints
    boxes: SandboxProvider | None = None
    origins: Origins | None = None
    suggestions: Suggestions | None = None
    permissions: PermissionRequests | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleParts:
    """Which modules may run, those that do, what holds those that nobody trusts, and where a person
    asks for an agent.
    """

    trust: ModuleApprovals
    modules: ModuleManager
    cages: IsolationFactory
    agents: AgentService


def make_modules(
    ground: Ground,
    hooks: Hooks,
    vault: VaultParts,
    agents: AgentGround,
    state: StateStore,
    *,
    sandbox: Sandbox,
    preferred: Mapping[str, str],
    reserved: frozenset[str],
) -> ModuleParts:
    """The modules of that vault. `reserved` are the core's own words below /api."""
    trust = ModuleApprovals(ground.home, ground.vault, env=ground.env, reserved=reserved)
    secret = (ground.home, ground.vault, ground.user_home)
    cages = IsolationFactory(
        sandbox=sandbox,
        run=ground.home / "run" / "modules",
        secret=secret,
        env=ground.env,
        cgroups=Cgroups.find(),
    )

    def services_for(approved: ApprovedModule) -> Services:
        return make_services(approved, sources)  # which are made of the modules themselves, below

    def worker_for(approved: ApprovedModule, services: Services) -> RunningModule:
        return ModuleHost(approved, services, cages)

    modules = ModuleManager(
        trust=trust,
        make_services=services_for,
        start_worker=worker_for,
        bus=ground.bus,
        asker=hooks,
        vault=ground.vault,
        clock=ground.clock,
        report=ground.problems.set,
        preferred=preferred,
        audit=agents.audit,
        state=state,
        origins=agents.origins,
    )
    agent_parts = AgentParts(
        backend=agents.backend,
        model=agents.model,
        limits=agents.limits,
        budget=agents.budget,
        history=agents.history,
        objects=ground.objects,
        causes=ground.causes,
        bus=ground.bus,
        clock=ground.clock,
        user_home=ground.user_home,
        audit=agents.audit,
        asker=hooks,
        is_paused=agents.is_paused,
        room=asyncio.Semaphore(agents.concurrency),
        tools=modules.tools,
        call_tool=modules.call_tool,
        standing=lambda name: _standing(modules.approved(name)),
        declared=modules.agents_of,
        said=ModulePrompts(ground.home).get,
        at_work=agents.at_work,
        taints=agents.taints,
        boxes=agents.boxes,
        origins=agents.origins,
        suggestions=agents.suggestions,
        permissions=agents.permissions,
    )
    sources = ModuleContextSources(
        vault=vault,
        agents=agent_parts,
        state=ground.folder / "modules",
        clock=ground.clock,
        publish=modules.publish,
        wrote=modules.wrote,
        interface=modules.interface,
    )

    ground.bus.listen(lambda event: _end_runs(event, agents.at_work))
    core = {NAME: maintenance(SystemFiles(ground.home, ground.vault).tools)}
    return ModuleParts(
        trust=trust,
        modules=modules,
        cages=cages,
        agents=AgentService(agent_parts, vault, modules.approved, core),
    )


def _standing(approved: ApprovedModule | None) -> ModuleTrust:
    return (
        ModuleTrust(is_trusted=False)
        if approved is None
        else ModuleTrust(
            is_trusted=approved.trust != "untrusted", provides=approved.manifest.provides
        )
    )


def _end_runs(event: Event, at_work: ActiveRuns) -> None:
    """A module that serves no more has no agents at work: it was switched off, or what it may was
    changed.
    """
    if event.event == "module.disabled":
        name = event.data["name"]
        at_work.end(
            f"the module {name} was switched off or changed", lambda working: working.module == name
        )
