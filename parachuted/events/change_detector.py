"""Change detector: turns hints into changes.

A known file that was closed is read at once, and so is a new one that was renamed into place. What
else is new, missing, emptied or being written is looked at again after a moment, so that each way
in which editors save gives one change. Overflow, silence and the clock lead to a full walk.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from parachuted.errors import StorageFailedError
from parachuted.events.bus import Problems
from parachuted.events.changes import Change, ChangeCommitter, SortedChanges, sort_seen
from parachuted.events.disk_scan import DiskScan, FileIdentity, ScanRequest, ScanResult
from parachuted.events.watcher import (
    UNREPORTED_EVERY_S,
    ChangeHints,
    Debouncer,
    DebounceTimes,
    FileWatcher,
    WatchfilesWatcher,
)
from parachuted.vault import IGNORE_FILE, PathDifference, printable

log = logging.getLogger(__name__)

_MANY = 20
_REST = 20
_PACE = DebounceTimes()


class ChangeDetector:
    def __init__(
        self,
        *,
        disk_scan: DiskScan,
        committer: ChangeCommitter,
        watcher: FileWatcher,
        problems: Problems,
        full_every_s: float,
        pace: DebounceTimes = _PACE,
    ) -> None:
        self._disk_scan, self._committer = disk_scan, committer
        self._watcher, self._problems = watcher, problems
        self._full_every_s = (
            min(full_every_s, UNREPORTED_EVERY_S)
            if isinstance(watcher, WatchfilesWatcher)
            else full_every_s
        )
        self._pace = pace
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scanner")
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._one_asks = asyncio.Lock()
        self._asked: set[str] = set()
        self._wake = asyncio.Event()
        self._next = ScanRequest()
        self._debouncer = Debouncer(pace)
        self._next_full = 0.0
        self._rest_until = 0.0
        self._vault: FileIdentity | None = None
        self._here: FileIdentity | None = None
        self._is_unsaved = False
        self._canary = disk_scan.canary(every_s=pace.canary, patience_s=2 * pace.heartbeat)
        self.polling = False

    @property
    def busy(self) -> bool:
        """Whether something is still to be scanned."""
        return bool(self._next or self._debouncer or self._lock.locked())

    @property
    def is_noticing(self) -> bool:
        """Whether a change is being processed now. Any thread may ask."""
        return bool(self._next) or self._lock.locked()

    async def first_scan(self) -> None:
        """Compare all, and watch each folder from then on; `save` afterwards. OSError."""
        self._watcher.start(self._on_hints)
        self._problems.set(IGNORE_FILE, self._disk_scan.ignore.problem)
        self._here = self._disk_scan.identity()
        await self._turn(ScanRequest(everything=True, final=True, first=True))

    async def run(self) -> None:
        while True:
            await self._wait()
            await self._look_after_canary()
            here = self._disk_scan.identity()
            if self._loop.time() >= self._next_full or here != self._here:
                self._next.everything = True
            self._here = here
            turn = self._take()
            if turn:
                turn.everything |= here != self._vault
                await self._guarded(turn)

    async def notice(self, paths: Iterable[str]) -> None:
        """Scan these paths now, as final; one that ends with a slash is a folder and all below.

        What fails is detected later, with the same author. Callers during a turn share the next.
        """
        shared = self._asked
        shared.update(paths)
        async with self._one_asks:
            if shared is self._asked:
                self._asked = set()
                folders = {path for path in shared if path.endswith("/")}
                turn = ScanRequest(closed=shared - folders, final=True)
                turn.folders |= {folder.rstrip("/") for folder in folders}
                await self._guarded(turn)

    async def rescan(self, *, accept_missing: bool = False) -> None:
        """`accept_missing`: missing files were meant to go. Raises StorageFailedError."""
        try:
            await self._turn(
                ScanRequest(everything=True, final=accept_missing, accept_missing=accept_missing)
            )
        except OSError as error:
            raise StorageFailedError(
                f"the vault cannot be read: {error.strerror}", errno=error.errno
            ) from error
        self._problems.set("vault", None)

    async def save(self) -> None:
        """A failure is reported and retried after the next full walk."""
        async with self._lock:
            await self._save()

    async def close(self) -> None:
        self._watcher.close()
        await self.save()
        self._committer.close()
        self._thread.shutdown()

    async def _save(self) -> None:
        try:
            await self._loop.run_in_executor(self._thread, self._committer.save)
        except OSError as error:
            log.warning("the index was not written down", extra={"error": str(error)})
            self._problems.set(
                "index",
                f"what is known of the vault cannot be kept ({error.strerror}); trying again",
            )
            self._is_unsaved = True
            self._next_full = self._loop.time() + self._pace.heartbeat
        else:
            self._problems.set("index", None)
            self._is_unsaved = False

    async def _look_after_canary(self) -> None:
        """About once a minute; while hints do not come, the vault is polled by walks."""
        was_silent = self._canary.is_silent
        if self._canary.is_due(self._loop.time()):
            await self._loop.run_in_executor(self._thread, self._canary.touch, self._loop.time())
        self._next.everything |= self._canary.is_silent and not was_silent

    def _on_hints(self, hints: ChangeHints) -> None:
        now, was_silent = self._loop.time(), self._canary.is_silent
        for path, hint in hints.paths.items():
            if self._canary.hears(path):
                self._next.everything |= was_silent
                continue
            if _is_scrap(path):
                continue
            if hint == "closed" and (
                self._committer.knows(path) or self._is_put_in_place(hints, path)
            ):
                self._debouncer.discard(path)
                self._next.closed.add(path)
            elif hint == "touched" and path in self._committer.index:
                self._next.folders.add(path)
            else:
                self._next.closed.discard(path)
                self._debouncer.add(path, hint, now)
        self._next.folders |= hints.folders
        if hints.missed:
            self._next.everything = True
            self._rest_until = 0.0
        if self._next or self._debouncer:
            self._wake.set()

    def _is_put_in_place(self, hints: ChangeHints, path: str) -> bool:
        """Whether it was written under a passing name first, and got its own when whole."""
        old_name = hints.old_names.get(path)
        return old_name is not None and not self._committer.knows(old_name)

    async def _wait(self) -> None:
        """Until a hint, a due path or a heartbeat: a vault put in another's place gives no hint.

        After a failure a heartbeat must pass, unless the vault itself moved.
        """
        while (is_resting := self._loop.time() < self._rest_until) or not self._next:
            heartbeat = self._loop.time() + self._pace.heartbeat
            upcoming = (
                self._rest_until
                if is_resting
                else min(self._debouncer.next_due(), self._next_full, heartbeat)
            )
            waker = self._loop.call_at(upcoming, self._wake.set)
            await self._wake.wait()
            waker.cancel()
            self._wake.clear()
            if not is_resting:
                return
        self._wake.clear()

    def _take(self) -> ScanRequest:
        turn, self._next = self._next, ScanRequest()
        turn.finished, turn.unfinished = self._debouncer.pop(self._loop.time())
        return turn

    async def _guarded(self, turn: ScanRequest) -> None:
        """When the disk or the state refuses, report it and scan everything again soon."""
        try:
            await self._turn(turn)
        except (OSError, StorageFailedError) as error:
            log.warning("could not notice changes", extra={"error": str(error)})
            self._problems.set(
                "vault",
                f"the vault cannot be read, or the state not written ({error}); nothing is "
                "inferred, trying again",
            )
        else:
            if turn.everything:
                self._problems.set("vault", None)

    async def _turn(self, turn: ScanRequest) -> None:
        async with self._lock:
            try:
                with _no_garbage_collection():
                    changes = await self._noticed(turn)
            except (OSError, StorageFailedError):
                self._next_full = self._rest_until = self._loop.time() + self._pace.heartbeat
                self._is_unsaved = True
                raise
            finally:
                # `run` may be asleep until a later moment than what is to be looked at now
                self._wake.set()
            if self._disk_scan.ignore.is_stale or any(
                IGNORE_FILE in (change.path, change.source) for change in changes
            ):
                # within the lock: until the next walk is arranged, this turn is not over
                await self._reload_ignore()

    async def _noticed(self, turn: ScanRequest) -> list[Change]:
        began = self._loop.time()
        look = await self._loop.run_in_executor(
            self._thread, self._disk_scan.look, turn, self._vault, self._debouncer.missing
        )
        self._watcher.poll()
        self._arrange(turn, look, took=self._loop.time() - began)
        settled = look.scan.seen if turn.final else self._settled(turn, look, began)
        sorted_changes = await self._loop.run_in_executor(
            self._thread, sort_seen, settled, self._disk_scan.is_same
        )
        plausible = self._plausible(turn, look, sorted_changes)
        changes = await self._committer.commit(plausible, self._thread, remember=not turn.first)
        self._settle(look, changes)
        if turn.everything and self._is_unsaved:
            await self._save()
        return changes

    def _arrange(self, turn: ScanRequest, look: ScanResult, *, took: float) -> None:
        """Report problems and schedule the next scans; `took`: this one's seconds."""
        now, scan, paths = self._loop.time(), look.scan, turn.paths()
        if turn.everything:
            reason = self._reason_to_poll()
            self.polling = reason is not None
            self._problems.set("watching", reason)
            self._next_full = now + (
                max(self._pace.heartbeat, _REST * took) if self.polling else self._full_every_s
            )
            self._problems.replace("file:", scan.problems)
        else:
            self._next.everything |= self._disk_scan.is_unwatched and not self.polling
            if self._problems.any_open:
                for path in paths.difference(scan.problems):
                    self._problems.set(f"file:{printable(path)}", None)
            if scan.problems:
                self._problems.add("file:", scan.problems.items())
        self._debouncer.scanned(paths - scan.unsettled, now)
        for path in scan.unsettled:
            self._debouncer.again(path, now)
        looked_at = self._debouncer.missing if turn.everything else paths
        self._debouncer.found(
            set(looked_at).difference(seen.path for seen in scan.seen if seen.new is None)
        )

    def _reason_to_poll(self) -> str | None:
        """Why hints are not enough, so that the vault is walked repeatedly."""
        if self._disk_scan.is_unwatched:
            return (
                "the system gives no more watches, so the vault is walked again and again; "
                "raise fs.inotify.max_user_watches"
            )
        if self._disk_scan.network is not None:
            reason = (
                f"the vault is on a network file system ({self._disk_scan.network}), which does "
                "not report what other devices change"
            )
            return f"{reason}, so it is scanned again and again"
        if self._canary.is_silent:
            return (
                "the operating system no longer reports changes, so the vault is scanned again and "
                "again; `parachute restart` starts a new watch"
            )
        return None

    def _settled(self, turn: ScanRequest, look: ScanResult, began: float) -> list[PathDifference]:
        """Without files that are being written again or look truncated; those are scanned again."""
        return [
            item
            for item in look.scan.seen
            if item.new is None
            or not (self._is_begun(turn, item, began) or self._is_cut(turn, item))
        ]

    def _is_begun(self, turn: ScanRequest, item: PathDifference, began: float) -> bool:
        return self._debouncer.is_written_since(item.path, began) and item.path not in turn.finished

    def _is_cut(self, turn: ScanRequest, item: PathDifference) -> bool:
        """Many programs empty a file, close it, and open it again to write."""
        if (
            item.path not in turn.closed
            or item.old is None
            or not item.old.size
            or item.new is None
            or item.new.size
        ):
            return False
        self._debouncer.again(item.path, self._loop.time())
        return True

    def _plausible(
        self, turn: ScanRequest, look: ScanResult, changes: SortedChanges
    ) -> SortedChanges:
        """What was added, and what may be treated as removed.

        When most of the vault is gone at once, or all of it because the vault is another folder, it
        is taken for a lost disk or a sync accident until a person confirms it.
        """
        now = self._loop.time()
        moving = bool(changes.went) and any(
            not self._committer.knows(path) for path in self._debouncer.waiting()
        )
        gone = [
            seen
            for seen in changes.went
            if turn.final
            or seen.path in look.ignored
            or self._debouncer.is_gone(seen.path, now, may_have_moved=moving)
        ]
        missing = [seen for seen in gone if seen.path not in look.ignored]
        problem = self._implausible(missing, look) if missing and not turn.accept_missing else None
        if problem is not None:
            self._problems.set("missing", problem)
            self._next_full = now + self._pace.heartbeat
            gone = [seen for seen in gone if seen.path in look.ignored]
        elif len(gone) == len(changes.went):
            self._vault = look.vault
            if turn.everything:
                self._problems.set("missing", None)
        return SortedChanges(came=changes.came, went=gone, same=changes.same)

    def _implausible(self, gone: list[PathDifference], look: ScanResult) -> str | None:
        """Files missing for too short a time count too, so that a storm is seen as a whole."""
        known = len(self._committer.index)
        missing = len(
            {seen.path for seen in gone}.union(
                path for path in self._debouncer.missing if self._committer.knows(path)
            )
        )
        if (missing < _MANY or missing * 2 <= known) and not (
            missing == known and look.vault != self._vault
        ):
            return None
        text = f"{missing} of {known} files are gone at once, so nothing is taken as deleted"
        return f"{text}; if they were meant to go, run `parachute doctor --accept-missing`"

    def _settle(self, look: ScanResult, changes: Iterable[Change]) -> None:
        for folder in look.scan.gone_folders:
            self._watcher.leave(folder)
        self._committer.follow_folders(
            look.scan.new_folders, look.scan.gone_folders, self._disk_scan.entered
        )
        for change in changes:
            if change.source is not None:
                self._debouncer.found([change.source])
            elif change.new is None:
                self._debouncer.found([change.path])

    async def _reload_ignore(self) -> None:
        problem = await self._loop.run_in_executor(self._thread, self._disk_scan.reload_ignore)
        self._problems.set(IGNORE_FILE, problem)
        if not self._disk_scan.ignore.is_stale:
            self._next.everything = True
            self._wake.set()


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A scan drops hardly one of its objects; looking for garbage would take a third of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _is_scrap(path: str) -> bool:
    """Whether it is no note by its name, so that an editor's passing files wake no watcher."""
    name = path.rpartition("/")[2]
    return name.startswith(".") and name != IGNORE_FILE
