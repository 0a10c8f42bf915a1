"""Store: the one writer; every change that this program makes in the vault goes through it.

A write names what it changes and the content it was decided on. It is atomic, durable and recorded
before it happens; when the file has moved on it is applied to what is there now if the named place
is untouched, else merged three ways, else refused with both texts.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from parachuted.errors import (
    ConflictError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.vault import swap
from parachuted.vault.bases import KnownBases, PathPredicate
from parachuted.vault.batch import BatchResult, EditBatch, WriteBatch
from parachuted.vault.edit_request import EditRequest, MergeDecision, decide_all
from parachuted.vault.edits import Edit, ReplaceAll, apply_edit
from parachuted.vault.history import Author, History, Write
from parachuted.vault.incoming import keep_open
from parachuted.vault.late_writes import LateWrite, LateWrites, is_being_written
from parachuted.vault.names import fold_name
from parachuted.vault.objects import ObjectStore
from parachuted.vault.paths import VaultPath, printable
from parachuted.vault.rebase import rebase
from parachuted.vault.recovery import Recovery
from parachuted.vault.root import FileContent, VaultRoot, digest_of, named_errors
from parachuted.vault.write_intent import FREELY, WriteConsent, WriteGuard, WriteIntent, kept_texts

log = logging.getLogger(__name__)

_PAUSES_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.0, 0.0, 0.0, 0.0)
_Result = TypeVar("_Result")
_CONTROL_FOLDERS = {".parachute", ".claude", ".git", ".obsidian"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a write did.

    `before` and `after` are digests, None where there is no file; equal when nothing had to change.
    """

    path: VaultPath
    before: str | None
    after: str | None
    merged: bool = False

    @property
    def changed(self) -> bool:
        """Whether any byte changed."""
        return self.before != self.after


