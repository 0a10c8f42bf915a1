"""The restrictions that a module host puts on itself before it reads any of the module, and that a
program has which is not ours.

It cannot write files but in its data folder, start programs, open sockets, or exceed its memory and
open files; with Landlock it reads only the files that it needs.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from parachuted.modules.hosting.landlock import no_new_privileges, restrict_files
from parachuted.modules.hosting.seccomp import filter_calls

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
