"""Undo: reverts a run and every run that followed from it, keeping what people wrote since. An undo
is a run of its own, so it can be undone in turn, to any depth.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import dropwhile
from typing import TypeAlias

from parachuted.errors import (
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.events import Bus
from parachuted.history.run_account import (
    RUNNING,
    Operation,
    causes_of,
    has_ended,
    in_force,
    new_act,
)
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.texts.adapters import late_adapter
from parachuted.vault import (
    UNDO,
    Author,
    Requester,
    Store,
    VaultPath,
    Write,
    WriteJournal,
    place_of,
    printable,
)
from parachuted.vault.merge import MergeResult, merge_three
from parachuted.vault.trail import trail_of

_ATTEMPTS = 5
_MOST_LINES = 5000
_MODULE = "module:"
FindRuns: TypeAlias = Callable[[], list[dict[str, object]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    """`runs`: newest first; `kept`: later texts, by file; `undo`: the undo's own run."""

    runs: tuple[str, ...]
    paths: tuple[str, ...]
    kept: Mapping[str, tuple[str, ...]]
    undo: str


@dataclass(slots=True, kw_only=True)
class _UndoProgress:
    """`step` is the number of the write being reverted, `last` of the last write before."""

    act: Operation
    what: str
    number: int = 0
    step: int = 0
    last: int = 0

    def document(self) -> dict[str, object]:
        return {"kind": UNDO, **_PROGRESS().dump_python(self, mode="json", exclude={"number"})}


_PROGRESS = late_adapter(_UndoProgress)


