"""File watcher: which paths may have changed, and after which delay each is worth a look.

A hint only, the scanner decides. On Linux inotify itself: it wakes at once, costs nothing while
nothing happens, and says when its queue overflowed. watchfiles, at a step short enough to be as
quick (2 ms), takes 2 % of a core for ever and swallows the overflow.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import os
import sys
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from parachuted.processes.heavy import load_heavy_here

HintKind = Literal["closed", "open", "gone", "touched"]

_MANY = 20
_ROUNDING_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class DebounceTimes:
    """In seconds, after which a path is scanned: `new`, since a new file may be temporary; `gone`,
    since many editors remove a file briefly; `open`, after the last write into a file that stays
    open; `touched`, where no more is known.

    `burst`: how long a storm may delay the scan; `patience`: the same for a file that is always
    being written. `heartbeat`: between checks that the vault is still there, and between walks
    where hints are unavailable; `canary`: between checks that hints still come.
    """

    new: float = 0.1
    gone: float = 0.15
    touched: float = 0.15
    open: float = 2.0
    burst: float = 2.0
    patience: float = 60.0
    heartbeat: float = 5.0
    canary: float = 60.0


class Debouncer:
    """The last hint for each waiting path, and since when known files are missing."""

    def __init__(self, pace: DebounceTimes) -> None:
        self._pace = pace
        self._due: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._closed: set[str] = set()
        self._written: dict[str, float] = {}
        self._missing: dict[str, float] = {}
        self._last_missed = -math.inf

    def __bool__(self) -> bool:
        return bool(self._due)

    @property
    def missing(self) -> tuple[str, ...]:
        """They seem to be missing, for long enough or not."""
        return tuple(self._missing)

    def next_due(self) -> float:
        """Infinity: nothing waits."""
        return min(self._due.values(), default=math.inf)

    def add(self, path: str, hint: HintKind, now: float) -> None:
        since = self._since.setdefault(path, now)
        if hint == "closed":
            self._missing.pop(path, None)
            self._written.pop(path, None)
            self._closed.add(path)
            self._due[path] = min(now + self._pace.new, max(since + self._pace.burst, now))
        elif hint == "open":
            self._missing.pop(path, None)
            self._closed.discard(path)
            self._written[path] = now
            self._due[path] = min(now + self._pace.open, max(since + self._pace.patience, now))
        elif hint == "gone":
            self._closed.discard(path)
            self._written.pop(path, None)
            self._miss(path, now)
        else:
            self.again(path, now)

    def again(self, path: str, now: float) -> None:
        self._since.setdefault(path, now)
        self._due[path] = min(self._due.get(path, math.inf), now + self._pace.touched)

    def pop(self, now: float) -> tuple[set[str], set[str]]:
        """Those whose writers finished or were waited for long enough, and the others."""
        due = {path for path, moment in self._due.items() if moment <= now}
        for path in due:
            del self._due[path]
        finished = {
            path
            for path in due
            if path in self._closed or now - self._since[path] >= self._pace.patience - _ROUNDING_S
        }
        return finished, due - finished

    def scanned(self, paths: Iterable[str], now: float) -> None:
        """They need not wait any more, unless new hints came after they were taken."""
        for path in paths:
            if path in self._due:
                self._since[path] = now
            else:
                self.discard(path)

    def discard(self, path: str) -> None:
        """Forget all about a path, except that it is missing."""
        self._due.pop(path, None)
        self._since.pop(path, None)
        self._closed.discard(path)
        self._written.pop(path, None)

    def is_written_since(self, path: str, moment: float) -> bool:
        """A program started writing the file since then and has not closed it yet."""
        return self._written.get(path, -math.inf) >= moment

    def waiting(self) -> Iterator[str]:
        """To be scanned, and not missing."""
        return (path for path in self._due if path not in self._missing)

    def is_gone(self, path: str, now: float, *, may_have_moved: bool) -> bool:
        """Whether it has been missing for long enough; else it waits.

        That takes longer in a storm of deletions, and while it may be a file still to be scanned.
        """
        age = now - self._missing.get(path, now) + _ROUNDING_S
        is_storm = (
            len(self._missing) >= _MANY and now - self._last_missed + _ROUNDING_S < self._pace.gone
        )
        if age >= (self._pace.burst if is_storm or may_have_moved else self._pace.gone):
            return True
        self._miss(path, now)
        return False

    def found(self, paths: Iterable[str]) -> None:
        """They are not missing, or their removal is settled."""
        for path in paths:
            self._missing.pop(path, None)

    def _miss(self, path: str, now: float) -> None:
        self._since.setdefault(path, now)
        if path not in self._missing:
            self._missing[path] = now
            self._last_missed = now
        self._due[path] = min(self._due.get(path, math.inf), now + self._pace.gone)


if sys.platform == "linux":
    from inotify_simple import INotify, flags, parse_events

log = logging.getLogger(__name__)

_PIECE = 1 << 16
_RESTART_S = 5.0


@dataclass(slots=True, kw_only=True)
class ChangeHints:
    """Vault-relative paths that may have changed, each with its last hint.

    `closed`: or renamed into place. `open`: created or written; its close will be reported.
    `missed`: hints were lost, or the vault itself was moved.
    """

    paths: dict[str, HintKind] = field(default_factory=dict)
    old_names: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    missed: bool = False


class FileWatcher:
    """What a watcher does not define does nothing."""

    def start(self, on_hints: Callable[[ChangeHints], None]) -> None:
        """`on_hints` is called on the event loop."""

    def enter(self, folder: str) -> None:
        """From any thread. OSError when the system's watches are used up."""

    def leave(self, folder: str) -> None:
        """That folder is gone or was renamed."""

    def poll(self) -> None:
        """Report now what the system has reported so far."""

    def close(self) -> None:
        """End."""


