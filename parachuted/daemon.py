"""Daemon: the life of one vault's daemon: how it starts, what it does meanwhile, how it ends."""

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
from typing import TYPE_CHECKING

from parachuted.agents.choice import BackendChoice
from parachuted.api import HttpServer, Mode
from parachuted.composition import (
    build_agents,
    build_hooks,
    build_loop,
    build_modules,
    build_vault,
    make_authenticator,
    make_elapsed_clock,
)
from parachuted.config import Settings, is_open_to_others, set_setting
from parachuted.errors import ConfigError, DaemonError
from parachuted.events import ChangeListeners, Event
from parachuted.events.watched_vault import WatchedVault
from parachuted.followers import ChangeFollowers, DiskUpkeep, HomeUpkeep
from parachuted.http_routes import DaemonControl, HttpRoutes
from parachuted.processes.heavy import expect_heavy
from parachuted.processes.memory import MemoryTrimmer, limit_heaps, trim_memory
from parachuted.suggestions.approval_listener import ApprovalListener
from parachuted.tasks import Causes
from parachuted.texts.times import utc_now
from parachuted.vault import rescue

if TYPE_CHECKING:
    from parachuted.keys.tls import TlsListener

log = logging.getLogger(__name__)

_THREADS = 256
_SWITCH_S = 0.0005


