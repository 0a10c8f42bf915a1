"""The restrictions that a module host puts on itself before it reads any of the module, and that a
program has which is not ours.

A process applies it to itself and cannot undo it. Python has no library for it; three system calls
are enough.

It cannot write files but in its data folder, start programs, open sockets, or exceed its memory and
open files; with Landlock it reads only the files that it needs.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from parachuted.modules.hosting.seccomp import filter_calls

_CREATE, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_RULE_PATH_BENEATH = 1
_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_READ = _READ_FILE | _READ_DIR
# Files and folders, but no links, sockets, pipes or devices, and nothing to execute.
_CHANGE = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE
_FILE_ALONE = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE
# How many kinds of access to files each version of Landlock knows; what a version does not know it
# cannot deny.
_FILE_KINDS = {1: 13, 2: 14, 3: 15, 4: 15}
_FILE_KINDS_NOW = 16
_TCP_SINCE, _TCP = 4, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def landlock_version() -> int:
    """Which version the kernel has; 0: none."""
    if not sys.platform.startswith("linux"):
        return 0
    version = _libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    return max(int(version), 0)


def restrict_files(
    readable: Iterable[Path],
    listable: Iterable[Path] = (),
    writable: Iterable[Path] = (),
    runnable: Iterable[Path] = (),
) -> None:
    """Let this thread, and everything that it starts, only read files, and only below these paths.
    Raises OSError.

    Below `listable` it sees only names; below `writable` it may also make, change and remove files
    and folders, and below `runnable` start programs. Missing paths are ignored. Existing threads
    are not restricted.
    """
    version = landlock_version()
    if not version:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    ruleset = _make_ruleset(version)
    try:
        for path, allowed in (
            *((path, _READ) for path in readable),
            *((path, _READ_DIR) for path in listable),
            *((path, _READ | _EXECUTE) for path in runnable),
            *((path, (_READ | _CHANGE) & _known_kinds(version)) for path in writable),
        ):
            with suppress(FileNotFoundError):
                _allow(ruleset, path, allowed)
        no_new_privileges()
        _done(_libc().syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)))
    finally:
        os.close(ruleset)


def no_new_privileges() -> None:
    """No program that this process runs may get more rights than it has. Raises OSError."""
    _done(_libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))


def _make_ruleset(version: int) -> int:
    ruleset = _Ruleset(
        _known_kinds(version),
        _TCP if version >= _TCP_SINCE else 0,
        _SCOPES if version >= _SCOPES_SINCE else 0,
    )
    size = 24 if version >= _SCOPES_SINCE else 16 if version >= _TCP_SINCE else 8
    return _done(
        _libc().syscall(_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0))
    )


def _known_kinds(version: int) -> int:
    return (1 << _FILE_KINDS.get(version, _FILE_KINDS_NOW)) - 1


def _allow(ruleset: int, path: Path, allowed: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(
            allowed if S_ISDIR(os.fstat(opened).st_mode) else allowed & _FILE_ALONE, opened
        )
        _done(
            _libc().syscall(
                _ADD_RULE,
                ctypes.c_int(ruleset),
                ctypes.c_int(_RULE_PATH_BENEATH),
                ctypes.byref(rule),
                ctypes.c_uint32(0),
            )
        )
    finally:
        os.close(opened)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _done(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP = 1, 24
_CLONE_NEWUSER = 0x10000000
MOST_THREADS = 64
LARGEST_FILE = 1 << 30
_CAPABILITIES_VERSION = 0x20080522
_MOST_CAPABILITIES = 64
_NICER = 5


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class IsolationRules:
    """Which restrictions to apply. `readable`, `listable` and `writable` matter only with
    `landlock`; without any `writable` no file can be written at all.

    `parent`: the process whose end ends this one; 0 where it is not visible. `runnable`: it becomes
    a program from there, which may start others. `memory` 0: without a limit of its own.
    """

    landlock: bool
    seccomp: bool
    readable: tuple[Path, ...]
    listable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    runnable: tuple[Path, ...] = ()
    memory: int
    most_open: int
    parent: int = 0


def apply_isolation(rules: IsolationRules) -> None:
    """Put them around this process, for good.

    Raises OSError: then nothing of the module may run.
    """
    if rules.parent and sys.platform == "linux":
        _end_with(rules.parent)
    os.nice(_NICER)
    _limit(rules)
    if rules.seccomp:
        limit_threads()
    if rules.landlock or rules.seccomp:
        _drop_capabilities()
        no_new_privileges()
    if rules.landlock:
        restrict_files(rules.readable, rules.listable, rules.writable, rules.runnable)
    if rules.seccomp:
        filter_calls(runs_programs=bool(rules.runnable))


def _end_with(parent: int) -> None:
    """Be killed when the daemon ends, however that ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise OSError("the daemon has ended")


def _limit(rules: IsolationRules) -> None:
    wanted = {
        resource.RLIMIT_AS: rules.memory or resource.RLIM_INFINITY,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: resource.RLIM_INFINITY
        if not rules.seccomp
        else LARGEST_FILE
        if rules.writable
        else 0,  # also what a file in memory could hold
        resource.RLIMIT_NOFILE: rules.most_open,
    }
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        least = (
            value
            if hard == resource.RLIM_INFINITY
            else hard
            if value == resource.RLIM_INFINITY
            else min(value, hard)
        )
        if sys.platform == "linux" or kind != resource.RLIMIT_AS:  # macOS refuses that one
            resource.setrlimit(kind, (least, least))


def limit_threads() -> bool:
    """Let this process have few threads, where it is not root's and may have a user namespace: the
    limit counts what is in there alone.

    Without one the limit would count every process of the person. The daemon watches the number in
    any case.
    """
    if (
        sys.platform != "linux"
        or os.getuid() == 0
        or ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER) != 0
    ):
        return False
    resource.setrlimit(resource.RLIMIT_NPROC, (MOST_THREADS, MOST_THREADS))
    return True


def _drop_capabilities() -> None:
    """Root without its powers is a user like any other."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(_MOST_CAPABILITIES):
        libc.prctl(
            _PR_CAPBSET_DROP, capability, 0, 0, 0
        )  # not allowed to those who have none, who need it not
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "the process could not give up its capabilities")
