"""Forks: performs each operation in a child for each of its calls, with something at that call, and
says what was wrong afterwards.

A program of its own: `python -m tests.vault.rig.forks kill|fail|people [--share N/M] [--seed N]
FOLDER`. It prints one JSON object.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import random
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, product
from pathlib import Path

from parachuted.errors import ParachuteError
from parachuted.vault import edit_request as writer
from parachuted.vault import rescue, swap
from tests.vault.rig import people
from tests.vault.rig.shim import KILLED, Act, FaultInjector, failing, killing
from tests.vault.rig.work import (
    NOTE,
    OPERATIONS,
    Files,
    Operation,
    TrialFolder,
    complaints,
    left_behind,
    now,
)

CODES = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE)
MORE_CODES = (*CODES, errno.EDQUOT, errno.EROFS, errno.EINTR, errno.ENFILE, errno.ENOMEM)
LEASE = frozenset(
    {"fcntl"}
)  # while the writer asks who is writing, others wait; here they would wait for themselves


@dataclass(slots=True)
class TrialReport:
    points: int = 0
    wrong: list[str] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOperation:
    """An operation about to begin: where, and what the files are before and after it,
    undisturbed.
    """

    operation: Operation
    place: TrialFolder
    old: Files
    new: Files
    calls: int


Child = Callable[[TrialFolder, FaultInjector], list[str]]
OwnChild = Callable[[PendingOperation, TrialFolder, FaultInjector], list[str]]
Judge = Callable[[PendingOperation, TrialFolder, int], list[str]]


class Rig:
    """Runs children on copies of one place. `share`: the part of all points that is tried."""

    def __init__(self, folder: Path, share: float, seed: int) -> None:
        self._folder, self._share, self._dice = folder, share, random.Random(seed)  # noqa: S311 - a choice of points
        self.account = TrialReport()
        self.run = TrialFolder(folder / "run")

    def ready(self, operations: Iterable[Operation] = OPERATIONS) -> Iterator[PendingOperation]:
        """Each operation, prepared; without the plain rename's moves, which may leave the file
        under both its names.
        """
        for operation in operations:
            if swap._renameat2 is None and "move" in operation.name:
                continue
            place = TrialFolder(self._folder / operation.name).made(operation)
            done = place.copied(self._folder / "done")
            with done.opened() as opened:
                operation.act(opened.store)
            new = done.files()
            shutil.rmtree(done.folder)
            calls = _counted(place.copied(self.run.folder), operation)
            shutil.rmtree(self.run.folder)
            yield PendingOperation(
                operation=operation, place=place, old=place.files(), new=new, calls=calls
            )
            shutil.rmtree(place.folder)

    def each_call(
        self,
        ready: PendingOperation,
        label: str,
        shim: Callable[[int], FaultInjector],
        child: OwnChild,
        judge: Judge,
    ) -> None:
        """Run `child` with a shim at call 1, 2, 3 … until it was not reached; `judge` says what is
        wrong afterwards.
        """
        for at in count(1) if self._share == 1 else self._some(ready.calls):
            place = ready.place.copied(self.run.folder)
            struck, status, wrong = _forked(place, shim(at), partial(child, ready))
            if struck is not None:
                self.account.points += 1
                self.account.calls[struck] += 1
                wrong += judge(ready, place, status)
                self.account.wrong += [
                    f"{ready.operation.name}, {label} at call {at} ({struck}): {one}"
                    for one in wrong
                ]
            shutil.rmtree(place.folder)
            if struck is None and self._share == 1:
                return

    def _some(self, calls: int) -> Iterator[int]:
        return (at for at in range(1, calls + 1) if self._dice.random() < self._share)


def _counted(place: TrialFolder, operation: Operation) -> int:
    """How many calls the operation makes when nothing happens."""

    def child(place: TrialFolder, shim: FaultInjector) -> list[str]:
        with place.opened() as opened:
            shim.install()
            operation.act(opened.store)
            shim.stop()
        return [str(len(shim.calls))]

    return int(_forked(place, FaultInjector(0, killing), child)[2][0])


def _forked(
    place: TrialFolder, shim: FaultInjector, child: Child
) -> tuple[str | None, int, list[str]]:
    """The call that was struck (None: it was not reached), how the child ended, and what it found
    wrong itself.
    """
    note = place.folder / "struck"
    strike = shim._act

    def noting(name: str) -> None:
        if not note.exists():
            note.write_text(name)
        strike(name)

    shim._act = noting
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        os.write(writer, json.dumps(_contained(place, shim, child)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    struck = note.read_text() if note.exists() else None
    return struck, os.waitstatus_to_exitcode(status), json.loads(said) if said else []


def _contained(place: TrialFolder, shim: FaultInjector, child: Child) -> list[str]:
    try:
        return child(place, shim)
    except BaseException:  # noqa: BLE001 - a child tells its parent of everything
        return [traceback.format_exc()]


def kill(rig: Rig, *, midway: bool) -> None:
    shim = partial(FaultInjector, act=killing, midway=midway)
    for ready in rig.ready():
        rig.each_call(ready, "killed", shim, _killed, _after_kill)


def _killed(ready: PendingOperation, place: TrialFolder, shim: FaultInjector) -> list[str]:
    with place.opened() as opened:
        shim.install()
        ready.operation.act(opened.store)
        shim.stop()
    return []


def _after_kill(ready: PendingOperation, place: TrialFolder, status: int) -> list[str]:
    wrong = complaints(place, ready.operation, ready.old, ready.new)
    return wrong if status == KILLED else [*wrong, f"ended with {status}"]


def fail(rig: Rig, codes: tuple[int, ...]) -> None:
    """Fail each call, once and for good, with each error; then let the disk work again, and try
    again.
    """
    for ready in rig.ready():
        for code, for_good in product(codes, (False, True)):
            label = f"{errno.errorcode[code]} {'for good' if for_good else 'once'}"
            shim = partial(FaultInjector, act=failing(code), for_good=for_good)
            rig.each_call(ready, label, shim, partial(_failed, for_good=for_good), _after_failure)


def _after_failure(ready: PendingOperation, place: TrialFolder, status: int) -> list[str]:
    wrong = complaints(place, ready.operation, ready.old, ready.new, ready.new)
    return [*wrong, f"ended with {status}"] if status else wrong


def _failed(
    ready: PendingOperation, place: TrialFolder, shim: FaultInjector, *, for_good: bool
) -> list[str]:
    wrong = []
    with place.opened() as opened:
        shim.install()
        try:
            ready.operation.act(opened.store)
            expected = [ready.new]
        except ParachuteError as error:
            expected = [ready.old]
            wrong += [] if str(error).strip() else ["the error says nothing"]
        shim.stop()
        with opened.store.late_files():
            # a daemon does this every second: what could not be taken back on the failing disk is
            # taken back here
            pass
        if swap._renameat2 is None or (for_good and not ready.operation.exchanges):
            expected = [
                ready.old,
                ready.new,
            ]  # a new name that was not synced can only be taken back while the disk works
        files = place.files()
        if files not in expected:
            state = "new" if files == ready.new else "old" if files == ready.old else repr(files)
            wrong.append(
                f"{'acknowledged' if expected == [ready.new] else 'failed'}, but the files are "
                f"{state}"
            )
        wrong += left_behind(place)
        if files == ready.old:
            ready.operation.act(opened.store)
        wrong += (
            [] if place.files() == ready.new else ["the retry in the same process did not do it"]
        )
    return wrong


def interfere(rig: Rig) -> None:
    """A person saves the note, in each way, before each call of the writer."""
    prepared = (replace(operation, prepare=people.prepare) for operation in people.OPERATIONS)
    for ready in rig.ready(prepared):
        note = people.subject(ready.operation)
        for save in people.SAVES:
            if (save.text is None or save.is_late) and "create" in ready.operation.name:
                continue  # a person cannot take away, or have open, what is not there yet
            shim = partial(FaultInjector, act=_saving(rig.run, note, save), passed=LEASE)
            child, judge = partial(_disturbed, save=save), partial(_after_save, save=save)
            rig.each_call(ready, f"a person {save.name}", shim, child, judge)


def _after_save(
    ready: PendingOperation, place: TrialFolder, status: int, *, save: people.Save
) -> list[str]:
    with place.opened() as opened:
        wrong = people.missing(place, opened, ready.operation, save)
        wrong += [f"still intended: {write}" for write in opened.history.intended()]
        wrong += left_behind(place)
    return [*wrong, f"ended with {status}"] if status else wrong


def _saving(place: TrialFolder, note: str, save: people.Save) -> Act:
    return lambda _name: save.act(place.vault / note)


def _disturbed(
    ready: PendingOperation, place: TrialFolder, shim: FaultInjector, *, save: people.Save
) -> list[str]:
    operation, wrong = ready.operation, []
    with place.opened() as opened:
        save.begin(place.vault / people.subject(operation))
        shim.install()
        try:
            operation.act(opened.store)
            failed = None
        except ParachuteError as error:
            failed = error
        shim.stop()
        for _ in range(2):
            rescue(opened.store, now())
        save.end()
        rescue(opened.store, now())
        wrong += ["still waited for"] if opened.store.expects_late_writes else []
        if failed is None:
            wrong += people.both(place, operation, save)
        elif save.text == NOTE and shim.struck and "create" not in operation.name:
            wrong.append(f"a save of the same bytes is no reason for {failed!r}")
    return wrong


def in_haste() -> None:
    """Nothing is logged, and what the writer waits for, since a program may be saving, is short."""
    logging.disable()
    writer._PAUSES_S = tuple(pause / 100 for pause in writer._PAUSES_S)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["kill", "fail", "people"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all-codes", action="store_true", help="more errors than four")
    parser.add_argument(
        "--plain",
        action="store_true",
        help="as on a file system that has no rename but the plain one",
    )
    asked = parser.parse_args()
    in_haste()
    if asked.plain:
        swap._renameat2 = None
    rig = Rig(asked.folder, asked.share, asked.seed)
    if asked.what == "kill":
        kill(rig, midway=False)
        kill(rig, midway=True)
    elif asked.what == "fail":
        fail(rig, MORE_CODES if asked.all_codes else CODES)
    else:
        interfere(rig)
    json.dump(
        {"points": rig.account.points, "calls": rig.account.calls, "wrong": rig.account.wrong},
        sys.stdout,
    )


if __name__ == "__main__":
    main()
