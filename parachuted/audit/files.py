"""Audit files: lines of JSON in the vault, a file per day and machine, and where the audit's chain
ends. Programs that write in the vault may have made links, so all is opened by descriptor and no
link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parachuted.audit.chain import START, ChainPosition
from parachuted.home_files.private import replace_private
from parachuted.vault import VaultRoot

FOLDER = ".parachute/audit"
AUDIT_HEAD = "audit.head"
_MACHINE_FILE = "machine-name"
_MACHINE = re.compile(r"[a-z0-9-]{1,50}", re.ASCII)
_HOST_CHARACTERS = 40
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT
_HEAD_BYTES = 512
_OWN = 0o600


@contextlib.contextmanager
def opened(root: VaultRoot, folder: str, name: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A descriptor of a regular file without a second name. Raises OSError, also for a link."""
    with root.opened_folder(folder, create=bool(flags & os.O_CREAT)) as place:
        descriptor = os.open(name, flags | _FLAGS, _OWN, dir_fd=place)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise OSError(errno.ENXIO, "not a file of its own")
        yield descriptor
    finally:
        os.close(descriptor)


def append(root: VaultRoot, folder: str, name: str, lines: bytes, *, durably: bool) -> None:
    """Append whole lines, all or none, after ending one that a kill cut short. OSError."""
    with opened(root, folder, name, _APPEND) as descriptor:
        size = os.fstat(descriptor).st_size
        os.fchmod(descriptor, _OWN)
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            lines = b"\n" + lines
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if durably:
                os.fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)
            raise


def machine_name(home: Path) -> str:
    """The end of the names of this home's audit files; "" before the first run."""
    try:
        name = (home / _MACHINE_FILE).read_text("ascii", "replace").strip()
    except OSError:
        return ""
    return name if _MACHINE.fullmatch(name) else ""


def make_machine_name(home: Path) -> str:
    """The same, chosen at the first call: the host's name and a random suffix. OSError."""
    known = machine_name(home)
    if known:
        return known
    host = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")
    name = f"{host[:_HOST_CHARACTERS] or 'machine'}-{secrets.token_hex(3)}"
    replace_private(home / _MACHINE_FILE, f"{name}\n".encode())
    return name


class AuditFolder:
    """One machine's files. All methods raise OSError, also where a link is in the way."""

    def __init__(self, root: VaultRoot, machine: str) -> None:
        """`machine`: as `machine_name` has it."""
        self._root, self._machine = root, machine
        self._day = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}\.{machine}\.jsonl", re.ASCII)

    def days(self) -> list[str]:
        try:
            with self._root.opened_folder(FOLDER) as folder:
                return sorted(
                    name[:10]
                    for name in os.listdir(folder)  # noqa: PTH208  by descriptor
                    if self._day.fullmatch(name)
                )
        except FileNotFoundError:
            return []

    def name(self, day: str) -> str:
        return f"{day}.{self._machine}.jsonl"

    def opened(self, day: str) -> contextlib.AbstractContextManager[int]:
        return opened(self._root, FOLDER, self.name(day))

    def append(self, day: str, lines: bytes, *, durably: bool) -> None:
        append(self._root, FOLDER, self.name(day), lines, durably=durably)

    def remove(self, day: str) -> None:
        with self._root.opened_folder(FOLDER) as folder:
            os.unlink(self.name(day), dir_fd=folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainHead:
    """Lines up to `sure` are in the files, up to `pending` may be; `write` is the last one."""

    sure: ChainPosition = START
    pending: ChainPosition = START
    write: int = 0


class ChainHeadFile:
    """Keeps the end of the chain in the state folder, which nothing in the vault can change."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> ChainHead | None:
        try:
            document = json.loads(self._path.read_bytes())
            sure, pending = (
                ChainPosition(int(document[name][0]), str(document[name][1]))
                for name in ("sure", "begun")
            )
            return ChainHead(sure=sure, pending=pending, write=int(document["write"]))
        except (OSError, ValueError, TypeError, LookupError):
            return None

    def write(self, head: ChainHead) -> None:
        """In place and at a fixed size, so that a full disk does not refuse it. OSError."""
        text = json.dumps({"sure": head.sure, "begun": head.pending, "write": head.write})
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _OWN)
        try:
            os.pwrite(descriptor, text.ljust(_HEAD_BYTES - 1).encode() + b"\n", 0)
        finally:
            os.close(descriptor)
