"""Followers: what follows each change of the vault, in order, and what is checked now and then."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from parachuted.api import KeyAuthenticator
from parachuted.audit.log import WriteAudit
from parachuted.bubbling import Reconciler
from parachuted.composition import VaultParts
from parachuted.errors import ParachuteError
from parachuted.events import Bus, Change, ChangeListeners, Problems
from parachuted.events.folder_signal import FolderSignal
from parachuted.events.watched_vault import WatchedVault
from parachuted.hooks import HookEventListener, Hooks
from parachuted.hooks.loading import SCRIPTS
from parachuted.processes.beat import next_beat
from parachuted.search.indexer import Indexer, IndexUpdate
from parachuted.vault import printable, rescue

log = logging.getLogger(__name__)

_DISK_EVERY_S = 2.0
_HOME_AFTER_S = 0.5  # where the system does not watch; a request checks the keys itself
_HOME_AT_LEAST_EVERY_S = 5.0  # a file behind a symbolic link changes unseen
_FLUSH_KEYS_EVERY_S = 600.0
_STATE_IS_GONE = (
    "the state folder was deleted while the daemon was running; `parachute restart` creates a new "
    "one"
)


@dataclass(frozen=True, slots=True)
class DiskUpkeep:
    """Reports a disk that refuses writes and a deleted state folder, and rescues late writes."""

    watched: WatchedVault
    vault: VaultParts

    async def run(self) -> None:
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
            report("state", None if watched.state_file.exists() else _STATE_IS_GONE)

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


class ChangeFollowers:
    """Until `end_first_contact`, changes are the vault's baseline and are not published."""

    def __init__(
        self,
        *,
        reconciler: Reconciler,
        writes: WriteAudit,
        indexer: Indexer,
        hooks: HookEventListener,
        bus: Bus,
        is_first_contact: bool,
    ) -> None:
        self._reconciler = reconciler
        self._writes, self._indexer, self._hooks, self._bus = writes, indexer, hooks, bus
        self._first: list[Change] | None = [] if is_first_contact else None

    def listeners(self) -> ChangeListeners:
        """What the change detector calls before the index follows a change, and after it."""
        return ChangeListeners(record=self._before_index, tell=self._after_index)

    def end_first_contact(self) -> None:
        """Take what was found so far as the baseline. Raises StorageFailedError."""
        if self._first is not None:
            self._reconciler.baseline(self._first)
            self._first = None

    async def _before_index(self, changes: Sequence[Change]) -> Callable[[], None]:
        if self._first is None:
            return await self._reconciler.record(changes)
        self._first += changes
        return lambda: None

    def _after_index(self, changes: Sequence[Change]) -> None:
        """The bus comes last: a listener that asks the audit or search finds the change there."""
        if self._first is not None:
            return
        with self._hooks.about(changes):
            self._writes.noticed(changes)
            self._indexer.follow(_files(changes))
            self._bus.publish_all((f"file.{change.kind}", _facts(change)) for change in changes)


def _files(changes: Sequence[Change]) -> Iterator[tuple[str, IndexUpdate]]:
    for change in changes:
        if change.source is not None:
            yield change.source, IndexUpdate(None)
        yield change.path, IndexUpdate(change.new, change.data)


def _facts(change: Change) -> dict[str, object]:
    facts: dict[str, object] = {
        "path": printable(change.path),
        "by": change.author.by,
        "run": change.author.run,
        "key": change.author.key or None,
        "causes": list(change.author.causes),
        "digest": change.new.digest if change.new is not None else None,
    }
    if change.source is not None:
        facts["from"] = printable(change.source)
    return facts
