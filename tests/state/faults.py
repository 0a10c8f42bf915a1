"""Faults: a journal's disk that fails or kills at its N-th call, and the work that is done on it;
also run as a program.

As a program it kills itself (SIGKILL, in a child) at every system call of that work and prints how
many points there were.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import takewhile
from pathlib import Path

from parachuted.errors import StorageFailedError
from parachuted.state.journal import SYSTEM, Journal, JournalDisk

HIGH_WATER = 1500  # so low that the work below is compacted several times while it goes on

Expected = dict[str, object]


class Faults:
    """A disk that does `act` in place of its `at`-th call and `times` in all, or half-way through
    it if `midway` and it writes.
    """

    def __init__(
        self, at: int, act: Callable[[], None], *, times: float = 1, midway: bool = False
    ) -> None:
        self.calls = 0
        self.struck = False
        self._at, self._act, self._times, self._midway = at, act, times, midway
        self.disk = JournalDisk(
            **{field.name: self._call(field.name) for field in fields(JournalDisk)}
        )

    def _call(self, name: str) -> Callable[..., object]:
        real = _no_wait if name in {"fsync", "fdatasync"} else getattr(SYSTEM, name)

        def call(*arguments):
            self.calls += 1
            if self._at <= self.calls < self._at + self._times:
                self.struck = True
                if self._midway and name == "write":
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                self._act()
            return real(*arguments)

        return call


def _no_wait(fd: int) -> None:
    """No power is cut here, so nothing has to reach the disk."""


def batches(size: int) -> Iterator[dict[str, object | None]]:
    """What each batch of the work changes: some new, some replaced, some gone (None)."""
    for number in range(size):
        changes: dict[str, object | None] = {
            f"k{number % 5}": {"batch": number, "text": "é" * 60},
            f"n{number}": {"batch": number},
        }
        if number > 2:
            changes[f"n{number - 2}"] = None
        yield changes


def apply(records: Journal, changes: dict[str, object | None]) -> None:
    with records.batch():
        for key, document in changes.items():
            if document is None:
                records.drop("work", key)
            else:
                records.put("work", key, document)


def after(done: int) -> Expected:
    """What the table holds when the first `done` batches were made."""
    expected: Expected = {}
    for changes in batches(done):
        expected.update(changes)
    return {key: document for key, document in expected.items() if document is not None}


def opened(path: Path, disk: JournalDisk = SYSTEM) -> Journal:
    return Journal(path, disk=disk, high_water=HIGH_WATER)


def held(path: Path) -> Expected:
    records = opened(path)
    content = dict(records.of("work"))
    records.close()
    return content


def _work(path: Path, disk: JournalDisk, size: int, acknowledge: Callable[[], None]) -> None:
    records = opened(path, disk)
    for changes in batches(size):
        apply(records, changes)
        acknowledge()
    records.close()


def _killed_at(path: Path, at: int, size: int, *, midway: bool) -> tuple[bool, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        faults = Faults(at, lambda: os.kill(os.getpid(), signal.SIGKILL), midway=midway)
        _work(path, faults.disk, size, lambda: os.write(writer, b"."))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        acknowledged = len(pipe.read())
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), acknowledged


def main(folder: Path, size: int) -> None:
    """Kill the work at each of its calls; exit with a sentence at the first that lost something."""
    points = 0
    for midway in (False, True):
        at, killed = 0, True
        while killed:
            at += 1
            path = folder / f"{at}-{midway}"
            killed, acknowledged = _killed_at(path, at, size, midway=midway)
            points += killed
            if held(path) not in (after(acknowledged), after(acknowledged + 1)):
                raise SystemExit(
                    f"killed at call {at}: not what {acknowledged} acknowledged batches left"
                )
            if list(folder.iterdir()) != [path]:
                raise SystemExit(f"killed at call {at}: something stayed beside the file")
            path.unlink()
    sys.stdout.write(f"{points}\n")


def work_through(path: Path, faults: Faults, size: int) -> tuple[int, Expected]:
    """Do the work on a failing disk, trying each batch three times; how many were made, and what
    memory held at the end.
    """
    try:
        records = opened(path, faults.disk)
    except StorageFailedError:
        records = opened(path)
    done = sum(1 for _ in takewhile(lambda changes: _tried(records, changes), batches(size)))
    memory = dict(records.of("work"))
    records.close()
    return done, memory


def _tried(records: Journal, changes: dict[str, object | None]) -> bool:
    for _ in range(3):
        try:
            apply(records, changes)
        except StorageFailedError:
            continue
        return True
    return False


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
