"""Composition: the parts of a daemon, built once, room by room, each from just what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from parachuted.access.own_folders import OwnFolders
from parachuted.access.strangers import SessionTaints, Strangers
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.choice import CLOCK_FILE, BackendChoice
from parachuted.agents.job import RunLimits
from parachuted.agents.permission import PermissionRequests
from parachuted.api import RESERVED, KeyAuthenticator
from parachuted.audit.activity import ActivityLog
from parachuted.audit.files import AUDIT_HEAD, AuditFolder, ChainHeadFile, make_machine_name
from parachuted.audit.log import AuditLog, WriteAudit
from parachuted.bubbling import PendingChanges, Reconciler, WatchedTexts, WatchRegistry
from parachuted.config import Settings, listed
from parachuted.context import ContextAssembly, SessionContexts
from parachuted.errors import DaemonError
from parachuted.events.watched_vault import WatchedVault
from parachuted.history import HistoryPruning, Retention, RetentionLimits, Undo
from parachuted.history.acts import ActFinisher
from parachuted.history.retention import KeptTexts
from parachuted.history.run_account import CallRun, RunAccounts
from parachuted.hooks import (
    HookApprovals,
    HookError,
    HookEventListener,
    HookOptions,
    Hooks,
    WriteHooks,
)
from parachuted.keys import KeyFile, KeyRing
from parachuted.mcp.registry import ServerRegistry
from parachuted.mcp.servers import APPROVALS as MCP_APPROVALS
from parachuted.mcp.servers import COMMAND as APPROVE_SERVER
from parachuted.mcp.servers import McpServers
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import AuthorReach, EventPublisher
from parachuted.modules.hosting.exchange import Interfaces, ModuleExchange
from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.manager import ModuleManager, ask_to_load
from parachuted.modules.hosting.module_agents import AgentService, ModuleAgents
from parachuted.modules.hosting.module_containers import ContainerHost, ModuleContainers
from parachuted.modules.hosting.module_context import ModuleContext, ModuleContextSources
from parachuted.modules.hosting.schedules import ModuleScheduler
from parachuted.modules.hosting.system_files import SystemFiles
from parachuted.modules.outside_folders import OutsideAccess
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.prompts import ModulePrompts
from parachuted.processes.memory import trim_memory
from parachuted.runs.agent_briefing import AgentBriefing, AgentTools
from parachuted.runs.agent_hooks import RunHooks, SessionEvents
from parachuted.runs.agent_runner import AgentRunner, RunAdmission, maintenance
from parachuted.runs.curator import Curator, RunRecovery, TaskReviews
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.runs.run import RunParts
from parachuted.runs.run_container import RunContainers
from parachuted.runs.skills import AgentSkills
from parachuted.search import Search
from parachuted.state.elapsed_clock import ElapsedClock, follow_clock
from parachuted.suggestions import Suggestions
from parachuted.tasks import Budget, Causes, Queue, QuietWindow, RunCountLimits, Worker
from parachuted.texts.times import utc_now
from parachuted.vault import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class HookParts:
    """The hooks, and what asks them: before a write, and at each event."""

    hooks: Hooks
    for_writes: WriteHooks
    for_events: HookEventListener


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultParts:
    """The vault's one writer, and what records, finds, takes back and proposes texts."""

    elapsed: ElapsedClock
    audit: AuditLog
    writes: WriteAudit
    store: Store
    search: Search
    strangers: Strangers
    granted: GrantedVaults
    suggestions: Suggestions
    undo: Undo


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParts:
    """From a change to a task: who watches, what they have not seen, when it is their turn."""

    watches: WatchRegistry
    sessions: SessionContexts
    reviews: PendingChanges
    queue: Queue
    watched_texts: WatchedTexts
    reconciler: Reconciler
    texts: KeptTexts
    pruning: HistoryPruning


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What every run of an agent goes through, and the worker that starts the curator's."""

    chosen: BackendChoice
    active_runs: ActiveRuns
    budget: Budget
    permissions: PermissionRequests
    run_parts: RunParts
    worker: Worker
    recovery: RunRecovery


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleParts:
    """The modules, other people's MCP servers, and the agents that can be asked for by name."""

    trust: ModuleApprovals
    prompts: ModulePrompts
    servers: McpServers
    containers: ModuleContainers
    manager: ModuleManager
    agents: AgentService
    sources: ModuleContextSources


