"""Write intent: a write that is about to be made, shown to those who may object before a byte
changes.

Nobody is asked while the writer is held: who is asked may take long, and may itself read and write.
So a write that was not agreed to yet lets go, asks, and begins again; it is made only if what is
then to be done is, digest for digest, what was asked about.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from parachuted.errors import StorageFailedError
from parachuted.vault.bounded_yaml import YamlValue
from parachuted.vault.diff import diff_of
from parachuted.vault.history import Author
from parachuted.vault.meaning import WHOLE, changed_units, meaning
from parachuted.vault.note import parse_note
from parachuted.vault.objects import ObjectStore
from parachuted.vault.paths import VaultPath, printable

_MOST_ASKED = 20
_LARGEST = 4 << 20
_BEGINNING = 8 << 10

BeforeAndAfter: TypeAlias = tuple[bytes | None, bytes | None]
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIntent:
    """A write that is meant: `base` and `digest` are those of what stands there and of what is to
    stand there, None where there is no file.

    `source` is where the file is, when it is to be moved to `path`. `texts` finds both contents,
    and answers None when they are too large to be looked at; nothing is read or compared before
    somebody wants to know.
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
        """The change as unified text, in bounds."""
        texts = self.texts()
        if texts is None:
            return "(too large to be compared)"
        if any(text is not None and b"\0" in text[:_BEGINNING] for text in texts):
            return "(no text, so there are no lines to compare)"
        return diff_of(texts[0] or b"", texts[1] or b"", self.path, source=self.source)

    def frontmatter(self) -> Mapping[str, YamlValue]:
        """What the note's frontmatter would say, or, when it is to go, says."""
        texts = self.texts() or (None, None)
        text = texts[0] if texts[1] is None else texts[1]
        return {} if text is None else dict(parse_note(text).values)


class _AskFirstError(Exception):
    """Not agreed to yet.

    Raised through the write's own clearing up, when nothing has been changed.
    """

    def __init__(self, intent: WriteIntent) -> None:
        super().__init__(
            f"{intent.operation} of {printable(intent.path)} is to be asked about first"
        )
        self.intent = intent


class WriteConsent:
    """What was agreed to in one call of the store."""

    def __init__(self, *, is_needed: bool) -> None:
        self.is_needed = is_needed
        self._given: list[WriteIntent] = []

    def need(self, intent: Callable[[], WriteIntent]) -> None:
        """Go on only if that was agreed to."""
        if self.is_needed and (wanted := intent()) not in self._given:
            raise _AskFirstError(wanted)

    def give(self, intent: WriteIntent) -> None:
        """It was agreed to."""
        self._given.append(intent)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteGuard:
    """Whom to ask.

    `ask` raises ActRefusedError; `is_asked` says, at next to no cost, whether anybody wants to be.
    """

    ask: Callable[[WriteIntent], None]
    is_asked: Callable[[], bool]

    def made(self, write: Callable[[WriteConsent], _Result], path: VaultPath) -> _Result:
        """Make the write, asking as often as it turns out to be another one than was asked
        about.
        """
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


FREELY = WriteConsent(is_needed=False)


def kept_texts(objects: ObjectStore, base: str | None, digest: str | None) -> BeforeAndAfter | None:
    """Both contents as they are kept, or None when one of them is too large to be looked at or is
    not kept.
    """
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
