"""Composition: every part of a daemon, built once, each from just what it needs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path

from parachuted.access.origin import SessionTaints
from parachuted.access.origins import Origins
from parachuted.access.own_folders import OwnFolders
from parachuted.agent_choice import CLOCK_FILE, BackendChoice
from parachuted.agents import RunLimits
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.permission import PermissionRequests
from parachuted.api import RESERVED, KeyAuthenticator
from parachuted.audit.activity import ActivityLog
from parachuted.audit.files import AUDIT_HEAD, AuditFolder, ChainHeadFile, make_machine_name
from parachuted.audit.log import AuditLog, WriteAudit
from parachuted.bubbling import BaselineTexts, PendingChanges, Reconciler, WatchRegistry
from parachuted.change_followers import ChangeFollowers
from parachuted.config import Settings, listed, paired
from parachuted.context import ContextAssembly, SessionContexts
from parachuted.errors import DaemonError
from parachuted.heavy import load_heavy_here
from parachuted.history import HistoryPruning, Restore, Retention, RetentionLimits, Undo
from parachuted.history.acts import ActFinisher
from parachuted.history.run_account import CallRun, RunAccounts
from parachuted.hooks import (
    HookApprovals,
    HookError,
    HookEventListener,
    HookRunner,
    HookRunRecorder,
    Hooks,
    WriteHooks,
)
from parachuted.keys import KeyFile, KeyRing
from parachuted.mcp_client import McpServers, ServerRegistry
from parachuted.mcp_client.approved import APPROVALS as MCP_APPROVALS
from parachuted.mcp_client.approved import COMMAND as APPROVE_SERVER
from parachuted.modules.agent_service import AgentService
from parachuted.modules.hosting.event_publisher import AuthorReach
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.modules.hosting.module_clients import ModuleClients
from parachuted.modules.hosting.module_containers import ModuleContainers
from parachuted.modules.hosting.module_context import ModuleContext, ModuleContextSources
from parachuted.modules.hosting.module_state import MODULE_DATA, MODULE_SCHEDULES, MODULE_STATE
from parachuted.modules.hosting.set_schedules import SetSchedules
from parachuted.modules.hosting.system_files import SystemFiles
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.prompts import ModulePrompts
from parachuted.processes.memory import trim_memory
from parachuted.runs import (
    Curator,
    CuratorBriefing,
    CuratorSessions,
    RunHooks,
    RunLifecycle,
    RunRecovery,
    TaskReviews,
)
from parachuted.runs.agent_runner import AgentRunner, RunAdmission, maintenance
from parachuted.runs.agent_sandboxes import AgentSandboxes
from parachuted.runs.bounded_vault import BoundedVaults
from parachuted.runs.run_guard import RunGuards
from parachuted.runs.skills import AgentSkills
from parachuted.search import Search
from parachuted.state.elapsed_clock import ElapsedClock, follow_clock
from parachuted.suggestions import Suggestions
from parachuted.suggestions.approval_listener import ApprovalListener
from parachuted.tasks import Budget, Causes, Queue, QuietWindow, RunCountLimits, Worker
from parachuted.times import utc_now
from parachuted.tools import Migration
from parachuted.upkeep import KeptTexts
from parachuted.vault import Store
from parachuted.watched_vault import WatchedVault


class Composition:
    """The parts of one vault's daemon, in the order in which each needs those before it."""

    def __init__(
        self,
        settings: Settings,
        home: Path,
        chosen: BackendChoice,
        *,
        clock: Callable[[], datetime] = utc_now,
        env: Mapping[str, str] | None = None,
        watched: WatchedVault | None = None,
    ) -> None:
        """Call it on the event loop. Raises DaemonError when another daemon has the home or the
        vault.

        Hooks, git and pip see a part of `env`. `watched` is the vault where it is open already.
        """
        self.settings, self.home, self.chosen = settings, home, chosen
        self.env, self.user_home = os.environ if env is None else env, Path.home()
        self.own_folders = OwnFolders(listed(settings.agent.own_folders), self.user_home)
        vault = self.vault = watched or WatchedVault(settings, home, clock=clock)
        self.clock, self.bus, self.problems = vault.clock, vault.bus, vault.problems
        self.root, self.state, self.objects = vault.root, vault.state, vault.objects
        self.index, self.history, self.detector = vault.index, vault.history, vault.detector
        self.at_work, self.gateway = ActiveRuns(), chosen.gateway
        if self.gateway is not None:
            self.gateway.report_to(self.problems.set)
        self._build_time_and_audit()
        self._build_hooks_and_store()
        self._build_loop()
        self._build_past()
        self._build_runs()
        self._build_curator()
        self.authenticator = KeyAuthenticator(
            KeyRing(KeyFile(home), self.clock), settings.auth_mode, vault.token, self.latest
        )
        self.authenticator.subscribe(self.at_work.recheck)
        self._build_modules()
        self._build_agents()
        self.followers = ChangeFollowers(
            origins=self.origins,
            reconciler=self.reconciler,
            writes=self.writes,
            indexer=self.search.indexer,
            hooks=self.hook_events,
            bus=self.bus,
            is_first_contact=vault.is_first_contact,
        )

    @property
    def port(self) -> int:
        """The port of the API; 0 before it is open."""
        return self.vault.port

    @property
    def tls_port(self) -> int:
        """The port that is served encrypted; 0 where none is."""
        return self.vault.tls_port

    @property
    def most_cost_usd(self) -> float:
        return 0.0 if self.chosen.backend.name == "offline" else self.settings.agent.max_cost_usd

    def latest(self) -> datetime:
        """The time for expiry: an expired key stays expired when the wall clock is set back."""
        return max(self.clock(), self.elapsed.moment())

    def _build_time_and_audit(self) -> None:
        vault, folder = self.vault, self.vault.folder
        read = None if self.clock is utc_now else follow_clock(self.clock)
        self.elapsed = self.chosen.elapsed or ElapsedClock(folder / CLOCK_FILE, read)
        try:
            self.elapsed.keep()
        except OSError as error:
            raise DaemonError(
                f"{self.home} cannot be written ({error.strerror}); make room there, then start "
                "again"
            ) from error
        self.audit = AuditLog(
            AuditFolder(self.root, make_machine_name(self.home)),
            ChainHeadFile(folder / AUDIT_HEAD),
            self.clock,
            keep_days=self.settings.audit.keep_days,
            written=vault.written,
            elapsed=self.elapsed.moment,
        )
        self.writes = WriteAudit(self.audit, self.clock)

    def _build_hooks_and_store(self) -> None:
        """The store asks hooks before it writes, and the file watcher notices what it wrote."""
        chosen, folder = self.settings.hooks, self.settings.vault
        self.causes = Causes(self.state)
        self.hooks = Hooks(
            home=self.home,
            vault=folder,
            runner=HookRunner(chosen.concurrency),
            approvals=HookApprovals(self.home),
            recorder=HookRunRecorder(self.vault.folder / "hooks"),
            clock=self.clock,
            report=self.problems.set,
            env=self.env,
            fails_closed=chosen.fails_closed,
            must_approve=chosen.must_approve,
            on_error=self._publish_hook_error,
        )
        loop, root_of = asyncio.get_running_loop(), self.causes.root_of
        self.write_hooks = WriteHooks(
            self.hooks, vault=folder, loop=loop, clock=self.clock, root_of=root_of
        )
        self.hook_events = HookEventListener(
            self.bus,
            self.hooks,
            vault=folder,
            objects=self.objects,
            root_of=root_of,
            report=self.problems.set,
        )
        self.store = Store(
            self.root,
            self.objects,
            self.history,
            self.clock,
            self.writes.wrote,
            ask=self.write_hooks.ask,
            is_asked=self.write_hooks.is_asked,
            notice=self.detector.notice,
        )

    def _publish_hook_error(self, error: HookError) -> None:
        self.bus.publish("hook.failed", hook=error.hook, event=error.event, error=error.message)

    def _build_loop(self) -> None:
        """From a change to a task: who watches, what they have not seen, when it is their turn."""
        loop = asyncio.get_running_loop()
        self.search = Search(
            self.vault.folder / "search.db",
            self.root,
            self.index,
            lambda *said: loop.call_soon_threadsafe(self.problems.set, *said),
            caught_up=trim_memory,
            is_noticing=lambda: self.detector.is_noticing,
        )
        bubble = self.settings.bubble
        self.origins = Origins(self.state, listed(self.settings.agent.untrusted), self.index)
        self.watches = WatchRegistry(self.state, self.index, self.clock)
        self.sessions = SessionContexts(self.state, self.index, self.clock)
        self.reviews = PendingChanges(self.state)
        window = QuietWindow(quiet_s=bubble.quiet_s, longest_s=bubble.max_wait_s)
        self.queue = Queue(self.state, self.causes, window, self.watches)
        self.baselines = BaselineTexts(
            root=self.root, objects=self.objects, index=self.index, watches=self.watches
        )
        self.reconciler = Reconciler(
            root=self.root,
            baselines=self.baselines,
            objects=self.objects,
            index=self.index,
            state=self.state,
            watches=self.watches,
            reviews=self.reviews,
            causes=self.causes,
            queue=self.queue,
            bus=self.bus,
            clock=self.clock,
            looks_at_once=self.chosen.backend.name == "offline",
            listing=self.search.list_when_current,
        )

    def _build_past(self) -> None:
        """What brings back earlier texts, what is proposed instead of written, what is kept."""
        keep = self.settings.history
        self.undo = Undo(self.store, self.bus)
        self.restore = Restore(self.store, stood_at=self.reconciler.stood_at)
        self.migration = Migration(
            store=self.store,
            index=self.index,
            sessions=self.sessions,
            bus=self.bus,
            origins=self.origins,
        )
        self.suggestions = Suggestions(
            self.store,
            state=self.state,
            home=self.home,
            bus=self.bus,
            audit=self.audit,
            origins=self.origins,
            auto_approve_rate=self.settings.suggestions.auto_approve_rate / 100,
        )
        self.approvals = ApprovalListener(self.suggestions, self.root, self.bus)
        self.texts = KeptTexts(
            index=self.index,
            reviews=self.reviews,
            suggestions=self.suggestions,
            objects=self.objects,
        )
        retention = Retention(
            history=self.history,
            objects=self.objects,
            keep=RetentionLimits(days=keep.keep_days, megabytes=keep.keep_mb),
            clock=self.elapsed.moment,
        )
        self.pruning = HistoryPruning(
            retention, wanted=self.texts.needed, clock=self.clock, report=self.problems.set
        )

    def _build_runs(self) -> None:
        """What every run of an agent goes through."""
        agent, budget = self.settings.agent, self.settings.budget
        self.limits = RunLimits(
            timeout_s=agent.timeout_s, max_turns=agent.max_turns, max_cost_usd=agent.max_cost_usd
        )
        counts = RunCountLimits(
            runs_per_hour=budget.runs_per_hour,
            runs_per_day=budget.runs_per_day,
            runs_per_cause=budget.runs_per_cause,
        )
        self.budget = Budget(counts, self.history, self.state, self.elapsed.moment)
        self.taints = SessionTaints(self.state, self.clock)
        self.permissions = PermissionRequests(
            self.bus, self.clock, agent.ask_s, never=self.state.table("permissions")
        )
        self.run_hooks = RunHooks(self.store, self.bus, self.hooks, self.origins)
        self.lifecycle = RunLifecycle(
            backend=self.chosen.backend,
            model=self.chosen.model,
            accounts=RunAccounts(self.history, self.objects, self.causes),
            active_runs=self.at_work,
            bus=self.bus,
            clock=self.clock,
            audit=self.audit,
        )

    def _build_curator(self) -> None:
        """The curator's runs, and the worker that starts them."""
        task_reviews = TaskReviews(
            state=self.state,
            pending=self.reviews,
            queue=self.queue,
            index=self.index,
            clock=self.clock,
        )
        curator_sessions = CuratorSessions(self.state, self.taints, self.chosen.backend.name)
        self.curator = Curator(
            store=self.store,
            lifecycle=self.lifecycle,
            briefing=CuratorBriefing(
                store=self.store,
                index=self.index,
                watches=self.watches,
                lifecycle=self.lifecycle,
                sessions=curator_sessions,
                limits=self.limits,
                origins=self.origins,
            ),
            reviews=task_reviews,
            sessions=curator_sessions,
            hooks=self.run_hooks,
            causes=self.causes,
            undo=self.undo,
        )
        self.recovery = RunRecovery(
            queue=self.queue,
            reviews=task_reviews,
            history=self.history,
            undo=self.undo,
            acts=ActFinisher(self.store, self.origins, self.index.paths),
            clock=self.clock,
        )
        self.worker = Worker(
            state=self.state,
            queue=self.queue,
            budget=self.budget,
            bus=self.bus,
            clock=self.clock,
            perform=self.curator.perform,
            concurrency=self.settings.agent.concurrency,
            backend=self.chosen.backend.name,
        )

    def _build_modules(self) -> None:
        """The modules and other people's MCP servers, in containers alike."""
        home, folder, chosen = self.home, self.settings.vault, self.settings.modules
        self.trust = ModuleApprovals(home, folder, env=self.env, reserved=RESERVED)
        self.prompts = ModulePrompts(home)
        self.mcp_servers = McpServers(
            ServerRegistry(self.root, home),
            HookApprovals(home, MCP_APPROVALS, APPROVE_SERVER),
            self.chosen.sandboxes,
            vault=folder,
            home=home,
            env=self.env,
        )
        clients = ModuleClients(self.authenticator.ring, self.latest)
        secret, place = (home, folder, self.user_home), home / "run/containers"
        self.containers = ModuleContainers(place, secret, self.chosen.sandboxes, clients)
        self.modules = ModuleManager(
            trust=self.trust,
            make_services=lambda approved: ModuleContext(approved, self._module_sources),
            start_worker=lambda *module: load_heavy_here("containers").ContainerHost(
                *module, self.containers
            ),
            bus=self.bus,
            asker=self.hooks,
            vault=folder,
            clock=self.clock,
            report=self.problems.set,
            preferred=paired(chosen.providers),
            audit=self.audit,
            state=self.state,
            origins=self.origins,
            set_schedules=SetSchedules(self.vault.folder / MODULE_SCHEDULES),
            make_run=partial(CallRun, self.store),
            author_reach=AuthorReach(
                self.authenticator.ring.identity, self.authenticator.holds, self.at_work
            ),
        )

    def _build_agents(self) -> None:
        """The agents that can be asked for, and what modules reach of the daemon, these too."""
        vaults = BoundedVaults(self.store, self.index, self.search, self.audit)
        self.contexts = ContextAssembly(self.index, self.watches.watched_by, self.origins)
        helper = maintenance(SystemFiles(self.home, self.settings.vault).tools)
        self.core_agents = {helper.name: helper}
        runner = self._make_agent_runner(vaults)
        self.agents = AgentService(runner, self.modules.approved, self._agents_of, self.core_agents)
        self._module_sources = ModuleContextSources(
            vaults=vaults,
            user_home=self.user_home,
            kept_out=(self.home, self.settings.vault),
            own_folders=self.own_folders,
            data=self.vault.folder / MODULE_DATA,
            has_model=self.chosen.backend.name != "offline",
            agents_of=self._agents_of,
            suggestions=self.suggestions,
            origins=self.origins,
            state=self.vault.folder / MODULE_STATE,
            publish=self.modules.publish,
            writing=self.modules.writing,
            interface=self.modules.interface,
            scheduler=self.modules.scheduler,
            activity=ActivityLog(self.root),
            contexts=self.contexts,
            clock=self.clock,
        )

    def _make_agent_runner(self, vaults: BoundedVaults) -> AgentRunner:
        talk = self.settings.conversation
        conversation = RunLimits(
            timeout_s=talk.timeout_s, max_turns=talk.max_turns, max_cost_usd=talk.max_cost_usd
        )
        return AgentRunner(
            lifecycle=self.lifecycle,
            admission=RunAdmission(
                self.budget,
                self.limits,
                is_paused=lambda: self.worker.paused,
                concurrency=self.settings.agent.concurrency,
                conversation=conversation,
                turns=talk.concurrency,
            ),
            vaults=vaults,
            hooks=self.run_hooks,
            guards=RunGuards(
                origins=self.origins,
                taints=self.taints,
                suggestions=self.suggestions,
                permissions=self.permissions,
                answer_s=talk.ask_s,
            ),
            skills=AgentSkills(self.root, self.user_home, self.origins),
            contexts=self.contexts,
            modules=self.modules,
            servers=self.mcp_servers,
            boxes=self._make_boxes(),
        )

    def _make_boxes(self) -> AgentSandboxes | None:
        if self.chosen.sandboxes is None:
            return None
        return AgentSandboxes(
            sandboxes=self.chosen.sandboxes,
            store=self.store,
            index=self.index,
            origins=self.origins,
            audit=self.audit,
            user_home=self.user_home,
            private=(self.home,),
            own_folders=self.own_folders,
        )

    def _agents_of(self, approved: ApprovedModule) -> ModuleAgents:
        return ModuleAgents(
            self.agents.runs,
            approved,
            declared=self.modules.agents_of,
            prompts=self.prompts,
            core=self.core_agents,
        )
