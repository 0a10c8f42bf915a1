"""Undo: reverts a run and every run that followed from it, keeping what people wrote since.

An undo is a run of its own, so an undo of an undo brings back what the first one took, and so on to
any depth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from itertools import dropwhile, zip_longest
from typing import Any

from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.events import Bus
from parachuted.history.revert import RefuseText, RevertResult, refuse_nothing, revert, revert_move
from parachuted.history.run_account import (
    RUNNING,
    Operation,
    causes_of,
    has_ended,
    in_force,
    new_act,
)
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import (
    UNDO,
    Author,
    Caller,
    History,
    Store,
    VaultPath,
    Write,
    place_of,
    printable,
)

_BEYOND = (
    "what this run and those that followed wrote is now, in part, where you may not write; "
    "nothing was undone"
)


def _anywhere(_path: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """What was undone: the runs, newest first, the changed files, and, by file, later texts that
    were kept.

    `undo` is the undo's own run.
    """

    runs: tuple[str, ...]
    paths: tuple[str, ...]
    kept: Mapping[str, tuple[str, ...]]
    undo: str


@dataclass(frozen=True, slots=True)
class UndoLimits:
    """Where an undo may write, and which texts it may not bring back."""

    may_write: Callable[[str], bool] = _anywhere
    refuse: RefuseText = refuse_nothing


@dataclass(slots=True, kw_only=True)
class _UndoProgress:
    """How far an undo is: `step` is the number of the write that it is taking back, `last` that of
    the last write before that.
    """

    act: Operation
    what: str
    number: int = 0
    step: int = 0
    last: int = 0

    def document(self) -> dict[str, object]:
        act = {**asdict(self.act), "at": self.act.at.isoformat()}
        return {"kind": UNDO, "act": act, "what": self.what, "step": self.step, "last": self.last}

    @classmethod
    def from_document(cls, number: int, document: Mapping[str, Any]) -> _UndoProgress:
        held = document["act"]
        caller = Caller(*held["caller"]) if held["caller"] is not None else None
        act = Operation(
            **{
                **held,
                "at": datetime.fromisoformat(held["at"]),
                "takes_back": tuple(held["takes_back"]),
                "causes": tuple(held["causes"]),
                "caller": caller,
            }
        )
        step, last = int(document["step"]), int(document["last"])
        return cls(act=act, what=str(document["what"]), number=number, step=step, last=last)


class Undo:
    """Undoes runs.

    An undo is a person's operation and wakes no watcher: they have seen both texts.
    """

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store, self._history, self._bus = store, store.history, bus
        self._turn = asyncio.Lock()

    async def undo(
        self,
        run: str,
        *,
        may_write: Callable[[str], bool] = _anywhere,
        refuse: RefuseText = refuse_nothing,
        caller: Caller | None = None,
    ) -> UndoResult:
        """Undo a run and what followed from it, except for what was undone before. One at a time.

        `may_write` is asked for each file, where it was written and where it is now, before
        anything changes: ActRefusedError where it refuses. A file whose text `refuse` raises for
        stays unchanged and is reported as kept. Raises NotFoundError for an unknown run,
        EditRefusedError when it was undone already or is not over.
        """
        find = partial(self.followed, run)
        return await self.undo_all(find, run, may_write=may_write, refuse=refuse, caller=caller)

    async def undo_all(
        self,
        find: Callable[[], list[dict[str, object]]],
        what: str,
        *,
        may_write: Callable[[str], bool] = _anywhere,
        refuse: RefuseText = refuse_nothing,
        caller: Caller | None = None,
    ) -> UndoResult:
        """Undo the runs whose documents `find` returns, newest first, at least one, as one undo.

        `find` is called in a thread, when no other undo goes on. `what` is the one of these runs
        that the others followed from, or the note whose runs they are. Raises what `undo` and
        `find` raise.
        """
        async with self._turn:
            act, reverted = await run_uninterrupted(
                self._take_back, find, what, may_write, refuse, caller
            )
            return await self._announce(act, what, reverted)

    async def finish_all(self, limits: Callable[[str], UndoLimits]) -> None:
        """At the start: go on with the undos that the last life did not end. `limits` are those of
        the API key of that id. Raises StorageFailedError.
        """
        for number, document, _last in await asyncio.to_thread(self._history.acts):
            if document["kind"] == UNDO:
                async with self._turn:
                    progress = _UndoProgress.from_document(number, document)
                    if self._is_over(progress.act):
                        await run_uninterrupted(self._history.end_act, number)
                        continue
                    bounds = limits(progress.act.author.key)
                    act, reverted = await run_uninterrupted(self._finish, progress, bounds)
                    await self._announce(act, progress.what, reverted)

    def unfinished(self) -> set[str]:
        """The runs of the undos that `finish_all` is to go on with."""
        documents = (document for _number, document, _last in self._history.acts())
        return {str(one["act"]["run"]) for one in documents if one["kind"] == UNDO}

    def _is_over(self, act: Operation) -> bool:
        """Whether it has ended, or another undo has taken back the same since."""
        undone = [(self._history.run(one) or {}).get("undone") for one in act.takes_back]
        others = [one for one in undone if isinstance(one, dict) and one.get("run") != act.run]
        return bool(others) or has_ended(self._history.run(act.run))

    async def _announce(
        self, act: Operation, what: str, reverted: Sequence[RevertResult]
    ) -> UndoResult:
        """Have the files looked at, and tell what was undone, also before a crash."""
        paths = {write.path: None for write in self._history.writes_by(act.run)}
        await self._store.notice(paths)
        undone = UndoResult(
            runs=act.takes_back,
            paths=tuple(map(printable, paths)),
            kept=_kept(reverted),
            undo=act.run,
        )
        kept = {path: list(texts) for path, texts in undone.kept.items()}
        self._bus.publish(
            "run.undone",
            run=what if what in undone.runs else undone.runs[-1],
            runs=list(undone.runs),
            paths=list(undone.paths),
            kept=kept,
            undo=act.run,
        )
        return undone

    def _take_back(
        self,
        find: Callable[[], list[dict[str, object]]],
        what: str,
        may_write: Callable[[str], bool],
        refuse: RefuseText,
        caller: Caller | None,
    ) -> tuple[Operation, list[RevertResult]]:
        """All of it in one thread, so that it is finished even when the caller is cancelled."""
        followed = find()
        if not followed:
            raise EditRefusedError(f"{what} led to nothing that is not taken back already")
        names = [str(one["id"]) for one in followed]
        places = {
            place
            for write in self._writes_of(names)
            for place in (write.path, self._place_of(write))
            if place is not None
        }
        if not all(map(may_write, places)):
            raise ActRefusedError(_BEYOND)
        is_redo, is_notes = bool(followed[0].get("takes_back")), what not in names
        subject = f"the runs of {what}" if is_notes else what
        reason = f"{'did again what was undone with' if is_redo else 'took back'} {subject}"
        act = new_act(
            UNDO,
            self._store.clock(),
            watcher=str(followed[-1]["watcher"]),
            reason=reason,
            takes_back=names,
            caller=caller,
        )
        act.begin(self._history)
        progress = _UndoProgress(act=act, what=what)
        progress.number = self._history.begin_act(progress.document())
        try:
            return self._finish(progress, UndoLimits(may_write, refuse))
        except Exception:
            with suppress(StorageFailedError):  # the next start finds that it was not ended
                self._history.end_act(progress.number)
            raise

    def _finish(
        self, progress: _UndoProgress, limits: UndoLimits
    ) -> tuple[Operation, list[RevertResult]]:
        """Take back what is not yet, and record the end."""
        act, what, names = progress.act, progress.what, progress.act.takes_back
        is_notes = what not in names
        reverted = [
            item
            for came, gone in self._steps_left(progress)
            for item in self._revert(came, gone, act.author, limits.may_write, limits.refuse)
        ]
        by = act.run if is_notes else what
        followed = [one for one in map(self._history.run, names) if one is not None]
        for one in followed:
            undone = {"at": self._store.clock().isoformat(), "with": by, "run": act.run}
            in_force(self._history, one, undone)
        more = f" and {len(names) - 1} that followed from it" if names[1:] and not is_notes else ""
        kept = ", ".join(_kept(reverted))
        quotes = [
            *([what] if is_notes else ()),
            *(str(one["watcher"]) for one in followed),
            *(printable(item.path) for item in reverted),
        ]
        reason = f"{act.reason}{more}{f'; kept later texts in {kept}' if kept else ''}"
        act.end(self._history, self._store.objects, self._store.clock(), reason, quotes=quotes)
        self._history.end_act(progress.number)
        return act, reverted

    def _steps_left(self, progress: _UndoProgress) -> Iterator[tuple[Write, Write | None]]:
        """The steps that are not done, each recorded before it is: a step writes once, so the
        undo's writes tell whether the one that a crash cut short was done.
        """
        steps = _steps(self._writes_of(progress.act.takes_back))
        if progress.step:
            steps = dropwhile(lambda step: step[0].id != progress.step, steps)
            if any(one.id > progress.last for one in self._history.writes_by(progress.act.run)):
                next(steps, None)
        for step in steps:
            progress.step, progress.last = step[0].id, self._history.last_write()
            self._history.save_act(progress.number, progress.document())
            yield step

    def take_back(
        self,
        runs: Iterable[str],
        author: Author | None = None,
        may_write: Callable[[str], bool] = _anywhere,
        refuse: RefuseText = refuse_nothing,
    ) -> list[RevertResult]:
        """Revert every write of these runs, newest first; what cannot be reverted is reported as
        kept. Blocks on the disk.
        """
        by = author or Author(by=UNDO)
        return [
            item
            for came, gone in _steps(self._writes_of(runs))
            for item in self._revert(came, gone, by, may_write, refuse)
        ]

    def _writes_of(self, runs: Iterable[str]) -> list[Write]:
        return sorted(
            (write for run in runs for write in self._history.writes_by(run)),
            key=lambda write: -write.id,
        )

    def _revert(
        self,
        write: Write,
        gone: Write | None,
        author: Author,
        may_write: Callable[[str], bool],
        refuse: RefuseText,
    ) -> Sequence[RevertResult]:
        try:
            if gone is not None:
                return revert_move(write, gone, self._store, author, refuse=refuse)
            place = self._place_of(write)
            if place is None:
                return [
                    RevertResult(
                        path=VaultPath(write.path),
                        changed=False,
                        kept=("the file is gone, and another one has its name",),
                    )
                ]
            if not may_write(place):  # it was moved in this very moment
                return [RevertResult(path=VaultPath(write.path), changed=False)]
            return [
                revert(write, self._store, self._store.objects, author, at=place, refuse=refuse)
            ]
        except ParachuteError as error:
            return [RevertResult(path=VaultPath(write.path), changed=False, kept=(error.message,))]

    def _place_of(self, write: Write) -> VaultPath | None:
        """Where the file is now; None: it is gone, and another one has its name."""
        if write.after is None:
            return VaultPath(write.path)
        place = place_of(self._history, write)
        return VaultPath(place) if place is not None else None

    def followed(self, run: str) -> list[dict[str, object]]:
        """The run and all that its writes woke, directly or not, newest first.

        Raises as `undo` does.
        """
        document = self._history.run(run)
        if document is None:
            raise NotFoundError(f"there is no run {run}; `parachute runs` lists them")
        if document["undone"]:
            undone: Mapping[str, object] = document["undone"]  # type: ignore[assignment]
            back = f"; `parachute undo {undone['run']}` brings it back" if "run" in undone else ""
            raise EditRefusedError(f"the run {run} has been undone already{back}")
        cascade = cascade_of(document, self._history)
        at_work = [
            str(one["id"])
            for one in cascade
            if one["outcome"] == RUNNING or (one["id"] == run and not has_ended(one))
        ]
        if at_work:
            raise EditRefusedError(
                f"an agent is still at work in {', '.join(at_work)}; undo {run} when that is over"
            )
        return [one for one in cascade if has_ended(one) and not one["undone"]]


def cascade_of(document: Mapping[str, object], history: History) -> list[dict[str, object]]:
    """The document's run and those that it led to, newest first.

    Clocks may have been set, so the order of names means nothing.
    """
    related = history.runs_of_causes(causes_of(document))
    children: dict[str, list[str]] = {}
    for one in related:
        for parent in one["parents"]:  # type: ignore[attr-defined]
            children.setdefault(str(parent), []).append(str(one["id"]))
    taken, waiting = {str(document["id"])}, [str(document["id"])]
    while waiting:
        found = [child for child in children.get(waiting.pop(), ()) if child not in taken]
        taken.update(found)
        waiting += found
    cascade = [one for one in related[::-1] if str(one["id"]) in taken]
    return (
        cascade
        if any(one["id"] == document["id"] for one in cascade)
        else [*cascade, dict(document)]
    )


def _steps(writes: Sequence[Write]) -> Iterator[tuple[Write, Write | None]]:
    """The writes, newest first; the two of a move as one step: where the file came to, and where it
    was.
    """
    passed: set[int] = set()
    for write, earlier in zip_longest(writes, writes[1:]):
        if write.id in passed:
            continue
        is_move = (
            write.operation == "Move"
            and earlier is not None
            and earlier.operation == "Move"
            and earlier.id == write.id - 1
        )
        if (
            is_move
            and earlier is not None
            and (earlier.after, earlier.before) == (write.before, write.after)
        ):
            passed.add(earlier.id)
            yield earlier, write
        else:
            yield write, None


def _kept(reverted: Iterable[RevertResult]) -> dict[str, tuple[str, ...]]:
    kept: dict[str, tuple[str, ...]] = {}
    for item in reverted:
        if item.kept:
            path = printable(item.path)
            kept[path] = tuple(dict.fromkeys([*kept.get(path, ()), *item.kept]))
    return kept
