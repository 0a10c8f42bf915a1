"""Audit files: the audit's folder in the vault, with one file per day and machine, and where its
chain ends.

A program that may write in the vault may have made a link of anything in it, so all is opened by
descriptor and no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from parachuted.audit.chain import START, ChainPosition
from parachuted.home_files.private import replace_private
from parachuted.vault import VaultRoot
from parachuted.vault.swap import move_to_free_name

FOLDER = ".parachute/audit"
AUDIT_HEAD = "audit.head"
_MACHINE_FILE = "machine-name"
_MACHINE = re.compile(r"[a-z0-9-]{1,50}", re.ASCII)
_HOST_CHARACTERS = 40
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ASIDE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EARLIER = re.compile(r"(\d{4}-\d{2}-\d{2})(\.jsonl|\.torn-\d+)", re.ASCII)
_CHUNK = 64 << 10
_HEAD_BYTES = 512
_OWN = 0o600
_MODE = stat.S_IFREG | _OWN


class TornLines(NamedTuple):
    """Bytes after the last line's end that were moved out of a day's file, and where to."""

    size: int
    digest: str
    name: str


class _Kept(NamedTuple):
    """The file that was written last, with its identity and the size after that write."""

    day: str
    descriptor: int
    file: tuple[int, int]
    size: int


def machine_name(home: Path) -> str:
    """The prefix of this home's audit files; "" before the first run."""
    try:
        name = (home / _MACHINE_FILE).read_text("ascii", "replace").strip()
    except OSError:
        return ""
    return name if _MACHINE.fullmatch(name) else ""


def make_machine_name(home: Path) -> str:
    """The same, chosen at the first call: the host's name and a suffix that distinguishes hosts of
    one name. OSError.
    """
    known = machine_name(home)
    if known:
        return known
    host = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")[
        :_HOST_CHARACTERS
    ]
    name = f"{host or 'machine'}-{secrets.token_hex(3)}"
    replace_private(home / _MACHINE_FILE, f"{name}\n".encode())
    return name


