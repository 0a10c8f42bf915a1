"""Shim: counts the system calls that the vault makes from Python and does something at one of them.

For a forked child: it is never undone.

What SQLite calls is not seen here; `traced.py` does the same with strace, which sees everything and
is slower.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import io
import os
from collections.abc import Callable
from typing import Any

from parachuted.vault import swap

CALLS = (
    "open",
    "close",
    "read",
    "write",
    "fsync",
    "fstat",
    "stat",
    "lstat",
    "lseek",
    "unlink",
    "rename",
    "replace",
    "link",
    "mkdir",
    "dup",
    "readlink",
    "posix_fadvise",
    "fchmod",
    "fchown",
    "listxattr",
    "getxattr",
    "setxattr",
    "scandir",
    "listdir",
)
Act = Callable[[str], None]


class FaultInjector:
    """Calls `act` with the name of the call, before the `at`-th call, or before each from there on
    (`for_good`).

    `midway` counts writes only, and half of what is to be written goes out first. `passed` are
    calls that are not counted. `calls` names all that were.
    """

    def __init__(
        self,
        at: int,
        act: Act,
        *,
        for_good: bool = False,
        midway: bool = False,
        passed: frozenset[str] = frozenset(),
    ) -> None:
        self.calls: list[str] = []
        self.struck = False
        self._at, self._act, self._for_good, self._midway = at, act, for_good, midway
        self._active, self._passed = False, passed

    def install(self) -> None:
        """Put it before the system's calls."""
        for name in CALLS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        fcntl.fcntl = self._wrapped("fcntl", fcntl.fcntl)
        io.open = self._wrapped("io.open", io.open)
        if swap._renameat2 is not None:
            swap._renameat2 = self._renaming(swap._renameat2)
        self._active = True

    def stop(self) -> None:
        """Let all calls pass from now on."""
        self._active = False

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*arguments: Any, **named: Any) -> Any:
            if not self._is_due(name):
                return real(*arguments, **named)
            if self._midway:
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if name == "close":
                real(*arguments)  # a failing close closes all the same
            self._strike(name)
            return None if name == "close" else real(*arguments, **named)

        return call

    def _renaming(self, real: Callable[..., int]) -> Callable[..., int]:
        """A call to C says that it failed by its result."""

        def call(*arguments: Any) -> int:
            if self._is_due("renameat2"):
                try:
                    self._strike("renameat2")
                except OSError as error:
                    ctypes.set_errno(error.errno or errno.EIO)
                    return -1
            return real(*arguments)

        return call

    def _is_due(self, name: str) -> bool:
        if not self._active or name in self._passed or (self._midway and name != "write"):
            return False
        self.calls.append(name)
        return len(self.calls) == self._at or (self._for_good and len(self.calls) > self._at)

    def _strike(self, name: str) -> None:
        self.struck = True
        self._active = False  # what it does itself is not counted
        try:
            self._act(name)
        finally:
            self._active = True


def failing(code: int) -> Act:
    def act(_name: str) -> None:
        raise OSError(code, os.strerror(code))

    return act


def killing(_name: str) -> None:
    os._exit(KILLED)


KILLED = 137
