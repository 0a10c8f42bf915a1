"""Edit request: an edit of one note, and what hooks are asked before a write."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, TypeVar

from parachuted.errors import ConflictError, NotFoundError, StorageFailedError
from parachuted.vault import swap
from parachuted.vault.author import Author
from parachuted.vault.bounded_yaml import YamlValue
from parachuted.vault.edits import (
    AppendToSection,
    DeleteKey,
    Edit,
    ReplaceSection,
    SetFrontmatterKey,
    SeveralEdits,
    apply_edit,
    section_for,
)
from parachuted.vault.merge import diff_of, merge_three
from parachuted.vault.note import WHOLE, ParsedNote, changed_units, meaning, parse_note
from parachuted.vault.objects import ObjectStore
from parachuted.vault.paths import VaultPath, printable
from parachuted.vault.recovery import LateWrites, Recovery
from parachuted.vault.root import VaultRoot, digest_of
from parachuted.vault.trail import PathPredicate
from parachuted.vault.write_journal import WriteJournal
from parachuted.vault.write_records import Write


def rebase(edit: Edit, base: bytes, current: bytes) -> bytes:
    """The current text with the edit in it; ConflictError when both changed the same place."""
    if _same_place(edit, parse_note(base), parse_note(current)):
        return apply_edit(edit, current)
    ours = apply_edit(edit, base)
    merged = merge_three(base, ours, current)
    if not merged.clean:
        raise ConflictError(base=base, ours=ours, theirs=current)
    return merged.data


def _same_place(edit: Edit, base: ParsedNote, current: ParsedNote) -> bool:
    """Whether the edit means in the current text what it meant in its base."""
    if isinstance(edit, AppendToSection):
        return True
    if isinstance(edit, SeveralEdits):
        return all(_same_place(one, base, current) for one in edit.edits)
    if isinstance(edit, ReplaceSection):
        return _section_bytes(base, edit) == _section_bytes(current, edit)
    if isinstance(edit, SetFrontmatterKey | DeleteKey):
        return _key_bytes(base, edit.key) == _key_bytes(current, edit.key)
    return False


def _section_bytes(note: ParsedNote, edit: ReplaceSection) -> bytes | None:
    try:
        section = section_for(edit, note)
    except NotFoundError:
        return None
    return note.data[section.span.start : section.span.stop] if section else None


def _key_bytes(note: ParsedNote, name: str) -> bytes | None:
    return next(
        (note.data[key.span.start : key.span.stop] for key in note.keys if key.name == name), None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """`base` is the content it was decided on, at its path or an earlier one that `sees` sees."""

    edit: Edit
    base: str | None = None
    sees: PathPredicate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """`before` and `after` are digests (None: no file); equal when nothing had to change."""

    path: VaultPath
    before: str | None
    after: str | None
    merged: bool = False

    @property
    def changed(self) -> bool:
        return self.before != self.after


def decide(
    request: EditRequest,
    data: bytes,
    known: Callable[[str, PathPredicate | None], bytes | None],
) -> tuple[bytes, bool]:
    """The data with the edit in it, and whether it was merged with what others wrote."""
    if request.base is None or request.base == digest_of(data):
        return apply_edit(request.edit, data), False
    text = known(request.base, request.sees)
    if text is None:
        message = (
            f"the text this edit was decided on ({request.base[:12]}) is not known as one of this "
            "note's, so nothing was written; read it again"
        )
        raise ConflictError(message, base=b"", ours=apply_edit(request.edit, data), theirs=data)
    return rebase(request.edit, text, data), True


def operation_of(edit: Edit) -> str:
    if isinstance(edit, SeveralEdits):
        return "Several"
    # The name of a key's change in the histories of earlier versions.
    return "SetKey" if isinstance(edit, SetFrontmatterKey) else type(edit).__name__


log = logging.getLogger(__name__)

_PAUSES_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.0, 0.0, 0.0, 0.0)
_MOST_ASKED = 20
_LARGEST = 4 << 20
_BEGINNING = 8 << 10

BeforeAndAfter: TypeAlias = tuple[bytes | None, bytes | None]
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIntent:
    """A write that is meant; `base` and `digest` are None where there is no file.

    `source` is where a file to be moved is. `texts` reads both contents when first needed; None:
    they are too large.
    """

    path: VaultPath
    author: Author
    operation: str
    base: str | None
    digest: str | None
    source: VaultPath | None = None
    texts: Callable[[], BeforeAndAfter | None] = field(repr=False, compare=False)

    def units(self) -> tuple[str, ...]:
        """The sections that would change, and frontmatter keys as `@key`."""
        texts = self.texts()
        return (
            (WHOLE,)
            if texts is None
            else changed_units(*(None if text is None else meaning(text) for text in texts))
        )

    def diff(self) -> str:
        texts = self.texts()
        if texts is None:
            return "(too large to be compared)"
        if any(text is not None and b"\0" in text[:_BEGINNING] for text in texts):
            return "(no text, so no lines can be compared)"
        return diff_of(texts[0] or b"", texts[1] or b"", self.path, source=self.source)

    def frontmatter(self) -> Mapping[str, YamlValue]:
        """The note's frontmatter after the write; when it is deleted, before."""
        texts = self.texts() or (None, None)
        text = texts[0] if texts[1] is None else texts[1]
        return {} if text is None else dict(parse_note(text).values)