class Undo:
    """An undo is a person's operation and wakes no watcher: they have seen both texts."""

    def __init__(self, store: Store, bus: Bus) -> None:
        self._store, self._history, self._bus = store, store.history, bus
        self._turn = asyncio.Lock()

    async def undo(self, run: str, *, requester: Requester | None = None) -> UndoResult:
        """Undo a run and what followed, except for what was undone before. Raises NotFoundError,
        EditRefusedError when it was undone already or is not over.
        """
        return await self.undo_all(partial(self.followed, run), run, requester=requester)

    async def undo_all(
        self, find: FindRuns, what: str, *, requester: Requester | None = None
    ) -> UndoResult:
        """Undo the runs whose documents `find` returns, newest first, as one undo. `find` is called
        in a thread, while no other undo goes on. `what`: the run that the others followed from, or
        the note whose runs they are. Raises what `undo` and `find` raise.
        """
        async with self._turn:
            act, reverted = await run_uninterrupted(self._take_back, find, what, requester)
            return await self._announce(act, what, reverted)

    async def finish_all(self) -> None:
        """At the start: go on with the undos that the last life left. Raises StorageFailedError."""
        for number, document, _last in await asyncio.to_thread(self._history.acts):
            if document["kind"] == UNDO:
                async with self._turn:
                    progress = _PROGRESS().validate_python({**document, "number": number})
                    if self._is_over(progress.act):
                        await run_uninterrupted(self._history.end_act, number)
                        continue
                    act, reverted = await run_uninterrupted(self._finish, progress)
                    await self._announce(act, progress.what, reverted)

    def unfinished(self) -> set[str]:
        documents = (document for _number, document, _last in self._history.acts())
        return {str(one["act"]["run"]) for one in documents if one["kind"] == UNDO}

    def _is_over(self, act: Operation) -> bool:
        undone = [(self._history.run(run) or {}).get("undone") for run in act.takes_back]
        others = [one for one in undone if isinstance(one, dict) and one.get("run") != act.run]
        return bool(others) or has_ended(self._history.run(act.run))

    async def _announce(
        self, act: Operation, what: str, reverted: Sequence[RevertResult]
    ) -> UndoResult:
        paths = {write.path: None for write in self._history.writes_by(act.run)}
        await self._store.notice(paths)
        kept, runs, printed = _kept(reverted), act.takes_back, tuple(map(printable, paths))
        self._bus.publish(
            "run.undone",
            run=what if what in runs else runs[-1],
            runs=list(runs),
            paths=list(printed),
            kept={path: list(texts) for path, texts in kept.items()},
            undo=act.run,
        )
        return UndoResult(runs=runs, paths=printed, kept=kept, undo=act.run)

    def _take_back(
        self, find: FindRuns, what: str, requester: Requester | None
    ) -> tuple[Operation, list[RevertResult]]:
        """All of it in one thread, so that it is finished even when the caller is cancelled."""
        followed = find()
        if not followed:
            raise EditRefusedError(f"{what} led to nothing that is not taken back already")
        names = [str(run["id"]) for run in followed]
        did = "did again what was undone with" if followed[0].get("takes_back") else "took back"
        act = new_act(
            UNDO,
            self._store.clock(),
            watcher=str(followed[-1]["watcher"]),
            reason=f"{did} {what if what in names else f'the runs of {what}'}",
            takes_back=names,
            requester=requester,
        )
        act.begin(self._store)
        progress = _UndoProgress(act=act, what=what)
        progress.number = self._history.begin_act(progress.document())
        try:
            return self._finish(progress)
        except Exception:
            with suppress(StorageFailedError):  # the next start finds that it was not ended
                self._history.end_act(progress.number)
            raise

    def _finish(self, progress: _UndoProgress) -> tuple[Operation, list[RevertResult]]:
        act, what, names = progress.act, progress.what, progress.act.takes_back
        reverted = [
            item
            for came, gone in self._steps_left(progress)
            for item in self._revert(came, gone, act.author)
        ]
        for run in filter(None, map(self._history.run, names)):
            by = what if what in names else act.run
            undone = {"at": self._store.clock().isoformat(), "with": by, "run": act.run}
            in_force(self._history, run, undone)
        followed = len(names) - 1 if what in names else 0
        more = f" and {followed} that followed from it" if followed else ""
        kept = ", ".join(_kept(reverted))
        reason = f"{act.reason}{more}{f'; kept later texts in {kept}' if kept else ''}"
        act.end(self._store, reason)
        self._history.end_act(progress.number)
        return act, reverted

    def _steps_left(self, progress: _UndoProgress) -> Iterator[tuple[Write, Write | None]]:
        """The steps that are not done, each recorded first: a step writes once, so the undo's
        writes tell whether the one that a crash cut short was done.
        """
        steps = self._steps(progress.act.takes_back)
        if progress.step:
            steps = dropwhile(lambda step: step[0].id != progress.step, steps)
            if any(write.id > progress.last for write in self._history.writes_by(progress.act.run)):
                next(steps, None)
        for step in steps:
            progress.step, progress.last = step[0].id, self._history.last_write()
            self._history.save_act(progress.number, progress.document())
            yield step

    def take_back(self, runs: Iterable[str]) -> list[RevertResult]:
        """Revert all writes of these runs, newest first, as far as possible. Blocks."""
        by = Author(by=UNDO)
        return [item for came, gone in self._steps(runs) for item in self._revert(came, gone, by)]

    def _steps(self, runs: Iterable[str]) -> Iterator[tuple[Write, Write | None]]:
        """The writes, newest first; the two of a move are one step: to where, from where."""
        writes = (write for run in runs for write in self._history.writes_by(run))
        for write in sorted(writes, key=lambda write: -write.id):
            other = self._history.other_half(write)
            if other is None or other.id > write.id:
                yield write, other
            # the half with the higher number, which was passed, came as the other of this one

    def _revert(self, write: Write, gone: Write | None, author: Author) -> Sequence[RevertResult]:
        path = VaultPath(write.path)
        try:
            if gone is not None:
                return revert_move(write, gone, self._store, author)
            place = path if write.after is None else place_of(self._history, write)
            if place is None:
                kept = ("the file is gone, and another one has its name",)
                return [RevertResult(path=path, changed=False, kept=kept)]
            return [revert(write, self._store, author, at=VaultPath(place))]
        except ParachuteError as error:
            return [RevertResult(path=path, changed=False, kept=(error.message,))]

    def followed(self, run: str) -> list[dict[str, object]]:
        """The run and all that its writes led to, newest first. Raises as `undo` does."""
        document = self._history.run(run)
        if document is None:
            raise NotFoundError(f"there is no run {run}; `parachute runs` lists them")
        if document["undone"]:
            undone: Mapping[str, object] = document["undone"]  # type: ignore[assignment]
            back = f"; `parachute undo {undone['run']}` brings it back" if "run" in undone else ""
            raise EditRefusedError(f"the run {run} has been undone already{back}")
        cascade = cascade_of(document, self._history)
        at_work = ", ".join(
            str(one["id"])
            for one in cascade
            if one["outcome"] == RUNNING or (one["id"] == run and not has_ended(one))
        )
        if at_work:
            raise EditRefusedError(f"an agent is still at work in {at_work}; undo {run} afterwards")
        return [one for one in cascade if has_ended(one) and not one["undone"]]


