"""Daemon: builds every part once, hands each what it needs, and runs them until told to stop."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import itertools
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from parachuted.access.look_back import is_looked_back, look_back, set_looked_back
from parachuted.access.origins import Origins
from parachuted.access.session_taint import SessionTaints
from parachuted.agents import (
    Backend,
    ClaudeSettings,
    CredentialSource,
    RunLimits,
    choose_backend,
    describe_credentials,
    find_credential,
    make_backend,
)
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.gateway import Gateway, MoneyLimits, UsageStore
from parachuted.agents.heavy import expect_heavy
from parachuted.agents.permission import PermissionRequests
from parachuted.agents.sandbox import Sandboxes
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
from parachuted.config import Settings, is_loopback, listed, paired, set_setting
from parachuted.context import SessionContexts
from parachuted.errors import ConfigError, DaemonError, ParachuteError, StorageFailedError
from parachuted.events import Change, ChangeListeners
from parachuted.events.folder_signal import FolderSignal
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
from parachuted.hooks.loading import SCRIPTS
from parachuted.keys import KeyFile, KeyRing
from parachuted.processes.beat import next_beat
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
    RunOutcome,
    Task,
    Worker,
)
from parachuted.tools import Migration, VaultDoctor
from parachuted.tools.vault_checks import check_control_folder
from parachuted.vault import Store, printable, rescue
from parachuted.watched_vault import WatchedVault, utc_now

log = logging.getLogger(__name__)

_LOOK_AFTER_S = 1.0
_CLOCK = "clock.json"
_LOOK_AT_KEYS_S = 0.5  # for open streams: a request looks by itself
_LOOK_AT_KEYS_ANYWAY_S = 5.0  # such as for a file that is reached by a link
_PATHS_AT_ONCE = 2000
_KEEP_USES_S = 600.0
_THREADS = 256
_DEEPEST = 3  # agents that others wait for
_M_ARENA_MAX, _HEAPS = -8, 2
_SWITCH_S = 0.0005
_TRIM_AFTER_S = 2.0
_STATE_IS_GONE = "the state folder was deleted under the daemon; `parachute restart` begins it anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChoice:
    """The backend and, in a sentence, why it is that one; `gateway` is the way of all model calls,
    where there is one, and `sandboxes` are where agents run shells. `elapsed` is the time that the
    gateway's limits are counted in.
    """

    backend: Backend
    reason: str
    model: str | None
    gateway: Gateway | None = None
    sandboxes: Sandboxes | None = None
    elapsed: ElapsedClock | None = None
    find_logins: Callable[[], Sequence[CredentialSource]] = tuple


def choose_agent(
    settings: Settings, folder: Path, env: Mapping[str, str], user_home: Path
) -> BackendChoice:
    """The backend that the settings and the credentials lead to.

    `folder` is the vault's state folder.
    """
    elapsed = ElapsedClock(folder / _CLOCK)
    credential = find_credential(env, settings.vault, user_home)
    name, reason = choose_backend(settings.agent.backend, credential, settings.agent.base_url)
    gateway = _make_gateway(settings, folder, env, user_home, elapsed)
    run = folder.parents[1] / "run"  # a short path, since the path of a socket may have 107 bytes
    sandboxes = Sandboxes(
        folder=run / "boxes", env=env, label=folder.name, most=settings.agent.concurrency + _DEEPEST
    )
    made = make_backend(
        name,
        ClaudeSettings(
            model=settings.agent.model,
            folder=folder / "agent",
            user_home=user_home,
            env=env,
            credential=credential,
            base_url=settings.agent.base_url,
            gateway=gateway,
            sandboxes=sandboxes,
        ),
    )
    model = settings.agent.model if name == "claude" else None
    return BackendChoice(
        backend=made,
        reason=reason,
        model=model,
        gateway=gateway,
        sandboxes=sandboxes,
        elapsed=elapsed,
        find_logins=lambda: describe_credentials(env, settings.vault, user_home),
    )


def _make_gateway(
    settings: Settings, folder: Path, env: Mapping[str, str], user_home: Path, elapsed: ElapsedClock
) -> Gateway:
    """It opens its file and its port at the first run."""
    budget = settings.budget
    limits = MoneyLimits(
        usd_per_cause=budget.usd_per_cause,
        usd_per_hour=budget.usd_per_hour,
        usd_per_day=budget.usd_per_day,
    )
    return Gateway(
        env=env,
        vault=settings.vault,
        user_home=user_home,
        base_url=settings.agent.base_url,
        usage_store=UsageStore(folder / "usage.db", elapsed.now),
        limits=limits,
        clock=utc_now,
    )


def _give_memory_back() -> None:
    """A first scan, search after it, and each run hold many texts for a moment; glibc keeps what is
    freed unless asked (malloc_trim(3)).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _keep_few_heaps() -> None:
    """glibc gives each thread a heap of its own, up to eight a core, most of them half empty; two
    do for ours (mallopt(3), M_ARENA_MAX).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _HEAPS)


def _give_threads() -> None:
    """Room for writers that wait for a hook, beside those that answer what the hook itself asks.

    A thread is made when it is needed.
    """
    asyncio.get_running_loop().set_default_executor(
        ThreadPoolExecutor(_THREADS, thread_name_prefix="daemon")
    )


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
        """Call it on the event loop.

        Raises DaemonError when another daemon has the home or the vault.

        `env` is what hooks, git and pip see a part of. `watched` is the vault where it is open
        already.
        """
        _give_threads()
        _keep_few_heaps()
        sys.setswitchinterval(
            _SWITCH_S
        )  # the loop has its turn soon, however busy the threads behind it are
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
        self.elapsed = chosen.elapsed or ElapsedClock(folder / _CLOCK, read)
        self._keep_elapsed()
        self._first: list[Change] = []
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
            caught_up=_give_memory_back,
            is_noticing=lambda: self.noticer.is_noticing,
        )
        self._build_gateway()
        self.at_work = ActiveRuns()
        self._build_loop()
        self._door = KeyAuthenticator(
            KeyRing(KeyFile(home), clock), settings.auth_mode, vault.token, self._latest
        )
        self._door.listen(self.at_work.recheck)
        self.is_to_begin_again = False
        self._trimming: asyncio.TimerHandle | None = None
        self._server: HttpServer | None = None
        self._supervisor: HttpServer | None = None
        vault.serve(ChangeListeners(record=self._record, tell=self._tell))

    @property
    def port(self) -> int:
        """The port that the API is listened for on; 0 before that."""
        return self._vault.port

    def _keep_elapsed(self) -> None:
        try:
            self.elapsed.keep()
        except OSError as error:
            raise DaemonError(
                f"{self._home} cannot be written ({error.strerror}); make room there, then start "
                "again"
            ) from error

    def _latest(self) -> datetime:
        """The time by which a key has expired: one that has stays so when the wall clock is set
        back.
        """
        return max(self.clock(), self.elapsed.moment())

    def _build_gateway(self) -> None:
        self.gateway = self.chosen.gateway
        if self.gateway is not None:
            self.gateway.report_to(self.problems.set)

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
        self._aftermath = RunRecovery(
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
        if (
            self.chosen.model is not None
            # what a model's backend stands on is loaded while the first task waits out its quiet
            # time
        ):
            bus.listen(
                lambda event: expect_heavy("claude") if event.event == "task.queued" else None
            )
        bus.listen(lambda event: self._trim_soon() if event.event == "run.finished" else None)
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
            perform=self._perform,
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
        self._ears = ApprovalListener(self.suggestions, self._root, self.bus)

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
            retention, wanted=self._wanted_texts, clock=self.clock, report=self.problems.set
        )

    async def _wanted_texts(self) -> set[str]:
        """The digests of the texts that stand in the vault, and of those that reviews and
        suggestions begin at.
        """
        wanted: set[str] = set()
        for number, path in enumerate(list(self.index.paths())):
            entry = self.index.get(path)
            if entry is not None and entry.digest is not None:
                wanted.add(entry.digest)
            if number % _PATHS_AT_ONCE == 0:
                await asyncio.sleep(0)
        wanted |= self.suggestions.bases()
        return (
            wanted | self.reviews.digests()
        )  # last, since what is seen of a text that has changed meanwhile is among these

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
        """Watch and work until `stop`.

        `ready` is called once the vault is watched and the API answers.
        """
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
                    group.create_task(self._notice(), name="noticer"),
                    group.create_task(self.worker.run(), name="worker"),
                    group.create_task(self._look_after_disk(), name="disk"),
                    group.create_task(self.reconciler.follow_up(), name="follow up"),
                    group.create_task(self._look_after_keys(), name="keys"),
                    group.create_task(self.hooks.run(), name="hooks"),
                    group.create_task(self._hooks.listening.run(), name="hooks' ears"),
                    group.create_task(self._run_modules(), name="modules"),
                    group.create_task(self.pruning.run(), name="history"),
                    group.create_task(self._sweep_boxes(), name="boxes"),
                    group.create_task(self._ears.run(), name="suggestions"),
                ]
                await self._vault.stopping.wait()
                for task in tasks:
                    task.cancel()
        finally:
            await self._close()
            log.info("stopped")

    async def _list_notes(self, query: NoteQuery) -> list[str]:
        """The paths that the search index lists, once it knows all that is known."""
        is_behind = True
        while is_behind:
            is_behind = not await asyncio.to_thread(self.search.settle, _LOOK_AFTER_S)
        return await asyncio.to_thread(self.search.catalogue.paths, query)

    async def _sweep_boxes(self) -> None:
        """What an earlier life left.

        The engine is asked only where there is something, since to ask it takes time and memory.
        """
        sandboxes = self.chosen.sandboxes
        if sandboxes is not None and await asyncio.to_thread(sandboxes.has_left_something):
            try:
                found = await sandboxes.sweep()
            except OSError as error:  # an agent's files, which are no reason to end the daemon
                log.warning(
                    "what an earlier life left of agents' containers could not be removed",
                    extra={"reason": str(error)},
                )
            else:
                log.info(
                    "what an earlier life left of agents' containers is gone",
                    extra={"containers": found},
                )

    async def _run_modules(self) -> None:
        await self._cages.sweep()
        await self.modules.start()
        await self.modules.run()

    def stop(self) -> None:
        """End `run`.

        Agents at work are ended with it; their tasks are done again at the next start.
        """
        self._vault.stopping.set()

    def _end(self, is_to_begin_again: bool) -> None:  # noqa: FBT001  a seam for the API
        self.is_to_begin_again = is_to_begin_again
        self.stop()

    async def prepare(self) -> None:
        """Settle what the last life left. It precedes the first change that is recorded."""
        self._writes.catch_up(self.history, self.audit.written)
        self.audit.start()
        for number, said in enumerate(self._aftermath.settle_runs()):
            self.problems.set(f"interrupted:{number}", said)

    async def _start(self) -> None:
        vault = self._vault
        if not vault.is_scanned:
            await vault.begin(self.prepare)
        await vault.load()
        if vault.is_first_contact:
            self.reconciler.baseline(self._first)
            self._first, vault.is_first_contact = [], False
            self._state.table("control").put("baseline", {"at": self.clock().isoformat()})
            set_looked_back(self._state, self.clock())
            vault.announce()
        self._aftermath.end_lost_runs()
        self._hooks.writes.begin()
        parts = self._api_parts()
        self._server = HttpServer(make_app(parts))
        await self._server.open_at(vault.sockets)
        await self._listen_as_supervisor(parts)
        gc.collect()  # of the import, which leaves a copy of each class that was given slots
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

    async def _notice(self) -> None:
        """Keep what was found at the start, the texts of watched files included, then follow.

        What happens meanwhile waits.
        """
        self.search.start()
        await self.noticer.save()
        await self.reconciler.keep_watched(self.index.paths())
        await asyncio.to_thread(self._forget_unused_texts)
        await self._look_back()
        _give_memory_back()
        await self.noticer.run()

    def _trim_soon(self) -> None:
        """Once for all runs that end within some seconds.

        In a thread: it walks over all that is free.
        """
        if self._trimming is None:
            loop = asyncio.get_running_loop()
            self._trimming = loop.call_later(_TRIM_AFTER_S, self._trim, loop)

    def _trim(self, loop: asyncio.AbstractEventLoop) -> None:
        self._trimming = None
        loop.run_in_executor(None, _give_memory_back)

    async def _look_back(self) -> None:
        """Once in a vault that an earlier version knew: find the notes that say that they are a
        stranger's.
        """
        if is_looked_back(self._state):
            return
        try:
            await asyncio.to_thread(
                look_back, self.origins, self._root, self.index, list(self.index.paths())
            )
            set_looked_back(self._state, self.clock())
        except StorageFailedError as error:
            log.warning(
                "where the vault's texts came from could not be recorded; the next start does it",
                extra={"reason": error.message},
            )

    def _forget_unused_texts(self) -> None:
        """Drop kept texts that no difference can begin at any more.

        In a thread, before anything is noticed.
        """
        present = {
            entry.digest
            for path in self.index.paths()
            if (entry := self.index.get(path)) is not None and entry.digest is not None
        }
        self._objects.forget_seen(present | self.reviews.digests())

    async def _look_after_disk(self) -> None:
        """Once a second: files that were replaced while a program still wrote into them, a disk
        that refuses, a state that was deleted.
        """
        for number in itertools.count():
            await next_beat(_LOOK_AFTER_S)
            if self.store.expects_late_writes:
                for said in await asyncio.to_thread(rescue, self.store, self.clock()):
                    self.problems.set(f"rescued:{number}", said)
            self.problems.set("disk", self.store.trouble)
            self.search.look()
            self.problems.set("suggestions", self.suggestions.trouble)
            self.problems.set("audit", self.audit.trouble or self.audit.broken)
            if self.elapsed.is_due:
                await self._follow_elapsed()
            self.problems.set("state", None if self._vault.journal.exists() else _STATE_IS_GONE)

    async def _follow_elapsed(self) -> None:
        """Only the jumps of the wall clock between this and a reboot would be unknown after
        that.
        """
        try:
            await asyncio.to_thread(self.elapsed.keep)
        except OSError as error:
            log.warning("the time for limits was not kept", extra={"reason": str(error)})

    async def _look_after_keys(self) -> None:
        """See at once what has become of keys.yaml; write only now and then when its keys were
        used.
        """
        loop = asyncio.get_running_loop()
        kept_at = loop.time()
        signal = FolderSignal(
            self._home, ("", SCRIPTS), shortest_s=_LOOK_AT_KEYS_S, longest_s=_LOOK_AT_KEYS_ANYWAY_S
        )
        try:
            while True:
                self._door.look()
                self.hooks.look()
                self.problems.set("keys", self._door.ring.problem)
                if self._door.ring.is_unsettled or self._door.ring.ends_within(
                    _LOOK_AT_KEYS_ANYWAY_S
                ):
                    await next_beat(_LOOK_AT_KEYS_S)
                else:
                    await signal.wait()
                if loop.time() - kept_at >= _KEEP_USES_S:
                    kept_at = loop.time()
                    await asyncio.to_thread(self._keep_uses_of_keys)
        finally:
            signal.close()

    async def _set_auth_mode(self, mode: Mode) -> None:
        """Keep it in config.yaml, and follow it.

        Raises ConfigError, having changed nothing, where it would let everyone in.
        """
        if mode == "disabled" and not is_loopback(self.settings.host):
            raise ConfigError(
                [f"auth_mode may not be disabled while the daemon listens on {self.settings.host}"]
            )
        await asyncio.to_thread(set_setting, self._home, "auth_mode", mode)
        self._door.mode = mode
        self._door.look()

    def _keep_uses_of_keys(self) -> None:
        try:
            self._door.ring.flush()
        except ParachuteError as error:
            log.warning(
                "the times at which keys were used were not kept", extra={"reason": error.message}
            )

    async def _record(self, changes: Sequence[Change]) -> Callable[[], None]:
        self.origins.notice(changes)
        if not self._vault.is_first_contact:
            return await self.reconciler.record(changes)
        self._first += changes
        return lambda: None

    def _tell(self, change: Change) -> None:
        if self._vault.is_first_contact:
            return
        self._writes.noticed(change)
        data: dict[str, object] = {
            "path": printable(change.path),
            "by": change.author.by,
            "run": change.author.run,
            "causes": list(change.author.causes),
            "digest": change.new.digest if change.new is not None else None,
        }
        if change.source is not None:
            data["from"] = printable(change.source)
            self.search.follow(change.source, None)
        self.search.follow(change.path, change.new, change.data)
        with self._hooks.listening.about(change):
            self.bus.publish(f"file.{change.kind}", **data)

    async def _perform(self, task: Task) -> RunOutcome:
        return await self._curator.perform(task)

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
            door=self._door,
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
        await (
            self.hooks.close()
        )  # first: callers that wait for a hook are told so, while they can be
        await self.at_work.stop("the daemon ended")  # the curators' have ended with the worker
        if self._trimming is not None:
            self._trimming.cancel()
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
        self._keep_uses_of_keys()
        await asyncio.to_thread(self.search.close)
        for said in rescue(self.store, self.clock(), last_call=True):
            log.warning("a late write was rescued", extra={"said": said})
        self.store.close()
        self.audit.close()
        await self._vault.close()
