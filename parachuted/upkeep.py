"""Upkeep: what the daemon checks from time to time: the disk, and the files of its home."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from parachuted.access.origins import Origins, is_looked_back, look_back, set_looked_back
from parachuted.api import KeyAuthenticator
from parachuted.composition import VaultParts
from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.events import Problems
from parachuted.events.watched_vault import WatchedVault
from parachuted.events.watcher import make_watcher
from parachuted.hooks import Hooks
from parachuted.hooks.loading import SCRIPTS
from parachuted.processes.beat import next_beat
from parachuted.vault import rescue

log = logging.getLogger(__name__)

_DISK_EVERY_S = 1.0
_HOME_AFTER_S = 0.5  # where the system does not watch; a request checks the keys itself
_HOME_AT_LEAST_EVERY_S = 5.0  # a file behind a symbolic link changes unseen
_FLUSH_KEYS_EVERY_S = 600.0
_STATE_IS_GONE = (
    "the state folder was deleted while the daemon was running; `parachute restart` creates a new "
    "one"
)


@dataclass(frozen=True, slots=True)
class DiskUpkeep:
    """Reports a disk that refuses writes and a state folder that was deleted, and rescues what
    other programs still wrote into files that were replaced.
    """

    watched: WatchedVault
    vault: VaultParts

    async def run(self) -> None:
        """Check once a second, until cancelled."""
        watched, vault, report = self.watched, self.vault, self.watched.problems.set
        for number in itertools.count():
            await next_beat(_DISK_EVERY_S)
            if vault.store.expects_late_writes:
                for rescued in await asyncio.to_thread(rescue, vault.store, watched.clock()):
                    report(f"rescued:{number}", rescued)
            report("disk", vault.store.trouble)
            vault.search.indexer.look()
            report("suggestions", vault.suggestions.trouble)
            report("audit", vault.audit.trouble or vault.audit.broken)
            if vault.elapsed.is_due:
                await self._save_elapsed()
            report("state", None if watched.journal.exists() else _STATE_IS_GONE)

    async def _save_elapsed(self) -> None:
        """A failure loses only the jumps of the wall clock between this and a reboot."""
        try:
            await asyncio.to_thread(self.vault.elapsed.keep)
        except OSError as error:
            log.warning("the time for limits was not saved", extra={"reason": str(error)})


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeUpkeep:
    """Follows keys.yaml and the hooks, which a person edits in the home."""

    home: Path
    authenticator: KeyAuthenticator
    hooks: Hooks
    problems: Problems

    async def run(self) -> None:
        """Follow changes at once, until cancelled; save when keys were last used now and then."""
        loop = asyncio.get_running_loop()
        flushed_at = loop.time()
        ring = self.authenticator.ring
        signal = FolderSignal(
            self.home, ("", SCRIPTS), shortest_s=_HOME_AFTER_S, longest_s=_HOME_AT_LEAST_EVERY_S
        )
        try:
            while True:
                self.authenticator.look()
                self.hooks.look()
                self.problems.set("keys", ring.problem)
                if ring.is_unsettled or ring.ends_within(_HOME_AT_LEAST_EVERY_S):
                    await next_beat(_HOME_AFTER_S)
                else:
                    await signal.wait()
                if loop.time() - flushed_at >= _FLUSH_KEYS_EVERY_S:
                    flushed_at = loop.time()
                    await asyncio.to_thread(self.flush_key_uses)
        finally:
            signal.close()

    def flush_key_uses(self) -> None:
        """Save when each key was last used. Blocks."""
        try:
            self.authenticator.ring.flush()
        except ParachuteError as error:
            log.warning(
                "the times at which keys were used were not saved", extra={"reason": error.message}
            )


async def record_declared_origins(watched: WatchedVault, origins: Origins) -> None:
    """Find notes that declare a stranger's text, once in a vault that an earlier version knew."""
    if is_looked_back(watched.state):
        return
    paths = list(watched.index.paths())
    try:
        await asyncio.to_thread(look_back, origins, watched.root, watched.index, paths)
        set_looked_back(watched.state, watched.clock())
    except StorageFailedError as error:
        log.warning(
            "where the vault's texts came from could not be recorded; the next start does it",
            extra={"reason": error.message},
        )


class FolderSignal:
    """Watches folders below `root`, by relative name ("" for itself).

    A hint only: `wait` returns after `longest_s` seconds anyway, or after `shortest_s` where the
    system does not watch.
    """

    def __init__(
        self, root: Path, folders: Iterable[str], *, shortest_s: float, longest_s: float
    ) -> None:
        self._folders, self._shortest_s, self._longest_s = tuple(folders), shortest_s, longest_s
        self._changed = asyncio.Event()
        self._watcher = make_watcher(root)
        self._watcher.start(lambda _hints: self._changed.set())
        self._is_watched = self._enter()

    async def wait(self) -> None:
        """Wait until something has changed since the last call, or the time has passed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._longest_s if self._is_watched else self._shortest_s):
                await self._changed.wait()
        self._changed.clear()
        self._is_watched = (
            self._enter()
        )  # before anyone looks, so that what is made in a new folder meanwhile is heard

    def close(self) -> None:
        self._watcher.close()

    def _enter(self) -> bool:
        try:
            for folder in self._folders:
                self._watcher.enter(folder)
        except OSError:
            return False
        return True
