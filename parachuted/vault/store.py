"""Store: the one writer; every change that this program makes in the vault goes through it.

A write is atomic, durable, and recorded before it happens. When the file has moved on since its
base, it is applied if the named place is untouched, else merged, else refused with both texts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from parachuted.errors import (
    ConflictError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
)
from parachuted.vault import swap
from parachuted.vault.author import Author
from parachuted.vault.edit_request import (
    BeforeAndAfter,
    EditRequest,
    WriteConsent,
    WriteGuard,
    WriteIntent,
    WriteResult,
    WriteRunner,
    decide,
    kept_texts,
    operation_of,
)
from parachuted.vault.edits import Edit, ReplaceAll
from parachuted.vault.objects import ObjectStore, keep_open
from parachuted.vault.paths import VaultPath, fold_name, printable
from parachuted.vault.recovery import LateWrite, LateWrites, is_being_written
from parachuted.vault.root import FileContent, VaultRoot, digest_of, named_errors, opened
from parachuted.vault.trail import KnownBases, PathPredicate
from parachuted.vault.write_journal import WriteJournal
from parachuted.vault.write_records import Write

_CONTROL_FOLDERS = {".parachute", ".claude", ".git", ".obsidian"}


async def _notice_nothing(_paths: Iterable[str]) -> None:
    """Where nothing watches the vault."""


class _Place(NamedTuple):
    path: VaultPath
    folder: int
    content: int
    digest: str


class Store:
    """Methods block on the disk; threads may share it, one writes at a time.

    All raise PathRefusedError, NotFoundError or StorageFailedError (the file then holds its old
    bytes), and those that write ActRefusedError when a hook objects.
    """

    def __init__(
        self,
        root: VaultRoot,
        objects: ObjectStore,
        history: WriteJournal,
        clock: Callable[[], datetime],
        wrote: Callable[[Write], None] = lambda _write: None,
        ask: Callable[[WriteIntent], None] | None = None,
        is_asked: Callable[[], bool] = lambda: True,
        notice: Callable[[Iterable[str]], Awaitable[None]] = _notice_nothing,
    ) -> None:
        """`ask` is called before each write, in its thread, while nothing is held: it may write.

        `wrote` is called after each write that stands. `notice` makes the index follow paths that
        were written, before the file watcher reports them; the writer awaits it on the event loop.
        """
        self.root = root
        self.objects = objects
        self.history = history
        self.bases = KnownBases(objects, history)
        self.clock = clock
        self.notice = notice
        self._late = LateWrites()
        self._runner = WriteRunner(
            root=root,
            objects=objects,
            history=history,
            clock=clock,
            wrote=wrote,
            guard=WriteGuard(ask=ask, is_asked=is_asked) if ask is not None else None,
            late=self._late,
        )

    @property
    def trouble(self) -> str | None:
        """Why the disk refused the last write; None: it did not."""
        return self._runner.trouble

    def read(self, path: VaultPath, *, keep: bool = False) -> FileContent:
        """`keep` also keeps it as a base that a later write may name."""
        content = self.root.read(path)
        if keep:
            self.bases.keep(path, content.data)
        return content

    def resolve(self, path: VaultPath) -> VaultPath:
        self._refuse_control(path)
        target = self.root.resolve(path)
        self._refuse_control(target)
        return target

    @property
    def folder(self) -> Path:
        return self.root.folder

    @property
    def is_asked(self) -> bool:
        """Whether somebody is asked before a write, which may then take long."""
        return self._runner.is_asked

    def edit(
        self,
        path: VaultPath,
        edit: Edit,
        author: Author,
        *,
        base: str | None = None,
        sees: PathPredicate | None = None,
    ) -> WriteResult:
        """`base` and `sees` are those of an EditRequest. Raises EditRefusedError, ConflictError."""
        request = EditRequest(edit=edit, base=base, sees=sees)
        with self._runner.waiting(path) as is_worth_it:
            if is_worth_it and not self.is_asked:
                self._keep_ahead(path, request)
            return self._runner.made(
                path, lambda consent: partial(self._edit, path, request, author, consent)
            )

    def _keep_ahead(self, path: VaultPath, request: EditRequest) -> None:
        """Keep both texts of an edit while other threads write: of the seven times that a write
        waits for the disk, four then happen side by side. What is wrong, the write itself says.
        """
        with contextlib.suppress(ParachuteError):
            target = self.resolve(path)
            data = self.root.read(target).data
            edited, _ = decide(request, data, partial(self.bases.text, target))
            self.objects.put(data)
            self.objects.put(edited)

    def _edit(
        self,
        path: VaultPath,
        request: EditRequest,
        author: Author,
        consent: WriteConsent,
        pause: float,
    ) -> WriteResult:
        target = self.resolve(path)
        content = self.root.read(target)
        data, merged = decide(request, content.data, partial(self.bases.text, target))
        before = content.digest
        if data == content.data:
            return WriteResult(path=target, before=before, after=before, merged=merged)
        operation = operation_of(request.edit)
        consent.need(
            lambda: self._intent(
                target, author, operation, before, digest_of(data), lambda: (content.data, data)
            )
        )
        with (
            named_errors(target),
            self.root.opened_folder(target.folder, to_write=True) as folder,
            opened(folder, target.name) as original,
        ):
            if pause and is_being_written(original):
                raise swap.MovedBaseError
            before, after = self.objects.put(content.data), self.objects.put(data)
            with self._runner.recorded(target, author, operation, before, after) as temporary:
                swap.write_temporary(folder, temporary, data, original)
                swap.replace(folder, target.name, temporary, original, old=before)
            self._late.keep(target, original, before)
        return WriteResult(path=target, before=before, after=after, merged=merged)

    def replace(
        self,
        path: VaultPath,
        data: bytes,
        author: Author,
        *,
        base: str | None = None,
        sees: PathPredicate | None = None,
    ) -> WriteResult:
        return self.edit(path, ReplaceAll(data=data), author, base=base, sees=sees)

    def create(self, path: VaultPath, data: bytes, author: Author) -> WriteResult:
        """Make a new file, and its folders; ConflictError when it exists."""
        return self._runner.made(
            path, lambda consent: partial(self._create, path, data, author, consent)
        )

    def _create(
        self, path: VaultPath, data: bytes, author: Author, consent: WriteConsent, _pause: float
    ) -> WriteResult:
        target, after = self.resolve(path), digest_of(data)
        consent.need(
            lambda: self._intent(target, author, "Create", None, after, lambda: (None, data))
        )
        self.objects.put(data)
        with (
            named_errors(path),
            self._conflicting(target, data),
            self.root.opened_folder(target.folder, create=True) as folder,
            self._runner.recorded(target, author, "Create", None, after) as temporary,
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
        """Make or replace the file with the kept content of that digest, of any size, unmerged.

        ConflictError, without texts, when it is not of digest `base` or, with `is_new`, is there.
        """

        def attempt(consent: WriteConsent, pause: float) -> WriteResult:
            with named_errors(path), self._kept(digest) as new:
                target = self.resolve(path)
                may_create = base is None
                if consent.is_needed and may_create and (is_new or not self.root.is_there(target)):
                    # asked before its folders are made
                    consent.need(lambda: self._intent(target, author, "Create", None, digest))
                with self.root.opened_folder(target.folder, create=True) as folder:
                    place = _Place(target, folder, new, digest)
                    if may_create and (is_new or not swap.is_there(folder, target.name)):
                        consent.need(lambda: self._intent(target, author, "Create", None, digest))
                        return self._place_new(place, author, is_new=is_new)
                    return self._place(place, author, consent, base, pause)

        return self._runner.made(path, lambda consent: partial(attempt, consent))

    def _place_new(self, place: _Place, author: Author, *, is_new: bool) -> WriteResult:
        path, folder, new, digest = place
        try:
            with self._runner.recorded(path, author, "Create", None, digest) as temporary:
                swap.copy_temporary(folder, temporary, new)
                swap.create(folder, path.name, temporary)
        except swap.MovedBaseError as error:
            if is_new:
                raise _other(path) from error
            raise
        return WriteResult(path=path, before=None, after=digest)

    def _place(
        self, place: _Place, author: Author, consent: WriteConsent, base: str | None, pause: float
    ) -> WriteResult:
        path, folder, new, digest = place
        with opened(folder, path.name) as original:
            if pause and is_being_written(original):
                raise swap.MovedBaseError
            before = keep_open(self.objects, original)
            if base not in {None, before}:
                raise _other(path)
            if before != digest:
                consent.need(lambda: self._intent(path, author, "ReplaceAll", before, digest))
                with self._runner.recorded(path, author, "ReplaceAll", before, digest) as temporary:
                    swap.copy_temporary(folder, temporary, new, original)
                    swap.replace(folder, path.name, temporary, original, old=before)
                self._late.keep(path, original, before)
        return WriteResult(path=path, before=before, after=digest)

    def delete(self, path: VaultPath, author: Author, *, base: str | None = None) -> WriteResult:
        """Its content is kept. Raises ConflictError if it is not of `base`."""

        def begin(consent: WriteConsent) -> Callable[[float], WriteResult]:
            expected = base  # from the first look on, no other content is removed

            def attempt(_pause: float) -> WriteResult:
                nonlocal expected
                target = self.placed(path)
                with (
                    named_errors(path),
                    self.root.opened_folder(target.folder, to_write=True) as folder,
                    opened(folder, target.name) as original,
                ):
                    before = keep_open(self.objects, original)
                    if expected not in {None, before}:
                        raise self._changed(target, str(expected), before)
                    expected = before
                    consent.need(lambda: self._intent(target, author, "Delete", before, None))
                    with self._runner.recorded(target, author, "Delete", before, None) as temporary:
                        swap.remove(folder, target.name, temporary, original, old=before)
                    self._late.keep(target, original, before)
                return WriteResult(path=target, before=before, after=None)

            return attempt

        return self._runner.made(path, begin)

    def move(
        self, source: VaultPath, target: VaultPath, author: Author, *, base: str | None = None
    ) -> WriteResult:
        """Give the file a free path (else ConflictError); what is saved meanwhile moves along."""
        return self._runner.made(
            source, lambda consent: partial(self._move, source, target, author, base, consent)
        )

    def _move(
        self,
        source: VaultPath,
        target: VaultPath,
        author: Author,
        base: str | None,
        consent: WriteConsent,
        _pause: float,
    ) -> WriteResult:
        source, target = self.placed(source), self.placed(target)
        content = self.root.read(source)
        data, digest = content.data, content.digest
        if base not in {None, digest}:
            known = self.bases.text(source, str(base)) or b""
            raise ConflictError(base=known, ours=b"", theirs=data)
        gone = self._intent(source, author, "Move", digest, None, lambda: (data, None))
        come = self._intent(target, author, "Move", None, digest, lambda: (data, data))
        consent.need(lambda: gone)  # a guard of either place is asked
        consent.need(lambda: replace(come, source=source))
        self.objects.put(data)
        with (
            named_errors(target),
            self.root.opened_folder(target.folder, create=True) as new,
            named_errors(source),
            self._conflicting(target, data),
            self.root.opened_folder(source.folder, to_write=True) as old,
            opened(old, source.name),
            self._runner.recorded(target, author, "Move", None, digest),
            self._runner.recorded(source, author, "Move", digest, None),
        ):
            swap.rename_durably((old, source.name), (new, target.name))
        self._late.follow(source, target)
        return WriteResult(path=target, before=None, after=digest)

    @property
    def expects_late_writes(self) -> bool:
        """Whether a program may still write into a replaced file, or a failed write is left."""
        return bool(self._late or self._runner.unsettled)

    @contextlib.contextmanager
    def late_files(self, *, last_call: bool = False) -> Iterator[Iterator[tuple[LateWrite, bytes]]]:
        """See `rescue`."""
        with self._runner.unasked():
            yield self._late.arrived(last_call=last_call)

    def close(self) -> None:
        with self._runner.lock:
            self._late.close()

    def _intent(
        self,
        path: VaultPath,
        author: Author,
        operation: str,
        base: str | None,
        digest: str | None,
        texts: Callable[[], BeforeAndAfter | None] | None = None,
    ) -> WriteIntent:
        """Without `texts`, a write of contents that are kept, and may be large."""
        return WriteIntent(
            path=path,
            author=author,
            operation=operation,
            base=base,
            digest=digest,
            texts=texts or (lambda: kept_texts(self.objects, base, digest)),
        )

    def _changed(self, path: VaultPath, base: str, now: str) -> ConflictError:
        known, theirs = self.bases.text(path, base), self.objects.get(now)
        return ConflictError(
            base=known or b"", ours=b"", theirs=theirs or b"", is_known=theirs is not None
        )

    @contextlib.contextmanager
    def _kept(self, digest: str) -> Iterator[int]:
        if digest not in self.objects:
            raise NotFoundError(f"no content {digest[:12]} is kept")
        with self.objects.opened(digest) as descriptor:
            yield descriptor

    @contextlib.contextmanager
    def _conflicting(self, path: VaultPath, ours: bytes) -> Iterator[None]:
        try:
            yield
        except swap.MovedBaseError as error:
            raise ConflictError(
                f"{printable(path)} exists with other content; nothing was written",
                base=b"",
                ours=ours,
                theirs=self.root.read(path).data,
            ) from error

    def placed(self, path: VaultPath) -> VaultPath:
        """As `resolve`, for a name that is to come or go: links are followed on the way only."""
        self._refuse_control(path)
        return self.resolve(path.folder) / path.name if path.folder else path

    @staticmethod
    def _refuse_control(path: VaultPath) -> None:
        if not _CONTROL_FOLDERS.isdisjoint(map(fold_name, path.split("/"))):
            raise PathRefusedError(
                f"{printable(path)} belongs to a program's settings, which are not written from "
                "here"
            )


def _other(path: VaultPath) -> ConflictError:
    return ConflictError(
        f"{printable(path)} is not what it was meant to be; nothing was written",
        base=b"",
        ours=b"",
        theirs=b"",
        is_known=False,
    )
