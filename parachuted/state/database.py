"""Database: a SQLite file with one connection that writes; others read, each as long as asked."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parachuted.errors import StorageFailedError

log = logging.getLogger(__name__)

SQLITE_VERSION = sqlite3.sqlite_version
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SUFFIXES = ("", "-wal", "-shm")
_SMALL = 1 << 20
_CACHE_KB = 512  # a connection; what is read again is in the system's page cache
_STEPS = 20_000  # of SQLite's virtual machine, between two looks at the clock


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStatus:
    """`version` is the schema's, None until the file is open; `size` in bytes, with its journal."""

    file: str
    version: int | None
    size: int
    problem: str | None


class _OtherVersionError(Exception): ...


class Database:
    """Opens its file at the first use. Threads may share it. Methods raise StorageFailedError when
    the disk refuses. A damaged file is set aside and a new one made, as `problem` says; damage in
    the middle of work is found by the next start's check, or by `on_damage`.
    """

    def __init__(
        self,
        path: Path,
        *,
        label: str,
        loss: str,
        migrations: Mapping[int, str],
        is_derived: bool = False,
        on_open: Callable[[sqlite3.Connection], object] = lambda _connection: None,
    ) -> None:
        """`label` and `loss` are for messages: what the file is, and what is lost without it.
        `migrations`: the statements that lead to each schema version, in rising order.
        `is_derived`: the content can be made again, so it is not synced, and a file of another
        version is replaced.
        """
        self.path = path
        self.problem: str | None = None
        self.is_damaged = False
        self.on_damage: Callable[[], None] = lambda: None
        self._label, self._loss, self._migrations = label, loss, migrations
        self._is_derived, self._on_open = is_derived, on_open
        self._writing = threading.RLock()  # held for as long as the disk takes
        self._writer: sqlite3.Connection | None = None
        self._is_closed = False
        self._is_open = threading.Event()

    @contextlib.contextmanager
    def writer(self) -> Iterator[sqlite3.Connection]:
        """The connection that writes, for one thread at a time; each statement is durable."""
        with self._writing, self._named():
            yield self._writer or self._open()

    @contextlib.contextmanager
    def write(self, *, is_durable: bool = True) -> Iterator[sqlite3.Connection]:
        """The same in one transaction, which a power cut may take back if not `is_durable`."""
        with self.writer() as connection:
            if is_durable or self._is_derived:
                with transaction(connection):
                    yield connection
                return
            connection.execute("PRAGMA synchronous = NORMAL")
            try:
                with transaction(connection):
                    yield connection
            finally:
                connection.execute("PRAGMA synchronous = FULL")

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self.writer() as connection:
            return connection.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def reading(self, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """A connection that only reads, in one transaction, for at most so long. Blocks no writer;
        waits as long for the file to be made.
        """
        if not self._is_open.wait(seconds or 0):
            raise StorageFailedError(f"{self._label} is not ready yet; try again in a moment")
        with self._named(), contextlib.closing(self._connect_reader()) as connection:
            _set_memory(connection)
            if seconds is not None:
                deadline = time.monotonic() + seconds
                connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            connection.execute("BEGIN")
            yield connection

    def _connect_reader(self) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None)

    def set_aside(self, reason: str) -> None:
        """Rename the file, if it exists; the next use of the writer makes a new one."""
        with self._writing:
            self._close()
            with self._reported_disk():
                self._rename(reason)

    @property
    def is_open(self) -> bool:
        return self._is_open.is_set()

    def exists(self) -> bool:
        return self.path.exists()

    def status(self) -> DatabaseStatus:
        size = 0
        for suffix in ("", "-wal"):
            with contextlib.suppress(OSError):
                size += self._beside(suffix).stat().st_size
        return DatabaseStatus(
            file=self.path.name,
            version=max(self._migrations) if self.is_open else None,
            size=size,
            problem=self.problem,
        )

    def close(self) -> None:
        with self._writing:
            self._is_closed = True
            self._close()

    def _open(self) -> sqlite3.Connection:
        if self._is_closed:
            raise StorageFailedError(f"{self._label} is closed")
        with self._reported_disk():
            try:
                connection = self._connect_writer()
            except _OtherVersionError as error:
                log.info("a derived file is replaced", extra={"reason": str(error)})
                for suffix in _SUFFIXES:
                    self._beside(suffix).unlink(missing_ok=True)
                connection = self._connect_writer()
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self.set_aside(f"unreadable ({error})")
                connection = self._connect_writer()
        self._writer = connection
        self._is_open.set()
        return connection

    @contextlib.contextmanager
    def _reported_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failure(error) from error

    def _connect_writer(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        must_check = self._must_check()
        connection = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'OFF' if self._is_derived else 'FULL'}")
            _set_memory(connection)
            self._migrate(connection)
            if must_check:
                (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if answer != "ok":
                    raise _damage(answer)  # noqa: TRY301  closed as after every other error
            self._on_open(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _must_check(self) -> bool:
        """A large file is checked only after damage, or, if not derived, an unclean end."""
        return (
            self.path.stat().st_size < _SMALL
            or self._mark.exists()
            or (not self._is_derived and self._beside("-wal").exists())
        )

    def _migrate(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        newest = max(self._migrations)
        if self._is_derived and version not in {0, newest}:
            raise _OtherVersionError(f"{self.path.name} has version {version}, not {newest}")
        if version > newest:
            raise StorageFailedError(
                f"{self._label} was written by a newer parachuted: {self.path.name} has version "
                f"{version}, and this program knows {newest}"
            )
        for number, statements in self._migrations.items():
            if number > version:
                script = f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {number}; COMMIT;"
                try:
                    connection.executescript(script)
                except sqlite3.OperationalError as error:
                    if self._is_derived and error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
                        raise _damage(f"it has other tables: {error}") from error
                    raise

    def _close(self) -> None:
        self._is_open.clear()
        if self._writer is not None:
            with contextlib.suppress(sqlite3.Error):
                self._writer.close()
        self._writer = None

    def _rename(self, reason: str) -> None:
        """The journal goes along, or a new file would be given it."""
        stamp = "" if self._is_derived else f"-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        aside = f".garbled{stamp}"
        if self.exists():
            self.problem = (
                f"{self._label} was {reason} and was set aside as {self.path.name}{aside}; "
                f"{self._loss}"
            )
        else:
            self.problem = f"{self._label} was deleted; {self._loss}"
        for suffix in _SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                self._beside(suffix).replace(self._beside(f"{aside}{suffix}"))
        self._mark.unlink(missing_ok=True)
        self.is_damaged = False

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(f"{self.path.name}{suffix}")

    @property
    def _mark(self) -> Path:
        return self._beside(".doubtful")

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if _is_damage(error):
                self.is_damaged = True
                with contextlib.suppress(OSError):  # the damage itself is reported
                    self._mark.touch()
                self.on_damage()
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StorageFailedError:
        number = getattr(error, "errno", None)
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            number = errno.ENOSPC
        return StorageFailedError(
            f"{self._label} could not be read or written: {error}", errno=number
        )


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _set_memory(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
    connection.execute("PRAGMA temp_store = MEMORY")


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _damage(answer: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(answer)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
