"""Daemon: the life of one vault's daemon: how it starts, what it does meanwhile, how it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from parachuted.access.origins import set_looked_back
from parachuted.agent_choice import BackendChoice
from parachuted.api import HttpServer, Mode, undo_limits
from parachuted.composition import Composition
from parachuted.config import Settings, is_open_to_others, set_setting
from parachuted.errors import ConfigError, DaemonError
from parachuted.events import ChangeListeners, Event
from parachuted.heavy import expect_heavy
from parachuted.history import UndoLimits
from parachuted.http_routes import HttpRoutes
from parachuted.processes.memory import MemoryTrimmer, limit_heaps, trim_memory
from parachuted.times import utc_now
from parachuted.upkeep import DiskUpkeep, HomeUpkeep, record_declared_origins
from parachuted.vault import rescue
from parachuted.watched_vault import WatchedVault

if TYPE_CHECKING:
    from parachuted.tls_listener import TlsListener

log = logging.getLogger(__name__)

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


class Daemon(Composition):
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
        """As `Composition` is made."""
        _tune_process()
        super().__init__(settings, home, chosen, clock=clock, env=env, watched=watched)
        self.is_to_begin_again = False
        self.http = HttpRoutes(
            self, started=self.clock(), end=self._end, set_auth_mode=self._set_auth_mode
        )
        self.containers.serve = self.http.serve_module
        self._make_upkeep()
        self._server: HttpServer | None = None
        self._tls = self._make_tls_listener()
        self._supervisor: HttpServer | None = None
        self._trimmer = MemoryTrimmer()
        if self.chosen.model is not None:  # what a model needs loads while the first task waits
            self.bus.subscribe(lambda _event: expect_heavy("claude"), "task.queued")
        self.bus.subscribe(lambda _event: self._trimmer.trim_soon(), "run.finished")
        self.bus.subscribe(self._end_runs_of_module, "module.disabled")

    def _make_tls_listener(self) -> TlsListener | None:
        """What opens the port of TLS; None where the settings name none."""
        chosen = self.settings.tls
        if not chosen.port:
            return None
        from parachuted.tls_listener import TlsListener  # noqa: PLC0415  few daemons load it

        return TlsListener(self.home, chosen.host, chosen.port, self.problems, self.clock)

    def _make_upkeep(self) -> None:
        self.home_upkeep = HomeUpkeep(
            home=self.home,
            authenticator=self.authenticator,
            hooks=self.hooks,
            problems=self.problems,
        )
        self.disk_upkeep = DiskUpkeep(
            store=self.store,
            search=self.search,
            suggestions=self.suggestions,
            audit=self.audit,
            elapsed=self.elapsed,
            journal=self.vault.journal,
            problems=self.problems,
            clock=self.clock,
        )

    def _end_runs_of_module(self, event: Event) -> None:
        """A module that was switched off, or whose rights were changed, has no agents at work."""
        name = event.data["name"]
        self.at_work.end(
            f"the module {name} was switched off or changed", lambda working: working.module == name
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
                    group.create_task(self._look_through_texts(), name="texts"),
                    group.create_task(self.worker.run(), name="worker"),
                    group.create_task(self.disk_upkeep.run(), name="disk"),
                    group.create_task(self.reconciler.follow_up(), name="follow up"),
                    group.create_task(self.home_upkeep.run(), name="home"),
                    group.create_task(self.hooks.run(), name="hooks"),
                    group.create_task(self.hook_events.run(), name="hooks' events"),
                    group.create_task(self._run_modules(), name="modules"),
                    group.create_task(self.http.mcp.run(), name="mcp"),
                    group.create_task(self.pruning.run(), name="history"),
                    group.create_task(self._sweep_sandboxes(), name="sandboxes"),
                    group.create_task(self.approvals.run(), name="suggestions"),
                    group.create_task(self._renew_certificate(), name="tls"),
                ]
                await self.vault.stopping.wait()
                for task in tasks:
                    task.cancel()
        finally:
            await self._close()
            log.info("stopped")

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

    async def _renew_certificate(self) -> None:
        if self._tls is not None:
            await self._tls.run()

    async def _run_modules(self) -> None:
        await self.containers.sweep()
        await self.modules.start()
        await self.modules.run()

    def stop(self) -> None:
        """End `run` and the agents at work; their tasks are done again at the next start."""
        self.vault.stopping.set()

    def _end(self, is_to_begin_again: bool) -> None:  # noqa: FBT001  a seam for the API
        self.is_to_begin_again = is_to_begin_again
        self.stop()

    async def prepare(self) -> ChangeListeners:
        """Settle what the last daemon left; returns what each change is recorded by."""
        self.writes.catch_up(self.history, self.audit.written)
        self.audit.start()
        for number, said in enumerate(self.recovery.settle_runs()):
            self.problems.set(f"interrupted:{number}", said)
        return self.followers.listeners()

    async def _start(self) -> None:
        vault = self.vault
        if not vault.is_scanned:
            await vault.begin(self.prepare)
        await vault.load()
        if vault.is_first_contact:
            self.followers.end_first_contact()
            vault.is_first_contact = False
            self.state.table("control").put("baseline", {"at": self.clock().isoformat()})
            set_looked_back(self.state, self.clock())
            vault.announce()
        self.recovery.end_lost_runs()
        self.write_hooks.begin()
        is_asked = self.store.is_asked  # by a hook, which may need the API
        if not is_asked:
            await self._finish_acts()
        self._server = HttpServer(self.http.make_app())
        await self._server.open_at(vault.sockets)
        if is_asked:
            await self._finish_acts()
        if self._tls is not None:
            vault.tls_port = await self._tls.open(self._server)
        await self._listen_as_supervisor()
        gc.collect()  # imports leave a copy of each class with slots
        gc.enable()
        gc.freeze()

    async def _finish_acts(self) -> None:
        """What was cut short by the end of the last daemon is whole before anyone can ask."""

        def limits(key: str) -> UndoLimits:
            identity = self.authenticator.ring.identity
            return undo_limits(identity(key), self.store) if key else UndoLimits()

        said_by = await self.recovery.finish_acts(self.store.notice, limits)
        for number, said in enumerate(said_by):
            self.problems.set(f"unfinished:{number}", said)

    async def _listen_as_supervisor(self) -> None:
        port = self.settings.api.supervisor_port
        if not port:
            return
        self._supervisor = HttpServer(self.http.make_supervisor_app())
        try:
            await self._supervisor.open("127.0.0.1", port)
        except DaemonError:
            self.problems.set(
                "supervisor",
                f"port {port} is in use; set another as api.supervisor_port, then `parachute "
                "restart`",
            )

    async def _follow_changes(self) -> None:
        """Save what the start found, then follow changes; what changes meanwhile waits."""
        self.search.indexer.start()
        await self.detector.save()
        await asyncio.to_thread(self.texts.forget_unneeded)
        await self.detector.run()

    async def _look_through_texts(self) -> None:
        """What a start reads of the whole vault, while changes are followed already."""
        await self.baselines.keep_watched(self.index.paths())
        await record_declared_origins(self.state, self.origins, self.root, self.index, self.clock)
        trim_memory()

    async def _set_auth_mode(self, mode: Mode) -> None:
        """Save it in config.yaml, and apply it.

        Raises ConfigError, and changes nothing, if it would let everyone in.
        """
        if mode == "disabled" and is_open_to_others(self.settings):
            raise ConfigError(
                ["auth_mode may not be disabled while other machines reach the daemon"]
            )
        await asyncio.to_thread(set_setting, self.home, "auth_mode", mode)
        self.authenticator.mode = mode
        self.authenticator.look()

    async def _close(self) -> None:
        await self.hooks.close()  # first, so that callers that wait for a hook get an answer
        await self.at_work.stop("the daemon ended")  # the curators' have ended with the worker
        self._trimmer.close()
        for server in (self._server, self._supervisor):
            if server is not None:
                await server.close()
        await self.modules.stop()
        self.hook_events.close()
        await self.chosen.backend.close()
        if self.chosen.sandboxes is not None:
            await self.chosen.sandboxes.close()
        if self.gateway is not None:
            await self.gateway.close()
        self.home_upkeep.flush_key_uses()
        await asyncio.to_thread(self.search.close)
        for said in rescue(self.store, self.clock(), last_call=True):
            log.warning("a late write was rescued", extra={"said": said})
        self.store.close()
        self.audit.close()
        await self.vault.close()
