"""Batch: edits of several notes made together, so that the disk is synced once and not once per
note.

Each note is given what a write alone is: its texts kept and its intent recorded before its swap,
its new file synced before that, its folder synced before any answer is sent; and a crash leaves
each for recovery by itself. What is out of the ordinary is left to be written alone.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.vault import swap
from parachuted.vault.author import Author
from parachuted.vault.edit_request import (
    EditRequest,
    MergeDecision,
    WriteResult,
    answers_of,
    decide_all,
    operation_of,
)
from parachuted.vault.history import History
from parachuted.vault.objects import ObjectStore
from parachuted.vault.paths import VaultPath
from parachuted.vault.recovery import LateWrites, is_being_written
from parachuted.vault.root import VaultRoot, digest_of, let_go, named_errors
from parachuted.vault.trail import KnownBases
from parachuted.vault.write_records import Write


@dataclass(frozen=True, slots=True, kw_only=True)
class EditBatch:
    """What several callers want of one note, in their order."""

    path: VaultPath
    requests: Sequence[EditRequest]
    author: Author


@dataclass(slots=True, kw_only=True)
class _Turn:
    number: int
    write: Write
    decided: MergeDecision
    before: bytes
    folder: int
    name: str
    original: int
    temporary: int = -1
    is_traded: bool = False
    error: ParachuteError | None = None
    is_over: bool = False

    def answers(self) -> list[WriteResult | ParachuteError]:
        if self.error is not None:
            return [self.error] * len(self.decided.merged)
        path, before, after = VaultPath(self.write.path), self.write.before, self.write.after
        return answers_of(self.decided, WriteResult(path=path, before=before, after=after))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBatch:
    """The writer's parts, lent by it while no other thread writes.

    `take_back` undoes what a failed write left; `wrote` is called with each.
    """

    root: VaultRoot
    objects: ObjectStore
    bases: KnownBases
    history: History
    late: LateWrites
    clock: Callable[[], datetime]
    resolve: Callable[[VaultPath], VaultPath]
    take_back: Callable[[Write], None]
    wrote: Callable[[Write], None]

    def edit(self, notes: Sequence[EditBatch]) -> list[list[WriteResult | ParachuteError] | None]:
        """Write all that can be written together; None: nothing was done to that note, it is to be
        written alone.
        """
        with contextlib.ExitStack() as stack:
            turns = self._recorded(self._begun(notes, stack))
            try:
                self._write(turns, stack)
            finally:
                for turn in turns:
                    if not turn.is_over and turn.write.state != "done":
                        self._fail(turn)
            answers: list[list[WriteResult | ParachuteError] | None] = [None] * len(notes)
            for turn in turns:
                if turn.error is not None or not turn.is_over:
                    answers[turn.number] = turn.answers()
            return answers

    def _begun(self, notes: Sequence[EditBatch], stack: contextlib.ExitStack) -> list[_Turn]:
        folders: dict[str, int] = {}
        turns: dict[VaultPath, _Turn] = {}
        for number, edits in enumerate(notes):
            with contextlib.suppress(ParachuteError, OSError):
                path = self.resolve(edits.path)
                content = self.root.read(path)
                decided = decide_all(
                    edits.requests, content.data, functools.partial(self.bases.text, path)
                )
                if path in turns or decided.data == content.data:
                    continue
                if path.folder not in folders:
                    folders[path.folder] = stack.enter_context(self.root.opened_folder(path.folder))
                original = stack.enter_context(swap.opened(folders[path.folder], path.name))
                if is_being_written(original):
                    continue
                write = Write(
                    at=self.clock(),
                    path=path,
                    author=edits.author,
                    operation=operation_of(edits.requests),
                    before=content.digest,
                    after=digest_of(decided.data),
                    temporary=swap.temporary_name(),
                )
                turns[path] = _Turn(
                    number=number,
                    write=write,
                    decided=decided,
                    before=content.data,
                    folder=folders[path.folder],
                    name=path.name,
                    original=original,
                )
        return list(turns.values())

    def _recorded(self, turns: list[_Turn]) -> list[_Turn]:
        """Keep the texts and record the intents; none is written together where the disk refuses
        any of it.
        """
        try:
            self.objects.put_all(
                text for turn in turns for text in (turn.before, turn.decided.data)
            )
            writes = self.history.intend_all([turn.write for turn in turns]) if turns else []
        except StorageFailedError:
            return []
        for turn, write in zip(turns, writes, strict=True):
            turn.write = write
        return turns

    def _write(self, turns: Sequence[_Turn], stack: contextlib.ExitStack) -> None:
        for turn in _going(turns):
            with self._failing(turn):
                turn.temporary = swap.begin_temporary(
                    turn.folder, turn.write.temporary, turn.decided.data, turn.original
                )
                stack.callback(let_go, turn.temporary)
        for turn in _going(turns):
            with self._failing(turn):
                os.fsync(turn.temporary)
        for turn in _going(turns):
            with self._failing(turn):
                turn.is_traded = swap.trade(
                    turn.folder,
                    turn.name,
                    turn.write.temporary,
                    turn.original,
                    old=str(turn.write.before),
                )
        self._sync_folders(turns)
        for turn in _going(turns):
            if turn.is_traded:
                with self._failing(turn):
                    os.unlink(turn.write.temporary, dir_fd=turn.folder)
        self._settle(_going(turns))

    def _sync_folders(self, turns: Sequence[_Turn]) -> None:
        for folder in dict.fromkeys(turn.folder for turn in _going(turns)):
            here = [turn for turn in _going(turns) if turn.folder == folder]
            try:
                os.fsync(folder)
            except OSError as error:
                for turn in here:
                    self._refused(turn, error)

    def _settle(self, turns: Sequence[_Turn]) -> None:
        for folder in dict.fromkeys(turn.folder for turn in turns):
            with contextlib.suppress(
                OSError
            ):  # the writes stand; a power cut may bring a temporary name back, no more
                os.fsync(folder)
        for turn in turns:
            turn.write = replace(turn.write, state="done")
            self.late.keep(VaultPath(turn.write.path), turn.original, str(turn.write.before))
        with contextlib.suppress(
            StorageFailedError
        ):  # recovery will settle the records by what is on disk
            self.history.settle_all([turn.write.id for turn in turns], "done")
        for turn in turns:
            self.wrote(turn.write)

    @contextlib.contextmanager
    def _failing(self, turn: _Turn) -> Iterator[None]:
        """What goes wrong with one note is taken back, and the others go on."""
        try:
            with named_errors(turn.write.path):
                yield
        except swap.MovedBaseError:
            self._fail(turn)
        except ParachuteError as error:
            turn.error = error
            self._fail(turn)

    def _refused(self, turn: _Turn, error: OSError) -> None:
        with self._failing(turn):
            raise error

    def _fail(self, turn: _Turn) -> None:
        turn.is_over = True
        self.take_back(turn.write)


def _going(turns: Sequence[_Turn]) -> list[_Turn]:
    return [turn for turn in turns if not turn.is_over]