class Store:
    """Reads and writes notes.

    Methods block on the disk; threads may share it, one writes at a time.

    All raise PathRefusedError, NotFoundError, or StorageFailedError when the disk refuses (the file
    then holds its old bytes), and those that write ActRefusedError when somebody who was asked
    objects.
    """

    def __init__(
        self,
        root: VaultRoot,
        objects: ObjectStore,
        history: History,
        clock: Callable[[], datetime],
        wrote: Callable[[Write], None] = lambda _write: None,
        ask: Callable[[WriteIntent], None] | None = None,
        is_asked: Callable[[], bool] = lambda: True,
    ) -> None:
        """`wrote` is called after each write that stands, in the thread that made it.

        `ask` is called before each write, in the same thread, while nothing is held: others may
        write meanwhile, and so may who is asked. It objects with ActRefusedError, and is not called
        while `is_asked` says no.
        """
        self._root = root
        self._objects = objects
        self._history = history
        self.bases = KnownBases(objects, history)
        self._clock = clock
        self._wrote = wrote
        self._lock = threading.RLock()
        self._late = LateWrites()
        self.trouble: str | None = None
        self._unsettled: list[Write] = []
        self._asking = WriteGuard(ask=ask, is_asked=is_asked) if ask is not None else None
        self._rescuer: int | None = None

    def read(self, path: VaultPath, *, keep: bool = False) -> FileContent:
        """The content now. `keep` also keeps it as a base that a later write may name."""
        content = self._root.read(path)
        if keep:
            self.bases.keep(path, content.data)
        return content

    def resolve(self, path: VaultPath) -> VaultPath:
        """Where the file is that `path` names, links followed."""
        return self._resolved(path)

    @property
    def folder(self) -> Path:
        """The vault's folder."""
        return self._root.folder

    @property
    def is_asked(self) -> bool:
        """Whether somebody is to be asked before a write, which may then take as long as they
        do.
        """
        return self._asking is not None and self._asking.is_asked()

    def edit(
        self,
        path: VaultPath,
        edit: Edit,
        author: Author,
        *,
        base: str | None = None,
        sees: PathPredicate | None = None,
    ) -> WriteResult:
        """Apply `edit`, decided on the content of digest `base` (None: on whatever is there), which
        stood at that path, or, where `sees` sees them, at a path that the file had before.

        Raises EditRefusedError, or ConflictError with both texts when the named place has changed
        since.
        """
        return self._made(
            lambda consent: self._edit(
                path, EditRequest(edit=edit, base=base, sees=sees), author, consent
            ),
            path,
        )

    def _edit(
        self, path: VaultPath, request: EditRequest, author: Author, consent: WriteConsent
    ) -> WriteResult:
        edit = request.edit
        with self._writing():
            for pause in _PAUSES_S:
                target = self._resolved(path)
                content = self._root.read(target)
                new, merged = self._decide(request, target, content)
                if new == content.data:
                    return WriteResult(
                        path=target, before=content.digest, after=content.digest, merged=merged
                    )
                operation = type(edit).__name__
                consent.need(lambda: _replacing(target, author, operation, content, new))  # noqa: B023  called at once
                with contextlib.suppress(swap.MovedBaseError):
                    return self._replace(
                        target,
                        content,
                        new,
                        author,
                        operation=operation,
                        merged=merged,
                        patient=pause > 0,
                    )
                time.sleep(
                    pause
                )  # a program is saving the file in place, or saves it again and again
        raise StorageFailedError(
            f"{printable(path)} is being changed too quickly; nothing was written"
        )

    def edit_all(
        self, path: VaultPath, requests: Sequence[EditRequest], author: Author
    ) -> list[WriteResult | ParachuteError]:
        """Apply edits of several callers in their order, as one write; one that cannot be applied
        is answered by its error alone.
        """
        return self._made(lambda consent: self._edit_all(path, requests, author, consent), path)

    def _edit_all(
        self,
        path: VaultPath,
        requests: Sequence[EditRequest],
        author: Author,
        consent: WriteConsent,
    ) -> list[WriteResult | ParachuteError]:
        with self._writing():
            for pause in _PAUSES_S:
                target = self._resolved(path)
                content = self._root.read(target)
                decided = decide_all(
                    requests, content.data, functools.partial(self.bases.text, target)
                )
                if decided.data == content.data:
                    return _answers(
                        decided,
                        WriteResult(path=target, before=content.digest, after=content.digest),
                    )
                operation = type(requests[0].edit).__name__ if len(requests) == 1 else "Several"
                consent.need(lambda: _replacing(target, author, operation, content, decided.data))  # noqa: B023  called at once
                with contextlib.suppress(swap.MovedBaseError):
                    written = self._replace(
                        target,
                        content,
                        decided.data,
                        author,
                        operation=operation,
                        merged=False,
                        patient=pause > 0,
                    )
                    return _answers(decided, written)
                time.sleep(pause)
        raise StorageFailedError(
            f"{printable(path)} is being changed too quickly; nothing was written"
        )

    def edit_many(self, notes: Sequence[EditBatch]) -> list[list[WriteResult | ParachuteError]]:
        """`edit_all` for several notes, in a fraction of the time.

        By note, answers by wish; what befalls one is told to that one alone.
        """
        if self.is_asked:  # each is asked about by itself, and may be refused
            return [self._edited_alone(edits) for edits in notes]
        with self._writing():
            batch = WriteBatch(
                root=self._root,
                objects=self._objects,
                bases=self.bases,
                history=self._history,
                late=self._late,
                clock=self._clock,
                resolve=self._resolved,
                take_back=self._take_back,
                wrote=self._wrote,
            )
            found = batch.edit(notes)
        answers = [
            self._edited_alone(edits) if done is None else _answers_of(done)
            for edits, done in zip(notes, found, strict=True)
        ]
        self.trouble = next(
            (
                one.message
                for many in answers
                for one in many
                if isinstance(one, StorageFailedError)
            ),
            None,
        )
        return answers

    def _edited_alone(self, edits: EditBatch) -> list[WriteResult | ParachuteError]:
        try:
            return self.edit_all(edits.path, edits.requests, edits.author)
        except ParachuteError as error:
            return [error] * len(edits.requests)

    def replace(
        self,
        path: VaultPath,
        data: bytes,
        author: Author,
        *,
        base: str | None = None,
        sees: PathPredicate | None = None,
    ) -> WriteResult:
        """Replace the whole content."""
        return self.edit(path, ReplaceAll(data=data), author, base=base, sees=sees)

    def create(self, path: VaultPath, data: bytes, author: Author) -> WriteResult:
        """Make a new file, and its folders; raises ConflictError when one is there."""
        return self._made(lambda consent: self._create(path, data, author, consent), path)

    def _create(
        self, path: VaultPath, data: bytes, author: Author, consent: WriteConsent
    ) -> WriteResult:
        with self._writing():
            target = self._resolved(path)
            after = digest_of(data)
            consent.need(
                lambda: WriteIntent(
                    path=target,
                    author=author,
                    operation="Create",
                    base=None,
                    digest=after,
                    texts=lambda: (None, data),
                )
            )
            self._objects.put(data)
            with (
                named_errors(path),
                self._conflicting(target, b"", data),
                self._root.opened_folder(target.folder, create=True) as folder,
                self._recorded(target, author, "Create", None, after) as temporary,
            ):
                swap.write_temporary(folder, temporary, data)
                swap.create(folder, target.name, temporary)
            return WriteResult(path=target, before=None, after=after)

    def place(
        self,
        path: VaultPath,
        digest: str,
        author: Author,
        *,
        base: str | None = None,
        is_new: bool = False,
    ) -> WriteResult:
        """Make the file, or replace all of it, with the kept content of that digest, which need not
        fit into memory.

        Raises ConflictError, without texts, when the file is not of digest `base` or, with
        `is_new`, is there; nothing is merged.
        """
        return self._made(
            lambda consent: self._place_whole(
                path, digest, author, consent, base=base, is_new=is_new
            ),
            path,
        )

    def _place_whole(
        self,
        path: VaultPath,
        digest: str,
        author: Author,
        consent: WriteConsent,
        *,
        base: str | None,
        is_new: bool,
    ) -> WriteResult:
        with self._writing(), named_errors(path), self._kept(digest) as new:
            for pause in _PAUSES_S:
                target = self._resolved(path)
                if (
                    consent.is_needed and base is None and (is_new or not self._stands(target))
                ):  # before its folders are made
                    consent.need(lambda: self._intent(target, author, "Create", None, digest))  # noqa: B023  called at once
                with (
                    contextlib.suppress(swap.MovedBaseError),
                    self._root.opened_folder(target.folder, create=True) as folder,
                ):
                    if base is None and (is_new or not swap.is_there(folder, target.name)):
                        consent.need(lambda: self._intent(target, author, "Create", None, digest))  # noqa: B023  the same
                        return self._place_new(target, folder, (new, digest), author, is_new=is_new)
                    return self._place(
                        target, folder, (new, digest), author, consent, base=base, patient=pause > 0
                    )
                time.sleep(pause)
        raise StorageFailedError(
            f"{printable(path)} is being changed too quickly; nothing was written"
        )

    def delete(self, path: VaultPath, author: Author, *, base: str | None = None) -> WriteResult:
        """Remove the file; its content stays in the objects.

        Raises ConflictError when it is not of digest `base` any more.
        """
        return self._made(lambda consent: self._remove(path, author, base, consent), path)

    def _remove(
        self, path: VaultPath, author: Author, base: str | None, consent: WriteConsent
    ) -> WriteResult:
        with self._writing():
            for pause in _PAUSES_S:
                target = self._placed(path)
                with (
                    named_errors(path),
                    self._root.opened_folder(target.folder) as folder,
                    swap.opened(folder, target.name) as original,
                ):
                    before = keep_open(self._objects, original)
                    if base is not None and base != before:
                        texts = self.bases.text(target, base), self._objects.get(before)
                        raise ConflictError(
                            base=texts[0] or b"",
                            ours=b"",
                            theirs=texts[1] or b"",
                            is_known=texts[1] is not None,
                        )
                    base = before
                    consent.need(lambda: self._intent(target, author, "Delete", before, None))  # noqa: B023  called at once
                    with contextlib.suppress(swap.MovedBaseError):
                        return self._delete((folder, target, original), before, author)
                time.sleep(pause)
        raise StorageFailedError(
            f"{printable(path)} is being changed too quickly; nothing was removed"
        )

    def move(
        self, source: VaultPath, target: VaultPath, author: Author, *, base: str | None = None
    ) -> WriteResult:
        """Give the file another path, which must be free (ConflictError); what is saved in between
        moves along.
        """
        return self._made(lambda consent: self._move(source, target, author, base, consent), source)

    def _move(
        self,
        source: VaultPath,
        target: VaultPath,
        author: Author,
        base: str | None,
        consent: WriteConsent,
    ) -> WriteResult:
        with self._writing():
            source, target = self._placed(source), self._placed(target)
            content = self._expected(source, base)
            data, digest = content.data, content.digest
            come = WriteIntent(
                path=target,
                author=author,
                operation="Move",
                base=None,
                digest=digest,
                source=source,
                texts=lambda: (data, data),
            )
            gone = WriteIntent(
                path=source,
                author=author,
                operation="Move",
                base=digest,
                digest=None,
                texts=lambda: (data, None),
            )
            consent.need(lambda: gone)  # a guard of either place is asked
            consent.need(lambda: come)
            self._objects.put(data)
            with (
                named_errors(target),
                self._root.opened_folder(target.folder, create=True) as new,
                named_errors(source),
                self._conflicting(target, b"", content.data),
                self._root.opened_folder(source.folder) as old,
                swap.opened(old, source.name),
                self._recorded(target, author, "Move", None, digest),
                self._recorded(source, author, "Move", digest, None),
            ):
                swap.rename_durably((old, source.name), (new, target.name))
            self._late.follow(source, target)
            return WriteResult(path=target, before=None, after=digest)

    @property
    def expects_late_writes(self) -> bool:
        """Whether a program may still be writing into a file that was replaced, or a failed write
        is still to be cleared away.
        """
        return bool(self._late or self._unsettled)

    @contextlib.contextmanager
    def late_files(self, *, last_call: bool = False) -> Iterator[Iterator[tuple[LateWrite, bytes]]]:
        """What programs wrote into files that they had open when these were replaced; nobody else
        writes meanwhile. See `rescue`.

        What is written within is somebody's save that was made already, and has a name nowhere:
        nobody is asked whether it may be kept.
        """
        with self._writing():
            self._rescuer = threading.get_ident()
            try:
                yield self._late.arrived(last_call=last_call)
            finally:
                self._rescuer = None

    def close(self) -> None:
        """Let go of what is kept open; late writes are no longer found."""
        with self._lock:
            self._late.close()

    def _made(self, write: Callable[[WriteConsent], _Result], path: VaultPath) -> _Result:
        """Make the write, which takes the lock by itself, once all who are to be asked agree."""
        if (
            self._asking is None
            or not self._asking.is_asked()
            or self._rescuer == threading.get_ident()
        ):
            return write(FREELY)
        return self._asking.made(write, path)

    def _intent(
        self, path: VaultPath, author: Author, operation: str, base: str | None, digest: str | None
    ) -> WriteIntent:
        """A write of contents that are kept, and may be large."""
        return WriteIntent(
            path=path,
            author=author,
            operation=operation,
            base=base,
            digest=digest,
            texts=lambda: kept_texts(self._objects, base, digest),
        )

    def _decide(
        self, request: EditRequest, path: VaultPath, content: FileContent
    ) -> tuple[bytes, bool]:
        if request.base is None or request.base == content.digest:
            return apply_edit(request.edit, content.data), False
        known = self.bases.text(path, request.base, request.sees)
        if known is None:
            raise NotFoundError(
                f"the text this edit was decided on ({request.base[:12]}) is not known as one of "
                "this note's; read it again"
            )
        return rebase(request.edit, known, content.data), True

    def _replace(
        self,
        path: VaultPath,
        content: FileContent,
        data: bytes,
        author: Author,
        *,
        operation: str,
        merged: bool,
        patient: bool,
    ) -> WriteResult:
        with (
            named_errors(path),
            self._root.opened_folder(path.folder) as folder,
            swap.opened(folder, path.name) as original,
        ):
            if patient and is_being_written(original):
                raise swap.MovedBaseError
            before, after = self._objects.put(content.data), self._objects.put(data)
            with self._recorded(path, author, operation, before, after) as temporary:
                swap.write_temporary(folder, temporary, data, original)
                swap.replace(folder, path.name, temporary, original, old=before)
            self._late.keep(path, original, before)
        return WriteResult(path=path, before=before, after=after, merged=merged)

    def _place_new(
        self, path: VaultPath, folder: int, new: tuple[int, str], author: Author, *, is_new: bool
    ) -> WriteResult:
        try:
            with self._recorded(path, author, "Create", None, new[1]) as temporary:
                swap.copy_temporary(folder, temporary, new[0])
                swap.create(folder, path.name, temporary)
        except swap.MovedBaseError as error:
            if is_new:
                raise _other(path) from error
            raise
        return WriteResult(path=path, before=None, after=new[1])

    def _place(
        self,
        path: VaultPath,
        folder: int,
        new: tuple[int, str],
        author: Author,
        consent: WriteConsent,
        *,
        base: str | None,
        patient: bool,
    ) -> WriteResult:
        with swap.opened(folder, path.name) as original:
            if patient and is_being_written(original):
                raise swap.MovedBaseError
            before = keep_open(self._objects, original)
            if base not in {None, before}:
                raise _other(path)
            if before != new[1]:
                consent.need(lambda: self._intent(path, author, "ReplaceAll", before, new[1]))
                with self._recorded(path, author, "ReplaceAll", before, new[1]) as temporary:
                    swap.copy_temporary(folder, temporary, new[0], original)
                    swap.replace(folder, path.name, temporary, original, old=before)
                self._late.keep(path, original, before)
        return WriteResult(path=path, before=before, after=new[1])

    def _delete(self, file: tuple[int, VaultPath, int], before: str, author: Author) -> WriteResult:
        folder, path, original = file
        with self._recorded(path, author, "Delete", before, None) as temporary:
            swap.remove(folder, path.name, temporary, original, old=before)
        self._late.keep(path, original, before)
        return WriteResult(path=path, before=before, after=None)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            unsettled, self._unsettled = self._unsettled, []
            for write in unsettled:
                self._take_back(write)
            try:
                yield
            except StorageFailedError as error:
                self.trouble = error.message
                raise
            self.trouble = None

    @contextlib.contextmanager
    def _recorded(
        self, path: VaultPath, author: Author, operation: str, before: str | None, after: str | None
    ) -> Iterator[str]:
        """Record the intent, hand out the temporary name, and record how it ended."""
        write = self._history.intend(
            at=self._clock(),
            path=path,
            author=author,
            operation=operation,
            before=before,
            after=after,
            temporary=swap.temporary_name(),
        )
        done = False
        try:
            yield write.temporary
            done = True
        finally:
            if not done:
                self._take_back(write)
        with contextlib.suppress(
            StorageFailedError
        ):  # the write stands; recovery will settle the record by what is on disk
            self._history.settle(write.id, "done")
        self._wrote(write)

    def _take_back(self, write: Write) -> None:
        """Undo what a failed write left; where the disk refuses that too, the next write, or the
        next start, tries again.
        """
        recovery = Recovery(
            root=self._root, objects=self._objects, history=self._history, now=self._clock()
        )
        try:
            recovery.settle(write, undo=True)
        except (OSError, StorageFailedError) as error:
            log.warning(
                "a failed write could not be cleared away yet",
                extra={"path": printable(write.path), "error": str(error)},
            )
            self._unsettled.append(write)

    @contextlib.contextmanager
    def _kept(self, digest: str) -> Iterator[int]:
        if digest not in self._objects:
            raise NotFoundError(f"no content {digest[:12]} is kept")
        with self._objects.opened(digest) as descriptor:
            yield descriptor

    def _stands(self, path: VaultPath) -> bool:
        with contextlib.suppress(OSError), self._root.opened_folder(path.folder) as folder:
            return swap.is_there(folder, path.name)
        return False

    def _expected(self, path: VaultPath, base: str | None) -> FileContent:
        content = self._root.read(path)
        if base is not None and base != content.digest:
            raise ConflictError(
                base=self.bases.text(path, base) or b"", ours=b"", theirs=content.data
            )
        return content

    @contextlib.contextmanager
    def _conflicting(self, path: VaultPath, base: bytes, ours: bytes) -> Iterator[None]:
        try:
            yield
        except swap.MovedBaseError as error:
            theirs = self._root.read(path).data
            raise ConflictError(
                f"{printable(path)} exists with other content; nothing was written",
                base=base,
                ours=ours,
                theirs=theirs,
            ) from error

    def _resolved(self, path: VaultPath) -> VaultPath:
        """Where the file is that `path` names, links followed."""
        self._refuse_control(path)
        target = self._root.resolve(path)
        self._refuse_control(target)
        return target

    def _placed(self, path: VaultPath) -> VaultPath:
        """The same for a name that is itself to come or go: links are followed on the way only."""
        self._refuse_control(path)
        return self._resolved(path.folder) / path.name if path.folder else path

    @staticmethod
    def _refuse_control(path: VaultPath) -> None:
        if not _CONTROL_FOLDERS.isdisjoint(map(fold_name, path.split("/"))):
            raise PathRefusedError(
                f"{printable(path)} belongs to a program's settings, which are not written from "
                "here"
            )


def _replacing(
    path: VaultPath, author: Author, operation: str, content: FileContent, data: bytes
) -> WriteIntent:
    return WriteIntent(
        path=path,
        author=author,
        operation=operation,
        base=content.digest,
        digest=digest_of(data),
        texts=lambda: (content.data, data),
    )


def _other(path: VaultPath) -> ConflictError:
    return ConflictError(
        f"{printable(path)} is not what it was meant to be; nothing was written",
        base=b"",
        ours=b"",
        theirs=b"",
        is_known=False,
    )


def _answers(decided: MergeDecision, written: WriteResult) -> list[WriteResult | ParachuteError]:
    return [
        one if isinstance(one, ParachuteError) else replace(written, merged=one)
        for one in decided.merged
    ]


def _answers_of(done: BatchResult) -> list[WriteResult | ParachuteError]:
    if done.error is not None:
        return [done.error] * len(done.decided.merged)
    write = done.write
    return _answers(
        done.decided,
        WriteResult(path=VaultPath(write.path), before=write.before, after=write.after),
    )
