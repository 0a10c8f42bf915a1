"""Traced: the same with real system calls, SQLite's too: strace kills the process at its N-th call
of a kind, or fails that call.

A program of its own: `python -m tests.vault.rig.traced kill|fail [--share N] [--seed N] FOLDER`. It
prints one JSON object.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from parachuted.errors import ParachuteError
from tests.vault.rig.forks import CODES, PendingOperation, TrialReport, in_haste
from tests.vault.rig.work import OPERATIONS, Operation, TrialFolder, complaints

FAILED = 3
_INNER = re.compile(
    r"exit|brk|mmap|munmap|mremap|madvise|mprotect|rt_sig|futex|get|clock|sched|recvfrom|restart"
)
_HASTE = ("-e", "inject=?clock_nanosleep,?nanosleep:retval=0")
"""No sleep lasts: SQLite sleeps for ten seconds in all where a lock fails for good."""
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\(", re.MULTILINE)


def perform(place: TrialFolder, operation: Operation, start: socket.socket) -> int:
    """In a child: begin at a word, do it, and tell by the exit code how it ended."""
    with place.opened() as opened:
        start.send(b"!")
        start.recv(1)
        try:
            operation.act(opened.store)
        except ParachuteError:
            return FAILED
    return 0


class Tracer:
    """Performs one operation in a child under strace with the given options."""

    def __init__(self, folder: Path, strace: str) -> None:
        self._folder, self._strace = folder, strace

    def run(self, ready: PendingOperation, *options: str) -> tuple[TrialFolder, int, str]:
        """A copy of the place as the child left it, the child's exit code (negative: the signal),
        and what strace wrote.
        """
        place = ready.place.copied(self._folder / "run")
        ours, theirs = socket.socketpair()
        child = os.fork()
        if not child:
            os._exit(perform(place, ready.operation, theirs))
        log = self._folder / "strace.log"
        command = [self._strace, "-qq", "-o", os.fspath(log), *_HASTE, "-p", str(child), *options]
        ours.recv(1)
        with subprocess.Popen(command, stderr=subprocess.PIPE) as tracing:
            self._wait_until_traced(child)
            ours.send(b"!")
            _, status = os.waitpid(child, 0)
            tracing.wait()
        for end in (ours, theirs):
            end.close()
        return place, os.waitstatus_to_exitcode(status), log.read_text(errors="replace")

    @staticmethod
    def _wait_until_traced(child: int) -> None:
        for _ in count():
            if "TracerPid:\t0" not in Path(f"/proc/{child}/status").read_text():
                return


def ready(folder: Path) -> Iterator[PendingOperation]:
    """Each operation, prepared."""
    for operation in OPERATIONS:
        place = TrialFolder(folder / operation.name).made(operation)
        done = place.copied(folder / "done")
        with done.opened() as opened:
            operation.act(opened.store)
        yield PendingOperation(
            operation=operation, place=place, old=place.files(), new=done.files(), calls=0
        )
        for used in (place, done):
            shutil.rmtree(used.folder)


def kinds(tracer: Tracer, one: PendingOperation) -> Counter[str]:
    place, _, log = tracer.run(one)
    shutil.rmtree(place.folder)
    return Counter(name for name in _CALL.findall(log) if not _INNER.match(name))


def points(
    tracer: Tracer, one: PendingOperation, share: float, dice: random.Random
) -> Iterator[tuple[str, int]]:
    """Calls to strike at: a kind and which of them."""
    for kind, number in kinds(tracer, one).items():
        yield from ((kind, at) for at in range(1, number + 1) if dice.random() < share)


def kill(tracer: Tracer, one: PendingOperation, kind: str, at: int) -> list[str]:
    place, code, _ = tracer.run(one, "-e", f"inject={kind}:signal=KILL:when={at}")
    wrong = [] if code in {-signal.SIGKILL, 0} else [f"ended with {code}"]
    wrong += complaints(place, one.operation, one.old, one.new)
    shutil.rmtree(place.folder)
    return wrong


def fail(
    tracer: Tracer, one: PendingOperation, kind: str, at: int, code: int, *, for_good: bool
) -> list[str]:
    """Fail that call, or that and all of the kind that follow."""
    inject = f"inject={kind}:error={errno.errorcode[code]}:when={at}{'+' if for_good else ''}"
    place, ended, _ = tracer.run(one, "-e", inject)
    wrong = [] if ended in {0, FAILED} else [f"ended with {ended}"]
    allowed = [one.new] if ended == 0 else [one.old, one.new] if for_good else [one.old]
    wrong += complaints(place, one.operation, one.old, one.new, *allowed)
    shutil.rmtree(place.folder)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["kill", "fail"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    in_haste()
    tracer, account, dice = (
        Tracer(asked.folder, shutil.which("strace") or "strace"),
        TrialReport(),
        random.Random(asked.seed),  # noqa: S311
    )
    for one in ready(asked.folder):
        for kind, at in list(points(tracer, one, asked.share, dice)):
            choices = (
                [None]
                if asked.what == "kill"
                else [(code, for_good) for code in CODES for for_good in (False, True)]
            )
            for choice in choices if asked.share == 1 else [dice.choice(choices)]:
                wrong = (
                    kill(tracer, one, kind, at)
                    if choice is None
                    else fail(tracer, one, kind, at, choice[0], for_good=choice[1])
                )
                account.points += 1
                account.calls[kind] += 1
                account.wrong += [
                    f"{one.operation.name}, {choice or 'killed'} at call {at} ({kind}): {text}"
                    for text in wrong
                ]
    json.dump(
        {"points": account.points, "calls": account.calls, "wrong": account.wrong}, sys.stdout
    )


if __name__ == "__main__":
    main()