def cascade_of(document: Mapping[str, object], history: WriteJournal) -> list[dict[str, object]]:
    """The run and those that it led to, newest first, whatever the clocks were set to."""
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
    cascade = [one for one in related[::-1] if one["id"] in taken]
    is_among = any(one["id"] == document["id"] for one in cascade)
    return cascade if is_among else [*cascade, dict(document)]


def _kept(reverted: Iterable[RevertResult]) -> dict[str, tuple[str, ...]]:
    kept: dict[str, tuple[str, ...]] = {}
    for item in reverted:
        if item.kept:
            path = printable(item.path)
            kept[path] = tuple(dict.fromkeys([*kept.get(path, ()), *item.kept]))
    return kept


def runs_of_session(
    history: WriteJournal, note: VaultPath, recorded: Iterable[str] = ()
) -> list[dict[str, object]]:
    """The runs that a conversation led to, that wrote something and are not undone, newest first,
    without those that keep the conversation itself. `recorded` are runs that its module knows of.
    Raises NotFoundError where no module wrote that note, EditRefusedError while a run is at work.
    """
    keeping = _keeping(history, note)
    if not keeping:
        raise NotFoundError(f"the history knows of no conversation in {printable(note)}")
    # a call that follows from another run is part of that run's conversation
    causes = {cause for one in keeping.values() if not one["parents"] for cause in causes_of(one)}
    found = {str(one["id"]): one for one in history.runs_of_causes(sorted(causes))}
    for name in recorded:
        document = None if name in found else history.run(name)
        if document is not None:
            found |= {str(one["id"]): one for one in cascade_of(document, history)}
    led_to = [
        one
        for name, one in sorted(found.items(), reverse=True)
        if name not in keeping and not one["undone"] and not one.get("takes_back")
    ]
    if at_work := [one for one in led_to if one["outcome"] == RUNNING]:
        names = ", ".join(str(one["id"]) for one in at_work)
        raise EditRefusedError(f"an agent is still at work in {names}; undo it when that is over")
    return [one for one in led_to if has_ended(one) and history.writes_by(str(one["id"]))]


def _keeping(history: WriteJournal, note: VaultPath) -> dict[str, dict[str, object]]:
    trail = trail_of(history, note)
    calls = {
        name: document
        for name in dict.fromkeys(one.run for one in trail if one.run is not None)
        if (document := history.run(name)) is not None
        and str(document["agent"]).startswith(_MODULE)
    }
    # one that had this name before is another conversation; what a person brought back is the same
    made = [at for at, one in enumerate(trail) if one.kind == "created" and one.run in calls]
    own = {version.run for version in trail[made[-1] if made else 0 :]}
    owner = next((call["agent"] for name, call in calls.items() if name in own), None)
    return {name: one for name, one in calls.items() if name in own and one["agent"] == owner}


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertResult:
    path: VaultPath
    changed: bool
    kept: tuple[str, ...] = ()