def make_elapsed_clock(watched: WatchedVault, chosen: BackendChoice) -> ElapsedClock:
    """The time that limits and budgets count. Raises DaemonError where the home is full."""
    read = None if watched.clock is utc_now else follow_clock(watched.clock)
    elapsed = chosen.elapsed or ElapsedClock(watched.folder / CLOCK_FILE, read)
    try:
        elapsed.keep()
    except OSError as error:
        raise DaemonError(
            f"{watched.home} cannot be written ({error.strerror}); make room there, then start "
            "again"
        ) from error
    return elapsed


def make_authenticator(watched: WatchedVault, latest: Callable[[], datetime]) -> KeyAuthenticator:
    """`latest`: the time for expiry, which no wall clock that is set back makes earlier."""
    ring = KeyRing(KeyFile(watched.home), watched.clock)
    return KeyAuthenticator(ring, watched.settings.auth_mode, watched.token, latest)


def build_hooks(watched: WatchedVault, causes: Causes, env: Mapping[str, str]) -> HookParts:
    """`env`: hooks see a part of it."""
    chosen, vault = watched.settings.hooks, watched.settings.vault

    def publish_error(error: HookError) -> None:
        facts = {"hook": error.hook, "event": error.event, "error": error.message}
        watched.bus.publish("hook.failed", **facts)

    hooks = Hooks(
        home=watched.home,
        vault=vault,
        runs=watched.folder / "hooks.db",
        clock=watched.clock,
        report=watched.problems.set,
        env=env,
        options=HookOptions(**asdict(chosen)),
        on_error=publish_error,
    )
    loop, root_of = asyncio.get_running_loop(), causes.root_of
    return HookParts(
        hooks=hooks,
        for_writes=WriteHooks(hooks, vault=vault, loop=loop, clock=watched.clock, root_of=root_of),
        for_events=HookEventListener(
            watched.bus,
            hooks,
            vault=vault,
            objects=watched.objects,
            root_of=root_of,
            report=watched.problems.set,
        ),
    )


def build_vault(watched: WatchedVault, for_writes: WriteHooks, elapsed: ElapsedClock) -> VaultParts:
    """The store asks hooks before it writes, and the file watcher notices what it wrote."""
    settings, clock, root, bus = watched.settings, watched.clock, watched.root, watched.bus
    detector, index = watched.detector, watched.index
    audit = AuditLog(
        AuditFolder(root, make_machine_name(watched.home)),
        ChainHeadFile(watched.folder / AUDIT_HEAD),
        clock,
        keep_days=settings.audit.keep_days,
        written=watched.written,
        elapsed=elapsed.moment,
    )
    writes = WriteAudit(audit, clock)
    store = Store(
        root,
        watched.objects,
        watched.history,
        clock,
        writes.wrote,
        ask=for_writes.ask,
        is_asked=for_writes.is_asked,
        notice=detector.notice,
    )
    loop = asyncio.get_running_loop()
    search = Search(
        watched.folder / "search.db",
        root,
        index,
        lambda *problem: loop.call_soon_threadsafe(watched.problems.set, *problem),
        caught_up=trim_memory,
        is_noticing=lambda: detector.is_noticing,
    )
    strangers = Strangers(listed(settings.agent.untrusted))
    suggestions = Suggestions(
        store,
        state=watched.state,
        bus=bus,
        audit=audit,
        strangers=strangers,
    )
    return VaultParts(
        elapsed=elapsed,
        audit=audit,
        writes=writes,
        store=store,
        search=search,
        strangers=strangers,
        granted=GrantedVaults(store, index, search, audit, strangers),
        suggestions=suggestions,
        undo=Undo(store, bus),
    )