class NullFileWatcher(FileWatcher):
    """For systems that refuse to watch: it refuses folders too, so that the vault is polled."""

    def __init__(self, reason: OSError) -> None:
        self._reason = reason

    def enter(self, folder: str) -> None:
        raise OSError(self._reason.errno, self._reason.strerror, folder)


UNREPORTED_EVERY_S = 60.0
"""The seconds after which the vault is walked for what watchfiles does not report."""


class WatchfilesWatcher(FileWatcher):
    """Recursive, and only the path is known. It says nothing of writes through mmap.

    `watch` yields sets of (kind, absolute path), as `watchfiles.awatch` does.
    """

    def __init__(
        self, root: Path, watch: Callable[[Path], AsyncIterable[Iterable[tuple[object, str]]]]
    ) -> None:
        self._root = root
        self._watch = watch
        self._task: asyncio.Task[None] | None = None

    def start(self, on_hints: Callable[[ChangeHints], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(
            self._follow(on_hints), name="watchfiles"
        )

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _follow(self, on_hints: Callable[[ChangeHints], None]) -> None:
        """When it ends or fails, report missed hints and start again."""
        while True:
            try:
                async for changes in self._watch(self._root):
                    on_hints(self._hints(changes))
            except (OSError, RuntimeError) as error:
                log.warning(
                    "the operating system's watch of the vault ended; a new one is started",
                    extra={"error": str(error)},
                )
            await asyncio.sleep(_RESTART_S)
            on_hints(ChangeHints(missed=True))

    def _hints(self, changes: Iterable[tuple[object, str]]) -> ChangeHints:
        hints = ChangeHints()
        for _kind, path in changes:
            relative = os.path.relpath(path, self._root)
            if relative == os.curdir or relative.split(os.sep, 1)[0] == os.pardir:
                hints.missed = True
            elif Path(path).is_dir():
                hints.folders.add(relative)
            else:
                hints.paths[relative] = "touched"
        return hints


if sys.platform == "linux":
    _MASK = (
        flags.CLOSE_WRITE
        | flags.MODIFY
        | flags.MOVED_FROM
        | flags.MOVED_TO
        | flags.CREATE
        | flags.DELETE
        | flags.ONLYDIR
        | flags.DONT_FOLLOW
        | flags.EXCL_UNLINK
    )
    _ROOT_MASK = _MASK | flags.MOVE_SELF | flags.DELETE_SELF
    _IS_FOLDER = int(flags.ISDIR)
    _IS_LOST = int(flags.Q_OVERFLOW | flags.UNMOUNT | flags.MOVE_SELF | flags.DELETE_SELF)
    _IS_OVER = int(flags.IGNORED)
    _IS_CLOSED = int(flags.CLOSE_WRITE | flags.MOVED_TO)
    _IS_GONE = int(flags.DELETE | flags.MOVED_FROM)
    _IS_OLD_NAME = int(flags.MOVED_FROM)

    class InotifyWatcher(FileWatcher):
        """One inotify watch per folder; an overflow asks for a full scan."""

        def __init__(self, root: Path) -> None:
            """OSError when the system has no more inotify instances to give."""
            self._root = root
            self._inotify = INotify(nonblocking=True)
            self._folders: dict[int, str] = {}
            self._watches: dict[str, int] = {}
            self._on_hints: Callable[[ChangeHints], None] = lambda _hints: None

        def start(self, on_hints: Callable[[ChangeHints], None]) -> None:
            self._on_hints = on_hints
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._read)

        def enter(self, folder: str) -> None:
            try:
                watch = self._inotify.add_watch(
                    os.fsencode(self._root / folder), _MASK if folder else _ROOT_MASK
                )
            except OSError as error:
                if error.errno in {errno.ENOENT, errno.ENOTDIR}:
                    return
                raise
            self._folders[watch] = folder
            before = self._watches.get(folder)
            self._watches[folder] = watch
            if before is not None and before != watch:
                self._forget(before, folder)

        def leave(self, folder: str) -> None:
            watch = self._watches.pop(folder, None)
            if watch is not None:
                self._forget(watch, folder)

        def poll(self) -> None:
            while self._read():
                pass

        def close(self) -> None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()

        def _forget(self, watch: int, folder: str) -> None:
            """Unless the folder lives on under another name."""
            if self._folders.get(watch) == folder:
                with contextlib.suppress(OSError):
                    self._inotify.rm_watch(watch)

        def _read(self) -> bool:
            """A piece of the queue, so that the loop is not held by a long one; False: empty."""
            try:
                data = os.read(self._inotify.fileno(), _PIECE)
            except BlockingIOError:
                return False
            hints = ChangeHints()
            leaving: dict[int, str] = {}
            for watch, mask, cookie, name in parse_events(data):
                if mask & _IS_LOST:
                    hints.missed = True
                elif mask & _IS_OVER:
                    self._folders.pop(watch, None)
                elif (folder := self._folders.get(watch)) is not None:
                    path = f"{folder}/{name}" if folder else name
                    _sort(hints, path, mask)
                    if mask & _IS_OLD_NAME:
                        leaving[cookie] = path
                    elif (old_name := leaving.pop(cookie, None)) is not None:
                        hints.old_names[path] = old_name
            self._on_hints(hints)
            return True

    def _sort(hints: ChangeHints, path: str, mask: int) -> None:
        if mask & _IS_FOLDER:
            hints.folders.add(path)
        elif mask & _IS_CLOSED:
            hints.paths[path] = "closed"
        elif mask & _IS_GONE:
            hints.paths[path] = "gone"
            hints.old_names.pop(path, None)
        else:
            hints.paths[path] = "open"


def make_watcher(root: Path, engine: Literal["auto", "watchfiles"] = "auto") -> FileWatcher:
    if sys.platform == "linux" and engine == "auto":
        try:
            return InotifyWatcher(root)
        except OSError as error:
            return NullFileWatcher(error)
    return WatchfilesWatcher(root, _watchfiles)


def _watchfiles(folder: Path) -> AsyncIterable[Iterable[tuple[object, str]]]:
    changes: AsyncIterable[Iterable[tuple[object, str]]] = load_heavy_here("watchfiles").awatch(
        folder, watch_filter=None, debounce=200, step=20, ignore_permission_denied=True
    )
    return changes