class AuditFolder:
    """One machine's files.

    All methods raise OSError; ELOOP or ENOTDIR where a link is in the way.
    """

    def __init__(self, root: VaultRoot, machine: str) -> None:
        """`machine`: as `machine_name` has it; "" for the files of earlier versions, which all
        machines shared.
        """
        self._root = root
        self._suffix = f".{machine}.jsonl" if machine else ".jsonl"
        self._day = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}{re.escape(self._suffix)}", re.ASCII)
        self._kept: _Kept | None = None

    def days(self) -> list[str]:
        """The days that have a file, oldest first."""
        try:
            with self._root.opened_folder(FOLDER) as folder:
                return sorted(
                    name.removesuffix(self._suffix)
                    for name in _names(folder)
                    if self._day.fullmatch(name)
                )
        except FileNotFoundError:
            return []

    def name(self, day: str) -> str:
        return f"{day}{self._suffix}"

    def earlier(self) -> AuditFolder:
        """The files of earlier versions, which had no machine's name."""
        return AuditFolder(self._root, "")

    def take_over_earlier(self) -> None:
        """Give the files of earlier versions this machine's name, so that their chain goes on in
        its own files.
        """
        with self._root.opened_folder(FOLDER) as folder:
            for name in sorted(_names(folder)):
                if (found := _EARLIER.fullmatch(name)) is not None:
                    move_to_free_name(
                        (folder, name),
                        (folder, f"{found[1]}{self._suffix.removesuffix('.jsonl')}{found[2]}"),
                    )
            os.fsync(folder)

    @contextlib.contextmanager
    def opened(self, day: str) -> Iterator[int]:
        """A descriptor for reading."""
        with self._root.opened_folder(FOLDER) as folder:
            descriptor = os.open(self.name(day), _READ, dir_fd=folder)
        try:
            _must_be_plain(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    def append(self, day: str, data: bytes, *, durably: bool) -> bool:
        """Append whole lines to a day's file, all of them or none.

        False: the file ends within a line.
        """
        kept = (
            self._kept
            if self._kept is not None and self._is_as_left(self._kept, day)
            else self._keep(day)
        )
        if kept is None:
            return False
        try:
            _write_all(kept.descriptor, data)
            if durably:
                os.fsync(kept.descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(kept.descriptor, kept.size)
            self.close()
            raise
        self._kept = kept._replace(size=kept.size + len(data))
        return True

    def close(self) -> None:
        if self._kept is not None:
            os.close(self._kept.descriptor)
            self._kept = None

    def _is_as_left(self, kept: _Kept, day: str) -> bool:
        """Whether the open file is as the last write left it, so that a batch takes three calls and
        not twenty.
        """
        if kept.day != day:
            return False
        try:
            found = os.lstat(f"{self._root.folder}/{FOLDER}/{day}{self._suffix}")
        except OSError:
            return False
        return (found.st_ino, found.st_dev, found.st_size, found.st_mode, found.st_nlink) == (
            *kept.file,
            kept.size,
            _MODE,
            1,
        )

    def _keep(self, day: str) -> _Kept | None:
        """Open the day's file and keep it open; None when it ends within a line."""
        self.close()
        with self._appending(day) as (_folder, descriptor):
            status = os.fstat(descriptor)
            if status.st_size and os.pread(descriptor, 1, status.st_size - 1) != b"\n":
                return None
            self._kept = _Kept(
                day, os.dup(descriptor), (status.st_ino, status.st_dev), status.st_size
            )
            return self._kept

    def set_torn_aside(self, day: str) -> TornLines:
        """Move what follows the last line's end into a file of its own."""
        with self._appending(day) as (folder, descriptor):
            size = os.fstat(descriptor).st_size
            end = end_of_lines(descriptor, size)
            digest, name = hashlib.sha256(), _free_name(folder, self._torn(day))
            aside = os.open(name, _ASIDE, _OWN, dir_fd=folder)
            try:
                for at in range(end, size, _CHUNK):
                    part = os.pread(descriptor, min(_CHUNK, size - at), at)
                    digest.update(part)
                    _write_all(aside, part)
                os.fsync(aside)
            finally:
                os.close(aside)
            os.ftruncate(descriptor, end)
            return TornLines(size=size - end, digest=digest.hexdigest(), name=name)

    def is_torn(self, day: str) -> bool:
        with self.opened(day) as descriptor:
            size = os.fstat(descriptor).st_size
            return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"

    def remove(self, day: str) -> None:
        """Remove a day's file, and what was set aside from it."""
        with self._root.opened_folder(FOLDER) as folder:
            for name in _names(folder):
                if name.startswith(self._torn(day)):
                    os.unlink(name, dir_fd=folder)
            os.unlink(self.name(day), dir_fd=folder)

    def _torn(self, day: str) -> str:
        """How the names of what was set aside from that day begin."""
        return f"{self.name(day).removesuffix('.jsonl')}.torn-"

    @contextlib.contextmanager
    def _appending(self, day: str) -> Iterator[tuple[int, int]]:
        with self._root.opened_folder(FOLDER, create=True) as folder:
            descriptor = os.open(self.name(day), _APPEND, _OWN, dir_fd=folder)
            try:
                if _must_be_plain(descriptor) != _OWN:
                    os.fchmod(descriptor, _OWN)
                yield folder, descriptor
            finally:
                os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHead:
    """The end of the chain: lines up to `sure` are in the files; those up to `begun` may be.

    `write`: the last record of a write.
    """

    sure: ChainPosition = START
    begun: ChainPosition = START
    write: int = 0


class ChainHeadFile:
    """Stores the end of the chain in the state folder, which nothing in the vault can change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def read(self) -> ChainHead | None:
        """None when the file is missing or unreadable."""
        try:
            document = json.loads(self._path.read_bytes())
            sure, begun, write = document["sure"], document["begun"], document["write"]
            return ChainHead(
                sure=ChainPosition(int(sure[0]), str(sure[1])),
                begun=ChainPosition(int(begun[0]), str(begun[1])),
                write=int(write),
            )
        except (OSError, ValueError, TypeError, LookupError):
            return None

    def write(self, standing: ChainHead) -> None:
        """Written in place and with a fixed size, so that a full disk does not refuse it.
        OSError.
        """
        text = json.dumps({"sure": standing.sure, "begun": standing.begun, "write": standing.write})
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _OWN)
        os.pwrite(self._descriptor, text.ljust(_HEAD_BYTES - 1).encode() + b"\n", 0)

    def close(self) -> None:
        """Close the file; the next write opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def end_of_lines(descriptor: int, size: int) -> int:
    """Where the last line's end is in a file of that many bytes; 0 when there is none."""
    at = size
    while at:
        start = max(0, at - _CHUNK)
        found = os.pread(descriptor, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def _names(folder: int) -> list[str]:
    return os.listdir(folder)  # by descriptor, which pathlib cannot


def _must_be_plain(descriptor: int) -> int:
    """The permissions of the open file, which must be a regular one without a second name."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise OSError(errno.ENXIO, "not a file of the audit alone")
    return stat.S_IMODE(status.st_mode)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _free_name(folder: int, begin: str) -> str:
    taken = set(_names(folder))
    return next(
        name for number in range(1, len(taken) + 2) if (name := f"{begin}{number}") not in taken
    )