def build_loop(
    watched: WatchedVault, vault: VaultParts, causes: Causes, *, reviews_at_once: bool
) -> LoopParts:
    """`reviews_at_once`: a review costs nothing, so it need not wait for another."""
    root, index, objects, state = watched.root, watched.index, watched.objects, watched.state
    clock, bubble, keep = watched.clock, watched.settings.bubble, watched.settings.history
    watches = WatchRegistry(state, index, clock)
    reviews = PendingChanges(state)
    window = QuietWindow(quiet_s=bubble.quiet_s, longest_s=bubble.max_wait_s)
    queue = Queue(state, causes, window, watches)
    watched_texts = WatchedTexts(root=root, objects=objects, index=index, watches=watches)
    texts = KeptTexts(index=index, reviews=reviews, suggestions=vault.suggestions, objects=objects)
    retention = Retention(
        history=watched.history,
        objects=objects,
        keep=RetentionLimits(days=keep.keep_days, megabytes=keep.keep_mb),
        clock=vault.elapsed.moment,
    )
    return LoopParts(
        watches=watches,
        sessions=SessionContexts(state, clock),
        reviews=reviews,
        queue=queue,
        watched_texts=watched_texts,
        reconciler=Reconciler(
            watched_texts,
            reviews,
            causes,
            queue,
            state=state,
            bus=watched.bus,
            clock=clock,
            reviews_at_once=reviews_at_once,
        ),
        texts=texts,
        pruning=HistoryPruning(
            retention, wanted=texts.needed, clock=clock, report=watched.problems.set
        ),
    )


def build_agents(
    watched: WatchedVault,
    vault: VaultParts,
    loop: LoopParts,
    hooks: Hooks,
    causes: Causes,
    chosen: BackendChoice,
) -> AgentParts:
    """The curator's runs go the way of all runs."""
    state, index, clock, bus = watched.state, watched.index, watched.clock, watched.bus
    settings, limit = watched.settings, watched.settings.budget
    counts = RunCountLimits(
        runs_per_hour=limit.runs_per_hour,
        runs_per_day=limit.runs_per_day,
        runs_per_cause=limit.runs_per_cause,
    )
    budget = Budget(counts, watched.history, state, vault.elapsed.moment)
    permissions = PermissionRequests(bus, clock, settings.agent.ask_s)
    active_runs = ActiveRuns()
    parts = RunParts(
        backend=chosen.backend,
        model=chosen.model,
        accounts=RunAccounts(watched.history, watched.objects, causes),
        active_runs=active_runs,
        vaults=vault.granted,
        hooks=RunHooks(vault.granted, bus, hooks, causes.root_of),
        sessions=SessionEvents(bus, clock),
        taints=SessionTaints(state, clock),
        suggestions=vault.suggestions,
        permissions=permissions,
        answer_s=settings.conversation.ask_s,
    )
    reviews = TaskReviews(
        state=state, pending=loop.reviews, queue=loop.queue, index=index, clock=clock
    )
    curator = Curator(
        parts=parts,
        watches=loop.watches,
        reviews=reviews,
        undo=vault.undo,
        limits=limits_of_run(settings),
    )
    return AgentParts(
        chosen=chosen,
        active_runs=active_runs,
        budget=budget,
        permissions=permissions,
        run_parts=parts,
        worker=Worker(
            state=state,
            queue=loop.queue,
            budget=budget,
            bus=bus,
            clock=clock,
            perform=curator.perform,
            concurrency=settings.agent.concurrency,
            backend=chosen.backend.name,
        ),
        recovery=RunRecovery(
            reviews=reviews,
            history=watched.history,
            undo=vault.undo,
            acts=ActFinisher(vault.store, index.paths),
        ),
    )


def limits_of_run(settings: Settings) -> RunLimits:
    """Of one run, a conversation's apart."""
    agent = settings.agent
    return RunLimits(
        timeout_s=agent.timeout_s, max_turns=agent.max_turns, max_cost_usd=agent.max_cost_usd
    )


def most_cost_usd(settings: Settings, chosen: BackendChoice) -> float:
    return 0.0 if chosen.backend.name == "offline" else settings.agent.max_cost_usd


