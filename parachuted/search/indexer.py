"""Indexer: keeps the database in step with the vault, in a thread of its own.

What has just changed goes first, then the newest of what was there. A change is a hint: it looks.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from parachuted.errors import StorageFailedError
from parachuted.search.index_tables import IndexTables
from parachuted.search.indexed_note import (
    KEPT_OF_LARGE,
    LARGEST,
    IndexedNote,
    make_indexed_note,
    make_large_note,
    make_unread_note,
)
from parachuted.state import Database
from parachuted.vault import NOTE_SUFFIXES, IndexEntry, VaultRoot
from parachuted.vault.root import let_go
from parachuted.vault.scanner import GONE

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20


def read_notes(root: VaultRoot, paths: Iterable[str]) -> Iterator[tuple[str, IndexedNote | None]]:
    """Folder by folder; None where the file is gone. OSError: the vault is not there."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    for folder, below in folders.items():
        try:
            with root.opened_folder(folder) as descriptor:
                for path in below:
                    yield path, _read_note(path, descriptor)
        except OSError as error:
            if error.errno == errno.ESTALE:
                raise
            yield from (
                (path, None if error.errno in GONE else _unread(path, error)) for path in below
            )


def _read_note(path: str, folder: int) -> IndexedNote | None:
    try:
        descriptor = os.open(path.rpartition("/")[2], _FILE, dir_fd=folder)
    except OSError as error:
        return None if error.errno in GONE else _unread(path, error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        return _read(path, descriptor, status)
    except OSError as error:
        return _unread(path, error)
    finally:
        let_go(descriptor)


def _read(path: str, descriptor: int, status: os.stat_result) -> IndexedNote:
    modified = status.st_mtime_ns / 1e9
    data = os.read(descriptor, min(status.st_size + 1, _CHUNK))
    if len(data) <= status.st_size < _CHUNK:
        return make_indexed_note(path, data, modified)
    parts, size, digest = [data], len(data), sha256(data)
    while part := os.read(descriptor, _CHUNK):
        digest.update(part)
        size += len(part)
        if size <= LARGEST:
            parts.append(part)
    if size > LARGEST:
        return make_large_note(
            path, b"".join(parts)[:KEPT_OF_LARGE], modified, size, digest.hexdigest()
        )
    return make_indexed_note(path, b"".join(parts), modified)


def _unread(path: str, error: OSError) -> IndexedNote:
    reason = (
        f"it cannot be read ({os.strerror(error.errno or errno.EIO)}); it is found by its name only"
    )
    return make_unread_note(path, 0.0, 0, "", reason)


log = logging.getLogger(__name__)

_BATCH = 256
# each transaction becomes segments of the index, which are merged later: few large ones cost less
_BACKLOG_BATCH = 1024
_BATCH_CHARACTERS = 2 << 20
_KEPT_BYTES = 1 << 20
_PAUSE_S = 5.0
_LOOK_EVERY_S, _LONGEST_WAIT_S = 0.001, 1.0

Listing = Callable[[], Mapping[str, IndexEntry]]
IndexReport = Callable[[str, "str | None"], object]


class IndexUpdate(NamedTuple):
    """`entry` None: the file is gone; `data`: where it was just read."""

    entry: IndexEntry | None
    data: bytes | None = None


class Indexer:
    """One thread that writes, and calls `listing` and `report`.

    While `is_noticing` says that changes are being told, each step waits, up to a second in all,
    for Python runs one thread at a time.
    """

    def __init__(
        self,
        database: Database,
        root: VaultRoot,
        *,
        listing: Listing,
        report: IndexReport,
        caught_up: Callable[[], None] = lambda: None,
        is_noticing: Callable[[], bool] = lambda: False,
    ) -> None:
        self._database, self._root, self._listing, self._report = database, root, listing, report
        self._caught_up, self._is_noticing = caught_up, is_noticing
        self._thread = threading.Thread(target=self._run, name="search", daemon=True)
        self._wake = threading.Condition()
        self._news: dict[str, IndexUpdate] = {}
        self._kept_bytes = 0
        self._is_closing = False
        self._is_lost = False
        self._must_compare = True
        self._is_idle = False
        self._had_backlog = False
        self._backlog: dict[str, None] = {}
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search-reader")
        self._ahead: Future[dict[str, IndexedNote | None]] | None = None
        self._indexed: set[str] = set()
        self._next_old = self._next_new = 0
        self._waits_until = 0.0

    @property
    def is_behind(self) -> bool:
        """Whether something is known that is not indexed yet."""
        return not self._is_idle or bool(self._news)

    @property
    def waiting(self) -> int:
        """How many files are to be indexed yet, as far as is known."""
        return len(self._backlog) + len(self._news)

    def start(self) -> None:
        self._thread.start()

    def follow(self, files: Iterable[tuple[str, IndexUpdate]]) -> None:
        """Returns at once."""
        with self._wake:
            for path, update in files:
                size = len(update.data or b"")
                is_kept = self._kept_bytes + size <= _KEPT_BYTES
                self._kept_bytes += size if is_kept else 0
                self._news.pop(path, None)
                self._news[path] = update if is_kept else IndexUpdate(update.entry)
            self._wake.notify_all()

    def settle(self, seconds: float) -> bool:
        """Wait until all that is known is indexed, at most so long; whether it is. Blocks."""
        with self._wake:
            return (
                self._wake.wait_for(lambda: not self.is_behind or self._is_closing, seconds)
                and not self.is_behind
            )

    def look(self) -> None:
        """When the file was deleted, it is rebuilt."""
        if self._is_idle and not self._database.exists():
            self.lose()

    def lose(self) -> None:
        """The file is damaged or gone: rebuild it. Returns at once."""
        with self._wake:
            self._is_lost = True
            self._wake.notify_all()

    def close(self) -> None:
        """After what it has in hand. Blocks."""
        with self._wake:
            self._is_closing = True
            self._wake.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        while self._wait():
            try:
                self._step()
            except StorageFailedError as error:
                log.warning("the search index could not be written", extra={"error": str(error)})
                if not self._is_lost:
                    self._rest(f"{error}, so changes are not found; trying again")
            except OSError as error:
                self._rest(
                    f"the vault cannot be read ({error.strerror}), so what changes is not found; "
                    "trying again"
                )
            except Exception as error:  # a fault of this program must not end the thread unseen
                log.exception("the search index was not brought up to date")
                self._rest(
                    f"an error in parachuted ({type(error).__name__}, see the log) keeps the "
                    "search from what changes; trying again"
                )

    def _wait(self) -> bool:
        """Until there is something to do; False: end."""
        if self._had_backlog and not self._backlog:
            self._had_backlog = False
            self._backlog = {}  # an emptied dict keeps its table
            with contextlib.suppress(StorageFailedError), self._database.writer() as connection:
                connection.execute("PRAGMA shrink_memory")
            self._caught_up()
        with self._wake:
            while not (
                self._is_closing
                or self._is_lost
                or self._must_compare
                or self._news
                or self._backlog
            ):
                self._is_idle = True
                self._wake.notify_all()
                self._wake.wait()
            return not self._is_closing

    def _step(self) -> None:
        self._waits_until = time.monotonic() + _LONGEST_WAIT_S
        if self._is_lost:
            self._is_lost, self._must_compare, self._is_idle = False, True, False
            self._database.set_aside("damaged")
        with self._database.writer() as connection:
            tables = IndexTables(connection)
            if self._must_compare:
                self._report("search", self._database.problem)
                self._compare(tables)
                self._report("search.writing", None)
            if self._news:
                self._take_news(tables)
            elif self._backlog:
                self._take_backlog(tables)

    def _compare(self, tables: IndexTables) -> None:
        files, known = self._listing(), tables.known()
        notes = {path: entry for path, entry in files.items() if path.endswith(NOTE_SUFFIXES)}
        fresh = [
            path
            for path, entry in notes.items()
            if path not in known or known[path][0] != entry.digest
        ]
        times = [
            (path, entry.mtime_ns / 1e9)
            for path, entry in notes.items()
            if path in known and known[path][0] == entry.digest
        ]
        times = [(path, modified) for path, modified in times if known[path][1] != modified]
        others, known_others = files.keys() - notes.keys(), tables.others()

        if times or known.keys() - notes.keys() or others != known_others:
            with self._database.write():
                tables.drop([*(known.keys() - notes.keys()), *(known_others - others)])
                tables.put_others(others - known_others)
                tables.touch(times)
        fresh.sort(key=lambda path: notes[path].mtime_ns, reverse=True)
        self._backlog, self._ahead = dict.fromkeys(fresh), None
        self._indexed = known.keys() & self._backlog.keys()
        self._next_old = tables.last_id() + len(fresh)
        self._next_new = self._next_old + 1
        self._must_compare = False
        self._had_backlog = True

    def _take_backlog(self, tables: IndexTables) -> None:
        """Write what was read, while what comes after it is read."""
        read = (
            self._ahead or self._pool.submit(self._read, list(islice(self._backlog, _BATCH)))
        ).result()
        following = list(
            islice((path for path in self._backlog if path not in read), _BACKLOG_BATCH)
        )
        self._ahead = self._pool.submit(self._read, following) if following else None
        order = [path for path in read if path in self._backlog]
        indexed_notes = [indexed_note for path in order if (indexed_note := read[path]) is not None]
        first = self._next_old - len(indexed_notes) + 1

        self._wait_for_noticing()

        with self._database.write():
            tables.drop(self._indexed & read.keys())
            tables.put(list(enumerate(reversed(indexed_notes), first)))
        self._next_old = first - 1
        self._indexed -= read.keys()
        for path in order:
            del self._backlog[path]

    def _read(self, paths: list[str]) -> dict[str, IndexedNote | None]:
        """Or the first of them where they are much text; None where the file is gone."""
        indexed_notes: dict[str, IndexedNote | None] = {}
        characters = 0
        for path, indexed_note in read_notes(self._root, paths):
            indexed_notes[path] = indexed_note
            self._wait_for_noticing()
            characters += sum(map(len, indexed_note.texts)) if indexed_note is not None else 0
            if characters > _BATCH_CHARACTERS or self._is_closing:
                break
        return {path: indexed_notes[path] for path in paths if path in indexed_notes}

    def _wait_for_noticing(self) -> None:
        while self._is_noticing() and not self._is_closing and time.monotonic() < self._waits_until:
            time.sleep(_LOOK_EVERY_S)

    def _take_news(self, tables: IndexTables) -> None:
        self._wait_for_noticing()
        with self._wake:
            news = {path: self._news.pop(path) for path in list(islice(self._news, _BATCH))}
            if not self._news:
                self._kept_bytes = 0
        self._is_idle = False
        notes = {
            path: one
            for path, one in news.items()
            if one.entry is not None and path.endswith(NOTE_SUFFIXES)
        }
        known = {path: tables.digest(path) for path in notes}
        changed = [
            path
            for path, index_update in notes.items()
            if index_update.entry is None or known[path] != index_update.entry.digest
        ]
        indexed_notes = self._read_notes(changed, notes)
        others = [path for path, one in news.items() if one.entry is not None and path not in notes]
        kept = notes.keys() - changed

        with self._database.write():
            tables.drop(path for path in news if path not in kept)
            tables.put(list(enumerate(indexed_notes, self._next_new)))
            tables.put_others(others)
            tables.touch(
                (path, entry.mtime_ns / 1e9)
                for path in kept
                if (entry := notes[path].entry) is not None
            )
        self._next_new += len(indexed_notes)
        self._indexed.difference_update(news)
        for path in news:
            self._backlog.pop(path, None)

    def _read_notes(self, paths: list[str], news: Mapping[str, IndexUpdate]) -> list[IndexedNote]:
        unread: dict[str, IndexedNote | None] = {}
        for path, indexed_note in read_notes(
            self._root, [path for path in paths if news[path].data is None]
        ):
            unread[path] = indexed_note
            self._wait_for_noticing()
        notes: list[IndexedNote] = []
        for path in paths:
            update = news[path]
            if update.data is not None and update.entry is not None:
                notes.append(make_indexed_note(path, update.data, update.entry.mtime_ns / 1e9))
            elif (read := unread.get(path)) is not None:
                notes.append(read)
        return notes

    def _rest(self, problem: str) -> None:
        """Say what is wrong, wait, then compare everything: what was in hand is lost."""
        self._report("search.writing", problem)
        self._is_idle, self._must_compare = False, True
        deadline = time.monotonic() + _PAUSE_S
        with self._wake:
            while not self._is_closing and (left := deadline - time.monotonic()) > 0:
                self._wake.wait(left)
