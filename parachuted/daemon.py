"""Daemon: builds every part once, gives each what it needs, and runs them until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from parachuted.access.look_back import set_looked_back
from parachuted.access.origins import Origins
from parachuted.access.session_taint import SessionTaints
from parachuted.agent_choice import CLOCK_FILE, BackendChoice
from parachuted.agents import RunLimits
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.heavy import expect_heavy
from parachuted.agents.permission import PermissionRequests
from parachuted.api import (
    RESERVED,
    ApiParts,
    HostGuard,
    HttpServer,
    KeyAuthenticator,
    Mode,
    make_app,
    make_supervisor_app,
)
from parachuted.audit.files import AUDIT_HEAD, AuditFolder, ChainHeadFile, make_machine_name
from parachuted.audit.log import AuditLog
from parachuted.audit.writes import WriteAudit
from parachuted.bubbling import PendingChanges, Reconciler, WatchRegistry
from parachuted.change_followers import ChangeFollowers
from parachuted.config import Settings, is_loopback, listed, paired, set_setting
from parachuted.context import SessionContexts
from parachuted.errors import ConfigError, DaemonError
from parachuted.extensions import AgentGround, Ground, make_hooks, make_modules
from parachuted.history import (
    HistoryPruning,
    HistoryQueries,
    Restore,
    Retention,
    RetentionLimits,
    Undo,
    Why,
)
from parachuted.keys import KeyFile, KeyRing
from parachuted.processes.memory import MemoryTrimmer, limit_heaps, trim_memory
from parachuted.runs import Curator, CuratorParts, RunRecovery
from parachuted.runs.agent_sandboxes import AgentSandboxes
from parachuted.runs.bounded_vault import VaultParts
from parachuted.search import NoteQuery, Search
from parachuted.state.elapsed_clock import ElapsedClock, follow_clock
from parachuted.suggestions import SuggestionParts, Suggestions
from parachuted.suggestions.approval_listener import ApprovalListener
from parachuted.tasks import (
    Budget,
    Causes,
    Queue,
    QuietWindow,
    RunCountLimits,
    Worker,
)
from parachuted.tools import Migration, VaultDoctor
from parachuted.tools.vault_checks import check_control_folder
from parachuted.upkeep import (
    DiskUpkeep,
    HomeUpkeep,
    KeptTexts,
    record_declared_origins,
)
from parachuted.vault import Store, rescue
from parachuted.watched_vault import WatchedVault, utc_now

log = logging.getLogger(__name__)

_SEARCH_WAIT_S = 1.0
_THREADS = 256
_SWITCH_S = 0.0005


def _tune_process() -> None:
    """Threads for writers that wait for a hook, beside those that answer what the hook itself asks;
    and a short switch interval, so that busy threads do not keep the loop waiting.
    """
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(_THREADS, thread_name_prefix="daemon")
    )
    limit_heaps()
    sys.setswitchinterval(_SWITCH_S)


class Daemon:
    """One vault's daemon. `run` is its life; `stop` ends it."""

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
        _tune_process()
        vault = self._vault = watched or WatchedVault(settings, home, clock=clock)
        self.settings, self.chosen, self.clock, self._home = settings, chosen, vault.clock, home
        self.bus, self.problems, self.index, self.history, self.noticer = (
            vault.bus,
            vault.problems,
            vault.index,
            vault.history,
            vault.detector,
        )
        self._root, self._state, self._objects = vault.root, vault.state, vault.objects
        folder, clock = vault.folder, vault.clock
        read = None if clock is utc_now else follow_clock(clock)
        self.elapsed = chosen.elapsed or ElapsedClock(folder / CLOCK_FILE, read)
        self._save_elapsed()
        self.audit = AuditLog(
            AuditFolder(self._root, make_machine_name(home)),
            ChainHeadFile(folder / AUDIT_HEAD),
            clock,
            keep_days=settings.audit.keep_days,
            written=vault.written,
            elapsed=self.elapsed.moment,
        )
        self._writes = WriteAudit(self.audit, clock)
        self._causes = Causes(self._state)
        self._ground = Ground(
            home=home,
            vault=settings.vault,
            folder=folder,
            user_home=Path.home(),
            env=os.environ if env is None else env,
            clock=clock,
            bus=self.bus,
            problems=self.problems,
            causes=self._causes,
            objects=self._objects,
        )
        chosen_hooks = settings.hooks
        self._hooks = make_hooks(
            self._ground,
            concurrency=chosen_hooks.concurrency,
            fails_closed=chosen_hooks.fails_closed,
            must_approve=chosen_hooks.must_approve,
        )
        self.hooks = self._hooks.hooks
        asked = self._hooks.writes
        self.store = Store(
            self._root,
            self._objects,
            self.history,
            clock,
            self._writes.wrote,
            ask=asked.ask,
            is_asked=asked.is_asked,
        )
        loop = asyncio.get_running_loop()
        self.search = Search(
            folder / "search.db",
            self._root,
            self.index,
            lambda *said: loop.call_soon_threadsafe(self.problems.set, *said),
            caught_up=trim_memory,
            is_noticing=lambda: self.noticer.is_noticing,
        )
        self.gateway = chosen.gateway
        if self.gateway is not None:
            self.gateway.report_to(self.problems.set)
        self.at_work = ActiveRuns()
        self._build_loop()
        self._authenticator = KeyAuthenticator(
            KeyRing(KeyFile(home), clock), settings.auth_mode, vault.token, self._latest
        )
        self._authenticator.listen(self.at_work.recheck)
        self.is_to_begin_again = False
        self._server: HttpServer | None = None
        self._supervisor: HttpServer | None = None
        self._followers = ChangeFollowers(
            origins=self.origins,
            reconciler=self.reconciler,
            writes=self._writes,
            search=self.search,
            hooks=self._hooks.listening,
            bus=self.bus,
            is_first_contact=vault.is_first_contact,
        )
        self._home_upkeep = HomeUpkeep(
            home=home,
            authenticator=self._authenticator,
            hooks=self.hooks,
            problems=self.problems,
        )
        self._disk_upkeep = DiskUpkeep(
            store=self.store,
            search=self.search,
            suggestions=self.suggestions,
            audit=self.audit,
            elapsed=self.elapsed,
            journal=vault.journal,
            problems=self.problems,
            clock=self.clock,
        )
        vault.serve(self._followers.listeners())

    @property
    def port(self) -> int:
        """The port of the API; 0 before it is open."""
        return self._vault.port

    def _save_elapsed(self) -> None:
        try:
            self.elapsed.keep()
        except OSError as error:
            raise DaemonError(
                f"{self._home} cannot be written ({error.strerror}); make room there, then start "
                "again"
            ) from error

    def _latest(self) -> datetime:
        """The time for expiry: an expired key stays expired when the wall clock is set back."""
        return max(self.clock(), self.elapsed.moment())

    def _build_loop(self) -> None:
        settings, clock, bus = self.settings, self.clock, self.bus
        causes = self._causes
        self.origins = Origins(self._state, listed(settings.agent.untrusted), self.index)
        self.watches = WatchRegistry(self._state, self.index, clock)
        self._sessions = SessionContexts(self._state, self.index, clock)
        self.reviews = PendingChanges(self._state)
        window = QuietWindow(quiet_s=settings.bubble.quiet_s, longest_s=settings.bubble.max_wait_s)
        self.queue = Queue(self._state, causes, window, self.watches)
        self.reconciler = Reconciler(
            root=self._root,
            objects=self._objects,
            index=self.index,
            state=self._state,
            watches=self.watches,
            reviews=self.reviews,
            causes=causes,
            queue=self.queue,
            bus=bus,
            clock=clock,
            looks_at_once=self.chosen.backend.name == "offline",
            listing=self._list_notes,
        )
        self.undo = Undo(
            store=self.store,
            objects=self._objects,
            history=self.history,
            bus=bus,
            clock=clock,
            notice=self.noticer.notice,
        )
        self._migration = Migration(
            store=self.store,
            objects=self._objects,
            index=self.index,
            history=self.history,
            sessions=self._sessions,
            bus=bus,
            clock=clock,
            notice=self.noticer.notice,
            origins=self.origins,
        )
        self._recovery = RunRecovery(
            state=self._state,
            queue=self.queue,
            reviews=self.reviews,
            index=self.index,
            history=self.history,
            undo=self.undo,
            clock=clock,
        )
        limits = RunLimits(
            timeout_s=settings.agent.timeout_s,
            max_turns=settings.agent.max_turns,
            max_cost_usd=settings.agent.max_cost_usd,
        )
        parts = CuratorParts(
            store=self.store,
            objects=self._objects,
            index=self.index,
            history=self.history,
            state=self._state,
            watches=self.watches,
            reviews=self.reviews,
            causes=causes,
            queue=self.queue,
            bus=bus,
            clock=clock,
            notice=self.noticer.notice,
            audit=self.audit,
            asker=self.hooks,
            at_work=self.at_work,
            origins=self.origins,
            taints=SessionTaints(self._state, self.clock),
        )
        self._curator = Curator(parts, self.chosen.backend, model=self.chosen.model, limits=limits)
        if self.chosen.model is not None:  # what a model needs loads while the first task waits
            bus.listen(
                lambda event: expect_heavy("claude") if event.event == "task.queued" else None
            )
        self._trimmer = MemoryTrimmer()
        bus.listen(
            lambda event: self._trimmer.trim_soon() if event.event == "run.finished" else None
        )
        budget = settings.budget
        runs = RunCountLimits(
            runs_per_hour=budget.runs_per_hour,
            runs_per_day=budget.runs_per_day,
            runs_per_cause=budget.runs_per_cause,
        )
        self.budget = Budget(runs, self.history, self._state, self.elapsed.moment)
        self.worker = Worker(
            state=self._state,
            queue=self.queue,
            budget=self.budget,
            bus=bus,
            clock=clock,
            perform=self._curator.perform,
            concurrency=settings.agent.concurrency,
            backend=self.chosen.backend.name,
        )
        self._build_suggestions()
        self._build_past()
        self.permissions = PermissionRequests(
            bus, clock, settings.agent.ask_s, never=self._state.table("permissions")
        )
        self._build_modules(limits)

    def _build_suggestions(self) -> None:
        self.suggestions = Suggestions(
            SuggestionParts(
                root=self._root,
                store=self.store,
                objects=self._objects,
                history=self.history,
                state=self._state,
                home=self._home,
                bus=self.bus,
                clock=self.clock,
                notice=self.noticer.notice,
                audit=self.audit,
                origins=self.origins,
                auto_approve_rate=self.settings.suggestions.auto_approve_rate / 100,
            )
        )
        self._approvals = ApprovalListener(self.suggestions, self._root, self.bus)

    def _make_boxes(self) -> AgentSandboxes | None:
        if self.chosen.sandboxes is None:
            return None
        return AgentSandboxes(
            sandboxes=self.chosen.sandboxes,
            root=self._root,
            store=self.store,
            index=self.index,
            objects=self._objects,
            origins=self.origins,
            audit=self.audit,
            notice=self.noticer.notice,
            user_home=self._ground.user_home,
            private=(self._home,),
        )

    def _build_past(self) -> None:
        self._texts = KeptTexts(
            index=self.index,
            reviews=self.reviews,
            suggestions=self.suggestions,
            objects=self._objects,
        )
        self._past = HistoryQueries(self.store, self._objects, self.history)
        self._restore = Restore(
            store=self.store,
            objects=self._objects,
            history=self.history,
            clock=self.clock,
            notice=self.noticer.notice,
            stood_at=self.reconciler.stood_at,
        )
        keep = RetentionLimits(
            days=self.settings.history.keep_days, megabytes=self.settings.history.keep_mb
        )
        retention = Retention(
            history=self.history, objects=self._objects, keep=keep, clock=self.elapsed.moment
        )
        self.pruning = HistoryPruning(
            retention, wanted=self._texts.needed, clock=self.clock, report=self.problems.set
        )

    def _build_modules(self, limits: RunLimits) -> None:
        settings = self.settings
        vault = VaultParts(
            root=self._root,
            store=self.store,
            index=self.index,
            search=self.search,
            notice=self.noticer.notice,
            audit=self.audit,
        )
        agents = AgentGround(
            backend=self.chosen.backend,
            model=self.chosen.model,
            limits=limits,
            budget=self.budget,
            history=self.history,
            audit=self.audit,
            is_paused=lambda: self.worker.paused,
            concurrency=settings.agent.concurrency,
            at_work=self.at_work,
            taints=SessionTaints(self._state, self.clock),
            boxes=self._make_boxes(),
            origins=self.origins,
            suggestions=self.suggestions,
            permissions=self.permissions,
        )
        parts = make_modules(
            self._ground,
            self.hooks,
            vault,
            agents,
            self._state,
            sandbox=settings.modules.sandbox,
            preferred=paired(settings.modules.providers),
            reserved=RESERVED,
        )
        self.modules, self._trust, self._cages, self.agents = (
            parts.modules,
            parts.trust,
            parts.cages,
            parts.agents,
        )

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Run until `stop`; `ready` is called once the vault is watched and the API answers."""
        try:
            await self._start()
            log.info(
                "watching",
                extra={
                    "vault": str(self.settings.vault),
                    "files": len(self.index),
                    "agent": self.chosen.reason,
                },
            )
            ready()
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._follow_changes(), name="changes"),
                    group.create_task(self.worker.run(), name="worker"),
                    group.create_task(self._disk_upkeep.run(), name="disk"),
                    group.create_task(self.reconciler.follow_up(), name="follow up"),
                    group.create_task(self._home_upkeep.run(), name="home"),
                    group.create_task(self.hooks.run(), name="hooks"),
                    group.create_task(self._hooks.listening.run(), name="hooks' events"),
                    group.create_task(self._run_modules(), name="modules"),
                    group.create_task(self.pruning.run(), name="history"),
                    group.create_task(self._sweep_sandboxes(), name="sandboxes"),
                    group.create_task(self._approvals.run(), name="suggestions"),
                ]
                await self._vault.stopping.wait()
                for task in tasks:
                    task.cancel()
        finally:
            await self._close()
            log.info("stopped")

    async def _list_notes(self, query: NoteQuery) -> list[str]:
        """The paths that the search index lists, once it is up to date."""
        is_behind = True
        while is_behind:
            is_behind = not await asyncio.to_thread(self.search.settle, _SEARCH_WAIT_S)
        return await asyncio.to_thread(self.search.catalogue.paths, query)

    async def _sweep_sandboxes(self) -> None:
        """Remove what an earlier daemon left. Docker is asked only if there is something: to ask
        takes time and memory.
        """
        sandboxes = self.chosen.sandboxes
        if sandboxes is None or not await asyncio.to_thread(sandboxes.has_left_something):
            return
        try:
            found = await sandboxes.sweep()
        except OSError as error:  # files of an agent, which must not end the daemon
            log.warning(
                "containers that an earlier daemon left could not be removed",
                extra={"reason": str(error)},
            )
        else:
            log.info("containers that an earlier daemon left are gone", extra={"containers": found})

    async def _run_modules(self) -> None:
        await self._cages.sweep()
        await self.modules.start()
        await self.modules.run()

    def stop(self) -> None:
        """End `run` and the agents at work; their tasks are done again at the next start."""
        self._vault.stopping.set()

    def _end(self, is_to_begin_again: bool) -> None:  # noqa: FBT001  a seam for the API
        self.is_to_begin_again = is_to_begin_again
        self.stop()

    async def prepare(self) -> None:
        """Settle what the last daemon left. Call it before the first change is recorded."""
        self._writes.catch_up(self.history, self.audit.written)
        self.audit.start()
        for number, said in enumerate(self._recovery.settle_runs()):
            self.problems.set(f"interrupted:{number}", said)

    async def _start(self) -> None:
        vault = self._vault
        if not vault.is_scanned:
            await vault.begin(self.prepare)
        await vault.load()
        if vault.is_first_contact:
            self._followers.end_first_contact()
            vault.is_first_contact = False
            self._state.table("control").put("baseline", {"at": self.clock().isoformat()})
            set_looked_back(self._state, self.clock())
            vault.announce()
        self._recovery.end_lost_runs()
        self._hooks.writes.begin()
        parts = self._api_parts()
        self._server = HttpServer(make_app(parts))
        await self._server.open_at(vault.sockets)
        await self._listen_as_supervisor(parts)
        gc.collect()  # imports leave a copy of each class with slots
        gc.enable()
        gc.freeze()

    async def _listen_as_supervisor(self, parts: ApiParts) -> None:
        port = self.settings.api.supervisor_port
        if not port:
            return
        self._supervisor = HttpServer(make_supervisor_app(parts))
        try:
            await self._supervisor.open("127.0.0.1", port)
        except DaemonError:
            self.problems.set(
                "supervisor",
                f"port {port} is in use; set another as api.supervisor_port, then `parachute "
                "restart`",
            )

    async def _follow_changes(self) -> None:
        """Save what the start found, the texts of watched files included, then follow changes.

        What changes meanwhile waits.
        """
        self.search.start()
        await self.noticer.save()
        await self.reconciler.keep_watched(self.index.paths())
        await asyncio.to_thread(self._texts.forget_unneeded)
        await record_declared_origins(self._state, self.origins, self._root, self.index, self.clock)
        trim_memory()
        await self.noticer.run()

    async def _set_auth_mode(self, mode: Mode) -> None:
        """Save it in config.yaml, and apply it.

        Raises ConfigError, and changes nothing, if it would let everyone in.
        """
        if mode == "disabled" and not is_loopback(self.settings.host):
            raise ConfigError(
                [f"auth_mode may not be disabled while the daemon listens on {self.settings.host}"]
            )
        await asyncio.to_thread(set_setting, self._home, "auth_mode", mode)
        self._authenticator.mode = mode
        self._authenticator.look()

    def _api_parts(self) -> ApiParts:
        cost = self.settings.agent.max_cost_usd if self.chosen.backend.name != "offline" else 0.0
        return ApiParts(
            vault=self.settings.vault,
            root=self._root,
            store=self.store,
            objects=self._objects,
            notice=self.noticer.notice,
            home=self._home,
            hooks=self.hooks,
            trust=self._trust,
            modules=self.modules,
            suggestions=self.suggestions,
            door=self._authenticator,
            permissions=self.permissions,
            origins=self.origins,
            at_work=self.at_work,
            agents=self.agents,
            set_auth_mode=self._set_auth_mode,
            audit=self.audit,
            guard=HostGuard(
                hosts=listed(self.settings.api.hosts),
                origins=listed(self.settings.api.cors_origins),
            ),
            index=self.index,
            search=self.search,
            history=self.history,
            bus=self.bus,
            problems=self.problems,
            watches=self.watches,
            reviews=self.reviews,
            sessions=self._sessions,
            migration=self._migration,
            reconciler=self.reconciler,
            queue=self.queue,
            worker=self.worker,
            budget=self.budget,
            undo=self.undo,
            why=Why(self.store, self._objects, self.history),
            past=self._past,
            restore=self._restore,
            pruning=self.pruning,
            rescan=self._rescan,
            check_notes=VaultDoctor(self.store, self.index).check_notes,
            check_control_folder=lambda: check_control_folder(
                self._root, self.audit.folder, self.audit.head
            ),
            gateway=self.gateway,
            sandboxes=self.chosen.sandboxes,
            clock=self.clock,
            elapsed=self.elapsed.moment,
            started=self.clock(),
            backend=self.chosen.backend.name,
            backend_reason=self.chosen.reason,
            find_logins=self.chosen.find_logins,
            most_cost_usd=cost,
            model=self.settings.agent.model,
            full_every_s=self.settings.scan.full_every_s,
            is_watching_by=lambda: "polling" if self.noticer.polling else "events",
            end=self._end,
            port=lambda: self.port,
        )

    async def _rescan(self, accept_missing: bool) -> None:  # noqa: FBT001  a seam for the API
        await self.noticer.rescan(accept_missing=accept_missing)

    async def _close(self) -> None:
        await self.hooks.close()  # first, so that callers that wait for a hook get an answer
        await self.at_work.stop("the daemon ended")  # the curators' have ended with the worker
        self._trimmer.close()
        for server in (self._server, self._supervisor):
            if server is not None:
                await server.close()
        await self.modules.stop()
        await self._hooks.close()
        await self.chosen.backend.close()
        if self.chosen.sandboxes is not None:
            await self.chosen.sandboxes.close()
        if self.gateway is not None:
            await self.gateway.close()
        self._home_upkeep.flush_key_uses()
        await asyncio.to_thread(self.search.close)
        for said in rescue(self.store, self.clock(), last_call=True):
            log.warning("a late write was rescued", extra={"said": said})
        self.store.close()
        self.audit.close()
        await self._vault.close()