def _tune_process() -> None:
    """Threads for writers that wait for a hook, beside those that answer what the hook asks; and a
    short switch interval, so that busy threads do not keep the loop waiting.
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
        vault. Hooks, git and pip see a part of `env`. `watched` is the vault where it is open
        already.
        """
        _tune_process()
        env = os.environ if env is None else env
        watched = self.watched = watched or WatchedVault(settings, home, clock=clock)
        if chosen.gateway is not None:
            chosen.gateway.report_to(watched.problems.set)
        elapsed = make_elapsed_clock(watched, chosen)

        def latest() -> datetime:
            return max(watched.clock(), elapsed.moment())

        causes = Causes(watched.state)
        self.hooks = build_hooks(watched, causes, env)
        self.vault = build_vault(watched, self.hooks.for_writes, elapsed)
        is_offline = chosen.backend.name == "offline"
        self.loop = build_loop(watched, self.vault, causes, reviews_at_once=is_offline)
        hooks = self.hooks.hooks
        self.agents = build_agents(watched, self.vault, self.loop, hooks, causes, chosen)
        self.authenticator = make_authenticator(watched, latest)
        self.authenticator.subscribe(self.agents.active_runs.recheck)
        self.modules = build_modules(
            watched, self.vault, self.loop, self.agents, hooks, self.authenticator, latest, env
        )
        self.is_to_begin_again = False
        control = DaemonControl(watched.clock(), self._end, self._set_auth_mode, env)
        self.http = HttpRoutes(
            watched,
            self.hooks,
            self.vault,
            self.loop,
            self.agents,
            self.modules,
            self.authenticator,
            control,
        )
        self.modules.containers.serve = self.http.serve_module
        self.approvals = ApprovalListener(self.vault.suggestions, watched.root, watched.bus)
        self._followers = ChangeFollowers(
            reconciler=self.loop.reconciler,
            writes=self.vault.writes,
            indexer=self.vault.search.indexer,
            hooks=self.hooks.for_events,
            bus=watched.bus,
            is_first_contact=watched.is_first_contact,
        )
        self._home_upkeep = HomeUpkeep(
            home=watched.home,
            authenticator=self.authenticator,
            hooks=hooks,
            problems=watched.problems,
        )
        self._server: HttpServer | None = None
        self._tls = self._make_tls_listener()
        self._supervisor: HttpServer | None = None
        self._trimmer = MemoryTrimmer()
        if chosen.model is not None:  # what a model needs loads while the first task waits
            watched.bus.subscribe(lambda _event: expect_heavy("claude"), "task.queued")
        watched.bus.subscribe(lambda _event: self._trimmer.trim_soon(), "run.finished")
        watched.bus.subscribe(self._end_runs_of_module, "module.disabled")

    @property
    def port(self) -> int:
        return self.watched.port

    def _make_tls_listener(self) -> TlsListener | None:
        watched = self.watched
        if not watched.settings.tls.port:
            return None
        from parachuted.keys.tls import TlsListener  # noqa: PLC0415  few daemons load it

        return TlsListener(watched.home, watched.problems.set, watched.clock)

    def _end_runs_of_module(self, event: Event) -> None:
        """A module that was switched off, or whose rights were changed, has no agents at work."""
        name = event.data["name"]
        self.agents.active_runs.end(
            f"the module {name} was switched off or changed", lambda working: working.module == name
        )

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Run until `stop`; `ready` is called once the vault is watched and the API answers."""
        try:
            await self._start()
            log.info(
                "watching",
                extra={
                    "vault": str(self.watched.settings.vault),
                    "files": len(self.watched.index),
                    "agent": self.agents.chosen.reason,
                },
            )
            ready()
            gc.collect()  # imports leave a copy of each class with slots
            gc.enable()
            gc.freeze()
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._follow_changes(), name="changes"),
                    group.create_task(self._look_through_texts(), name="texts"),
                    group.create_task(self.agents.worker.run(), name="worker"),
                    group.create_task(DiskUpkeep(self.watched, self.vault).run(), name="disk"),
                    group.create_task(
                        self.loop.reconciler.follow_up(self.vault.search.list_when_current),
                        name="follow up",
                    ),
                    group.create_task(self._home_upkeep.run(), name="home"),
                    group.create_task(self.hooks.hooks.run(), name="hooks"),
                    group.create_task(self.hooks.for_events.run(), name="hooks' events"),
                    group.create_task(self._run_modules(), name="modules"),
                    group.create_task(self.loop.pruning.run(), name="history"),
                    group.create_task(self._sweep_sandboxes(), name="sandboxes"),
                    group.create_task(self.approvals.run(), name="suggestions"),
                    group.create_task(self._renew_certificate(), name="tls"),
                ]
                await self.watched.stopping.wait()
                for task in tasks:
                    task.cancel()
        finally:
            await self._close()
            log.info("stopped")

    async def _sweep_sandboxes(self) -> None:
        """Remove what an earlier daemon left; Docker is slow, and asked only if need be."""
        sandboxes = self.agents.chosen.sandboxes
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
        await self.modules.containers.sweep()
        await self.modules.manager.run()

    def stop(self) -> None:
        """End `run` and the agents at work; their tasks are done again at the next start."""
        self.watched.stopping.set()

    def _end(self, is_to_begin_again: bool) -> None:  # noqa: FBT001  a seam for the API
        self.is_to_begin_again = is_to_begin_again
        self.stop()

    async def prepare(self) -> ChangeListeners:
        """Settle what the last daemon left; returns what each change is recorded by."""
        self.vault.writes.catch_up(self.watched.history, self.vault.audit.written)
        self.vault.audit.start()
        for number, said in enumerate(await self.agents.recovery.settle_runs()):
            self.watched.problems.set(f"interrupted:{number}", said)
        return self._followers.listeners()

    async def _start(self) -> None:
        vault = self.watched
        if not vault.is_scanned:
            await vault.begin(self.prepare)
        await vault.load()
        if vault.is_first_contact:
            self._followers.end_first_contact()
            vault.is_first_contact = False
            self.watched.state.table("control").put(
                "baseline", {"at": self.watched.clock().isoformat()}
            )
            vault.announce()
        self.agents.recovery.end_lost_runs()
        self.hooks.for_writes.begin()
        is_asked = self.vault.store.is_asked  # by a hook, which may need the API
        if not is_asked:
            await self._finish_acts()
        self._server = HttpServer(self.http.make_app())
        await self._server.open_at(vault.sockets)
        if is_asked:
            await self._finish_acts()
        if self._tls is not None:
            chosen = vault.settings.tls
            vault.tls_port = await self._tls.open(chosen.host, chosen.port, self._server.open_at)
        await self._listen_as_supervisor()

    async def _finish_acts(self) -> None:
        """What was cut short by the end of the last daemon is whole before anyone can ask."""
        said_by = await self.agents.recovery.finish_acts(self.vault.store.notice)
        for number, said in enumerate(said_by):
            self.watched.problems.set(f"unfinished:{number}", said)

    async def _listen_as_supervisor(self) -> None:
        port = self.watched.settings.api.supervisor_port
        if not port:
            return
        self._supervisor = HttpServer(self.http.make_supervisor_app())
        try:
            await self._supervisor.open("127.0.0.1", port)
        except DaemonError:
            self.watched.problems.set(
                "supervisor",
                f"port {port} is in use; set another as api.supervisor_port, then `parachute "
                "restart`",
            )

    async def _follow_changes(self) -> None:
        """Save what the start found, then follow changes; what changes meanwhile waits."""
        self.vault.search.indexer.start()
        await self.watched.detector.save()
        await asyncio.to_thread(self.loop.texts.forget_unneeded)
        await self.watched.detector.run()

    async def _look_through_texts(self) -> None:
        """What a start reads of the whole vault, while changes are followed already."""
        await self.loop.watched_texts.keep_watched(self.watched.index.paths())
        trim_memory()

    async def _set_auth_mode(self, mode: Mode) -> None:
        """Save and apply it. Raises ConfigError if it would let everyone in."""
        if mode == "disabled" and is_open_to_others(self.watched.settings):
            raise ConfigError(
                ["auth_mode may not be disabled while other machines reach the daemon"]
            )
        await asyncio.to_thread(set_setting, self.watched.home, "auth_mode", mode)
        self.authenticator.mode = mode
        self.authenticator.look()

    async def _close(self) -> None:
        await self.hooks.hooks.close()  # first, so that callers that wait for a hook get an answer
        await self.agents.active_runs.stop(
            "the daemon ended"
        )  # the curators' have ended with the worker
        self._trimmer.close()
        for server in (self._server, self._supervisor):
            if server is not None:
                await server.close()
        await self.modules.manager.stop()
        self.hooks.for_events.close()
        await self.agents.chosen.backend.close()
        if self.agents.chosen.sandboxes is not None:
            await self.agents.chosen.sandboxes.close()
        if self.agents.chosen.gateway is not None:
            await self.agents.chosen.gateway.close()
        self._home_upkeep.flush_key_uses()
        await asyncio.to_thread(self.vault.search.close)
        for said in rescue(self.vault.store, self.watched.clock(), last_call=True):
            log.warning("a late write was rescued", extra={"said": said})
        self.vault.store.close()
        self.vault.audit.close()
        await self.watched.close()