def build_modules(
    watched: WatchedVault,
    vault: VaultParts,
    loop: LoopParts,
    agents: AgentParts,
    hooks: Hooks,
    authenticator: KeyAuthenticator,
    latest: Callable[[], datetime],
    env: Mapping[str, str],
) -> ModuleParts:
    """Modules, other people's MCP servers and agents. git and pip see a part of `env`."""
    home, folder, user_home = watched.home, watched.settings.vault, Path.home()
    sandboxes = agents.chosen.sandboxes
    trust = ModuleApprovals(home, folder, env=env, reserved=RESERVED)
    prompts = ModulePrompts(home)
    servers = McpServers(
        ServerRegistry(watched.root, home),
        HookApprovals(home, MCP_APPROVALS, APPROVE_SERVER),
        sandboxes,
        vault=folder,
        home=home,
        env=env,
    )
    secret = (home, folder, user_home)
    containers = ModuleContainers(
        home / "run/containers", secret, sandboxes, authenticator.ring, latest
    )
    make_run = partial(CallRun, vault.store)

    def make_host(approved: ApprovedModule) -> ModuleHost:
        services = ModuleContext(approved, sources)
        if approved.trust != "untrusted":
            return InProcessHost(approved, services, make_run, services.close)
        return ContainerHost(approved, services, make_run, services.close, containers)

    reach = AuthorReach(authenticator.ring.identity, authenticator.holds, agents.active_runs)
    audit = ModuleAudit(vault.audit, watched.clock)
    exchange = _make_exchange(watched, audit, reach)
    manager = ModuleManager(
        trust,
        make_host,
        partial(ask_to_load, hooks, folder, watched.clock),
        exchange,
        audit,
        watched.bus,
        watched.problems,
    )
    helper = maintenance(lambda taint: SystemFiles(home, folder, taint).tools())
    core_agents = {helper.name: helper}
    contexts = ContextAssembly(watched.index, loop.watches.watched_by, vault.strangers)
    own_folders = OwnFolders(listed(watched.settings.agent.own_folders), user_home)
    tools = AgentTools(manager, servers)
    runner = _make_runner(watched, vault, agents, tools, contexts, own_folders)

    def agents_of(approved: ApprovedModule) -> ModuleAgents:
        return ModuleAgents(
            runner, approved, declared=manager.agents_of, prompts=prompts, core=core_agents
        )

    sources = ModuleContextSources(
        vaults=vault.granted,
        folder=watched.folder,
        outside=OutsideAccess(user_home=user_home, excluded=(home, folder), own=own_folders),
        agents_of=agents_of,
        suggestions=vault.suggestions,
        exchange=exchange,
        activity=ActivityLog(watched.root, watched.clock),
    )
    return ModuleParts(
        trust=trust,
        prompts=prompts,
        servers=servers,
        containers=containers,
        manager=manager,
        agents=AgentService(runner, manager.approved_modules, agents_of, core_agents),
        sources=sources,
    )


def _make_exchange(watched: WatchedVault, audit: ModuleAudit, reach: AuthorReach) -> ModuleExchange:
    return ModuleExchange(
        EventPublisher(watched.bus, audit, reach),
        Interfaces(audit),
        ModuleScheduler(watched.clock, watched.state, audit),
    )


def _make_runner(
    watched: WatchedVault,
    vault: VaultParts,
    agents: AgentParts,
    tools: AgentTools,
    contexts: ContextAssembly,
    own_folders: OwnFolders,
) -> AgentRunner:
    """What runs the agents of modules and conversations. Without a sandbox none has a shell."""
    user_home, settings, talk = Path.home(), watched.settings, watched.settings.conversation
    containers = RunContainers(
        sandboxes=agents.chosen.sandboxes,
        store=vault.store,
        index=watched.index,
        user_home=user_home,
        private=(watched.home,),
        own_folders=own_folders,
    )
    admission = RunAdmission(
        budget=agents.budget,
        is_paused=lambda: agents.worker.paused,
        limits=limits_of_run(settings),
        conversation_limits=RunLimits(
            timeout_s=talk.timeout_s, max_turns=talk.max_turns, max_cost_usd=talk.max_cost_usd
        ),
        runs=asyncio.Semaphore(settings.agent.concurrency),
        turns=asyncio.Semaphore(talk.concurrency),
    )
    briefing = AgentBriefing(AgentSkills(watched.root, user_home, vault.strangers), tools, contexts)
    return AgentRunner(agents.run_parts, admission, briefing, containers)