def revert(
    write: Write, store: Store, author: Author, *, at: VaultPath | None = None
) -> RevertResult:
    """Undo one write; `at` is where the file is now. Raises StorageFailedError, and NotFoundError
    when the text before it is no longer kept.
    """
    path = at if at is not None else VaultPath(write.path)
    for _ in range(_ATTEMPTS):
        try:
            return _revert(path, write, store, author)
        except ConflictError:
            continue  # saved by someone between our read and our write: look again
    return _left(path, "the file is being changed too quickly")


def revert_move(
    came: Write, gone: Write, store: Store, author: Author
) -> tuple[RevertResult, RevertResult]:
    """Undo a move, whose two writes say where the file came to and where it was. What was written
    there since moves back too. Raises StorageFailedError.
    """
    target, source = VaultPath(came.path), VaultPath(gone.path)
    try:
        store.move(target, source, author)
    except NotFoundError:
        return _left(target), _left(source)
    except ConflictError:
        newer = f"it cannot go back to {printable(source)}, where there is a newer file"
        return _left(target, newer), _left(source)
    return RevertResult(path=target, changed=True), RevertResult(path=source, changed=True)


def _left(path: VaultPath, *why: str) -> RevertResult:
    return RevertResult(path=path, changed=False, kept=why)


def _revert(path: VaultPath, write: Write, store: Store, author: Author) -> RevertResult:
    before, after = (_kept_text(one, store, path) for one in (write.before, write.after))
    try:
        present = store.read(path, keep=True)
    except NotFoundError:
        if write.after is not None or before is None:
            return _left(path)
        store.create(path, before, author)
        return RevertResult(path=path, changed=True)
    if before is None:
        if present.digest != write.after:
            return _left(path, "the new file has been edited since")
        store.delete(path, author, base=present.digest)
        return RevertResult(path=path, changed=True)
    if after is None:
        return _left(path, "there is a newer file of that name")
    merged = _taken_out(before, after, present.data)
    written = store.replace(path, merged.data, author, base=present.digest)
    return RevertResult(path=path, changed=written.changed, kept=merged.kept)


def _taken_out(before: bytes, after: bytes, present: bytes) -> MergeResult:
    if present in (before, after):  # unchanged since: it is to be what it was, to the byte
        return MergeResult(data=before, clean=True)
    text, is_whole = _without_what_still_stands(before, after, present)
    return (
        MergeResult(data=text, clean=True)
        if is_whole
        else merge_three(after, before, text, prefer="theirs")
    )


def _without_what_still_stands(before: bytes, after: bytes, present: bytes) -> tuple[bytes, bool]:
    """The present text without each passage of the write that still stands once and whole; whether
    that was all. A merge alone sees a clash as soon as the lines next to a passage changed.
    """
    old, new, now = (text.splitlines(keepends=True) for text in (before, after, present))
    if max(len(old), len(new), len(now)) > _MOST_LINES:
        return present, False
    is_whole = True
    for tag, old_start, old_stop, new_start, new_stop in reversed(
        difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    ):
        passage = new[new_start:new_stop]
        place = (
            _only_place(passage, now)
            if tag != "equal" and any(line.strip() for line in passage)
            else None
        )
        if place is not None:
            now[place : place + len(passage)] = old[old_start:old_stop]
        is_whole &= tag == "equal" or place is not None
    return b"".join(now), is_whole


def _only_place(passage: Sequence[bytes], lines: Sequence[bytes]) -> int | None:
    places = [
        start
        for start in range(len(lines) - len(passage) + 1)
        if lines[start : start + len(passage)] == passage
    ]
    return places[0] if len(places) == 1 else None


def _kept_text(digest: str | None, store: Store, path: VaultPath) -> bytes | None:
    if digest is None:
        return None
    data = store.objects.get(digest)
    if data is None:
        raise NotFoundError(
            f"an earlier text of {printable(path)} is no longer kept, so this cannot be undone"
        )
    return data
