"""Watched vault: one vault with its lock, its state and its file watcher.

Cheap to import: it is all that a start waits for. A change that is found before the rest is loaded
waits until it can be recorded, and connections wait in the socket's backlog.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from parachuted import __version__
from parachuted.config import Settings
from parachuted.errors import DaemonError
from parachuted.events.bus import Bus, Problems
from parachuted.events.change_detector import ChangeDetector
from parachuted.events.changes import ChangeCommitter, ChangeListeners
from parachuted.events.disk_scan import DiskScan, load_ignore
from parachuted.events.watcher import make_watcher
from parachuted.home_files.vault_state import no_vault, same_vault, state_folder
from parachuted.processes.addresses import listening_sockets
from parachuted.processes.presence import Presence
from parachuted.state import open_state
from parachuted.texts.times import time_of, utc_now
from parachuted.vault import (
    IndexSnapshot,
    ObjectStore,
    Recovery,
    Scanner,
    VaultIndex,
    VaultRoot,
    WriteJournal,
)

_LOCAL_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where this machine reaches what listens on every address
_TASKS = "curator_tasks"


class WatchedVault:
    def __init__(
        self,
        settings: Settings,
        home: Path,
        *,
        clock: Callable[[], datetime] = utc_now,
        flags: Mapping[str, object] | None = None,
    ) -> None:
        """On the event loop. DaemonError when another daemon has the home or the vault.

        `flags` are what the command was given beside the settings, for a later restart.
        """
        if not settings.vault.is_dir():
            raise DaemonError(no_vault(settings.vault))
        self.settings, self.home, self.clock, self.flags = settings, home, clock, dict(flags or {})
        self.folder = state_folder(home, settings.vault)
        self._presence = Presence(os.fspath(home), os.fspath(settings.vault))
        self.bus = Bus(clock)
        self.problems = Problems(self.bus)
        self.root = VaultRoot(settings.vault)
        self.root.guard(same_vault(self.root.folder))
        self.state_file = self.folder / "state.db"
        self.state = open_state(self.state_file)
        self.objects = ObjectStore(self.folder / "objects")
        self.history = WriteJournal(self.folder / "history.db")
        self.written = self.history.last_write()
        self._snapshot = IndexSnapshot(self.folder)
        self.is_first_contact = False
        self.index = self._load_index()
        watcher = make_watcher(self.root.folder, settings.watch.engine)
        ignore_copy = self.folder / "parachuteignore"
        self.detector = ChangeDetector(
            disk_scan=DiskScan(
                self.root,
                Scanner(self.root, self.index, load_ignore(self.root, copy=ignore_copy)),
                watcher,
                ignore_copy,
            ),
            committer=ChangeCommitter(self.index, self._snapshot, self.history, self.load, clock),
            watcher=watcher,
            problems=self.problems,
            full_every_s=settings.scan.full_every_s,
        )
        self._listeners: ChangeListeners | None = None
        self._loader: Callable[[], Awaitable[ChangeListeners]] | None = None
        self.token = secrets.token_urlsafe(32)
        self.stopping = asyncio.Event()
        self.sockets: Sequence[socket.socket] = ()
        self.port = 0  # the one that is listened on, once `listen` was called
        self.tls_port = 0  # the one that is served encrypted, once it is open
        self.is_scanned = False

    def _load_index(self) -> VaultIndex:
        """The last life's; without the state that goes with it, first contact."""
        known = self.state.table("control").get_record("baseline")
        index = self._snapshot.load() if known is not None else None
        for subject, problem in (
            ("snapshot", self._snapshot.problem),
            ("history", self.history.problem),
            ("tables", self.state.problem),
        ):
            self.problems.set(subject, problem)
        self.is_first_contact = index is None
        return index if index is not None else VaultIndex()

    async def begin(self, loader: Callable[[], Awaitable[ChangeListeners]]) -> None:
        """Listen, and compare the whole vault with what was known.

        `loader` makes what records changes; it is awaited first where the last life left tasks half
        done, at first contact, and when a change is found. Raises DaemonError when the port cannot
        be used and OSError when the vault cannot be read.
        """
        self._loader = loader
        self.sockets = listening_sockets(self.settings.host, self.settings.port)
        self.port = int(self.sockets[0].getsockname()[1])
        self._recover()
        if self.is_first_contact or any(
            task.get("state") == "running" for _id, task in self.state.table(_TASKS).items()
        ):
            await self.load()
        await self.detector.first_scan()
        self.is_scanned = True
        if not self.is_first_contact:  # else its baseline comes first
            self.announce()

    async def load(self) -> ChangeListeners:
        """Load what follows changes, once. RuntimeError before `begin`."""
        if self._listeners is None:
            if self._loader is None:
                raise RuntimeError("nothing says what follows a change")
            self._listeners = await self._loader()
        return self._listeners

    def _recover(self) -> None:
        recovery = Recovery(
            root=self.root, objects=self.objects, history=self.history, now=self.clock()
        )
        for number, said in enumerate(recovery.run()):
            self.problems.set(f"recovered:{number}", said)

    def announce(self) -> None:
        self._presence.announce(
            {
                "pid": os.getpid(),
                "host": _LOCAL_ADDRESS.get(self.settings.host, self.settings.host),
                "port": self.port,
                "vault": os.fspath(self.settings.vault),
                "version": __version__,
                "started": time_of(self.clock()),
                "flags": self.flags,
                "token": self.token,
            }
        )

    async def close(self) -> None:
        for one in self.sockets:
            one.close()
        await self.detector.close()
        self.state.close()
        self.history.close()
        self.objects.close()
        self._presence.release()