class _AskFirstError(Exception):
    """Raised through the write's own clearing up, when nothing has been changed."""

    def __init__(self, intent: WriteIntent) -> None:
        super().__init__(
            f"{intent.operation} of {printable(intent.path)} must be asked about first"
        )
        self.intent = intent


class WriteConsent:
    def __init__(self, *, is_needed: bool) -> None:
        self.is_needed = is_needed
        self._given: list[WriteIntent] = []

    def need(self, intent: Callable[[], WriteIntent]) -> None:
        if self.is_needed and (wanted := intent()) not in self._given:
            raise _AskFirstError(wanted)

    def give(self, intent: WriteIntent) -> None:
        self._given.append(intent)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteGuard:
    """`ask` raises ActRefusedError; `is_asked` says cheaply whether any hook is asked."""

    ask: Callable[[WriteIntent], None]
    is_asked: Callable[[], bool]

    def made(self, write: Callable[[WriteConsent], _Result], path: VaultPath) -> _Result:
        """Ask again whenever the write turns out to differ from what was agreed to."""
        consent = WriteConsent(is_needed=True)
        for _ in range(_MOST_ASKED):
            try:
                return write(consent)
            except _AskFirstError as first:
                wanted = first.intent
            self.ask(wanted)
            consent.give(wanted)
        raise StorageFailedError(
            f"{printable(path)} is changed again each time that hooks are asked about it; nothing "
            "was written"
        )


_FREELY = WriteConsent(is_needed=False)


class WriteRunner:
    """Makes one write at a time, recorded, and takes it back if it fails."""

    def __init__(
        self,
        *,
        root: VaultRoot,
        objects: ObjectStore,
        history: WriteJournal,
        clock: Callable[[], datetime],
        wrote: Callable[[Write], None],
        guard: WriteGuard | None,
        late: LateWrites,
    ) -> None:
        self._root, self._objects, self._history, self._late = root, objects, history, late
        self._clock, self.wrote, self._guard = clock, wrote, guard
        self.lock = threading.RLock()
        self.unsettled: list[Write] = []
        self.trouble: str | None = None
        self._rescuer: int | None = None
        self._waiting: dict[int, VaultPath] = {}

    @contextlib.contextmanager
    def waiting(self, path: VaultPath) -> Iterator[bool]:
        """Whether other threads are in such a block, and none of them for that path."""
        others = list(self._waiting.values())
        self._waiting[threading.get_ident()] = path
        try:
            yield bool(others) and path not in others
        finally:
            self._waiting.pop(threading.get_ident(), None)

    @property
    def is_asked(self) -> bool:
        return self._guard is not None and self._guard.is_asked()

    @contextlib.contextmanager
    def unasked(self) -> Iterator[None]:
        """Inside, hooks are not asked: this thread writes what somebody saved already."""
        with self.writing():
            self._rescuer = threading.get_ident()
            try:
                yield
            finally:
                self._rescuer = None

    def made(
        self, path: VaultPath, begin: Callable[[WriteConsent], Callable[[float], _Result]]
    ) -> _Result:
        """Try again while a program saves the file; the attempt gets the next pause, in seconds."""

        def write(consent: WriteConsent) -> _Result:
            attempt = begin(consent)
            with self.writing():
                for pause in _PAUSES_S:
                    with contextlib.suppress(swap.MovedBaseError):
                        return attempt(pause)
                    time.sleep(pause)
            raise StorageFailedError(
                f"{printable(path)} is being changed too quickly; nothing was changed"
            )

        if self._guard is None or not self.is_asked or self._rescuer == threading.get_ident():
            return write(_FREELY)
        return self._guard.made(write, path)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        with self.lock:
            unsettled, self.unsettled = self.unsettled, []
            for write in unsettled:
                self.take_back(write)
            try:
                yield
            except StorageFailedError as error:
                self.trouble = error.message
                raise
            self.trouble = None

    @contextlib.contextmanager
    def recorded(
        self, path: VaultPath, author: Author, operation: str, before: str | None, after: str | None
    ) -> Iterator[str]:
        write = self._history.intend(
            Write(
                at=self._clock(),
                path=path,
                author=author,
                operation=operation,
                before=before,
                after=after,
                temporary=swap.temporary_name(),
            )
        )
        done = False
        try:
            yield write.temporary
            done = True
        finally:
            if not done:
                self.take_back(write)
        with contextlib.suppress(StorageFailedError):  # it stands; recovery will settle the record
            self._history.settle(write.id, "done")
        self.wrote(write)

    def take_back(self, write: Write) -> None:
        """Undo what a failed write left, now, or at the next write or start if the disk refuses."""
        recovery = Recovery(
            root=self._root,
            objects=self._objects,
            history=self._history,
            now=self._clock(),
            late=self._late,
        )
        try:
            recovery.settle(write, undo=True)
        except (OSError, StorageFailedError) as error:
            log.warning(
                "a failed write could not be cleared away yet",
                extra={"path": printable(write.path), "error": str(error)},
            )
            self.unsettled.append(write)


def kept_texts(objects: ObjectStore, base: str | None, digest: str | None) -> BeforeAndAfter | None:
    texts = []
    for one in (base, digest):
        text = None if one is None else _kept(objects, one)
        if text is None and one is not None:
            return None
        texts.append(text)
    return texts[0], texts[1]


def _kept(objects: ObjectStore, digest: str) -> bytes | None:
    with contextlib.suppress(OSError), objects.opened(digest) as descriptor:
        if os.fstat(descriptor).st_size > _LARGEST:
            return None
    return objects.get(digest)
