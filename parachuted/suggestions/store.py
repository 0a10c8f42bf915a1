"""Stores the records of suggestions and writes their files.

A seal in the file proves that it is what was proposed, by a key that agents, modules and devices
lack: HMAC-SHA256 (RFC 2104) over the suggestion and all that a person is shown of it.

Blocks on the disk; callers make sure that only one of them works on a suggestion at a time.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from parachuted.access.private_parts import may_be_private
from parachuted.access.private_text import without_private
from parachuted.errors import ConflictError, NotFoundError, ParachuteError, StorageFailedError
from parachuted.home_files.private import UntrustedFileError, locked, read_private, replace_private
from parachuted.state import StateStore
from parachuted.suggestions.suggestion import (
    PlannedSuggestion,
    Suggestion,
    SuggestionFile,
    SuggestionPreview,
    body_of,
    from_document,
    normal,
    read_file,
    to_document,
    with_words,
    write_file,
)
from parachuted.vault import Author, Caller, Store, VaultPath, diff_of, is_utf8, printable

log = logging.getLogger(__name__)

KEY_FILE = "suggestions.key"
_LOCK = "suggestions.lock"
_BYTES = 32
_LARGEST_KEY = 1024
WRITER = "suggestions"
_ATTEMPTS = 5
_LARGEST_FILE = 4 << 20
_CUT = "(cut: the difference is longer)"
_TOO_LARGE = "(too large to be compared"
_MOST_KEPT = 2_000
_MOST_TEXT = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionRecord:
    """A suggestion with its file.

    `body` is what we last wrote below the frontmatter, `applying` the run that is just doing it.
    """

    suggestion: Suggestion
    file: str
    shown: SuggestionPreview = field(repr=False)
    body: str = field(repr=False)
    applying: str | None = None

    def to_json(self) -> dict[str, object]:
        shown = self.shown
        return {
            "document": to_document(self.suggestion),
            "paper": self.file,
            "body": self.body,
            "applying": self.applying,
            "diff": shown.diff,
            "text": shown.text,
            "words": shown.words,
            "after": [list(one) for one in shown.after],
            "private": shown.is_private,
        }


def record_of(suggestion: Suggestion, file: str, shown: SuggestionPreview) -> SuggestionRecord:
    """One with the body that follows from it."""
    return SuggestionRecord(
        suggestion=suggestion, file=file, shown=shown, body=body_of(suggestion, shown)
    )


def record_from(row: Mapping[str, object]) -> SuggestionRecord:
    """The record again. Raises ValueError, KeyError or TypeError for what is none."""
    document, after, text = row["document"], row["after"], row["text"]
    if not isinstance(document, Mapping) or not isinstance(after, list):
        raise TypeError("it is not the record of a suggestion")
    shown = SuggestionPreview(
        diff=str(row["diff"]),
        text=None if text is None else str(text),
        words=str(row["words"]),
        after=tuple((str(title), str(said)) for title, said in after),
        is_private=bool(row.get("private")),
    )
    applying = row["applying"]
    return SuggestionRecord(
        suggestion=from_document(document),
        file=str(row["paper"]),
        shown=shown,
        body=str(row["body"]),
        applying=None if applying is None else str(applying),
    )


class Sealer:
    """Makes seals and checks them.

    The key is made when it is first needed. Blocks on the disk then.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._key: bytes | None = None

    def seal(self, suggestion: Suggestion, shown: str) -> str:
        """The seal, as 64 hexadecimal digits.

        Raises StorageFailedError when the key cannot be read or kept.
        """
        message = json.dumps(
            [to_document(suggestion), shown], sort_keys=True, separators=(",", ":")
        ).encode()
        return hmac.new(self._known_key(), message, hashlib.sha256).hexdigest()

    def holds(self, seal: str, suggestion: Suggestion, shown: str) -> bool:
        return hmac.compare_digest(
            seal.encode("utf-8", "replace"), self.seal(suggestion, shown).encode()
        )

    def _known_key(self) -> bytes:
        if self._key is None:
            path = self._home / KEY_FILE
            try:
                with locked(self._home, _LOCK):
                    text = read_private(path, _LARGEST_KEY, is_secret=True)
                    if text is None:
                        text = secrets.token_hex(_BYTES)
                        replace_private(path, text.encode())
                key = bytes.fromhex(text.strip())
            except UntrustedFileError as error:
                raise StorageFailedError(f"suggestions cannot be sealed: {error}") from error
            except ValueError as error:
                raise StorageFailedError(
                    f"{KEY_FILE} holds no key; remove it, and a new one is made"
                ) from error
            except OSError as error:
                raise StorageFailedError(
                    f"{KEY_FILE} cannot be read or kept: {error.strerror}", errno=error.errno
                ) from error
            if len(key) < _BYTES:
                raise StorageFailedError(
                    f"{KEY_FILE} holds no key; remove it, and a new one is made"
                )
            self._key = key
        return self._key


class SuggestionStore:
    def __init__(
        self,
        *,
        store: Store,
        state: StateStore,
        sealer: Sealer,
        clock: Callable[[], datetime],
        size: Callable[[VaultPath], int],
    ) -> None:
        """`size`: how many bytes a file of the vault has."""
        self._store, self._sealer, self._clock, self._size = store, sealer, clock, size
        self._table, self._over = state.table("suggestions"), state.table("suggestions_over")
        self._lock = threading.Lock()
        self._records: dict[str, SuggestionRecord] = {}
        for key, row in self._table.items():
            try:
                self._records[key] = record_from(row)
            except (ValueError, KeyError, TypeError) as error:
                log.warning(
                    "a record of a suggestion cannot be read; its file counts",
                    extra={"suggestion": key, "reason": str(error)},
                )

    def all(self) -> list[SuggestionRecord]:
        with self._lock:
            return list(self._records.values())

    def get(self, name: str) -> SuggestionRecord | None:
        with self._lock:
            return self._records.get(name)

    def is_over(self, name: str) -> bool:
        """Whether there was one of that name, which was resolved so long ago that no more is known
        of it.
        """
        return self._over.get_record(name) is not None

    def keep(self, record: SuggestionRecord) -> None:
        """Keep it, and of those that were resolved long ago no more than some thousands.

        Raises StorageFailedError.
        """
        name = record.suggestion.id
        self._table.put(name, record.to_json())
        with self._lock:
            self._records[name] = record
            resolved = [key for key, one in self._records.items() if not one.suggestion.is_pending]
            gone = resolved[: max(0, len(resolved) - _MOST_KEPT)]
            for key in gone:
                del self._records[key]
        for key in gone:
            self._over.put(key, {})
            self._table.drop(key)

    def put_up(
        self,
        record: SuggestionRecord,
        caller: Caller | None = None,
        *,
        only_new: bool = False,
        seen: SuggestionFile | None = None,
    ) -> None:
        """Write its file, and create it if the suggestion waits and has none; `only_new`: do no
        more than that. One that says something else than what was `seen` stays.

        Others' edits of the file are kept in the history.
        """
        path, suggestion = VaultPath(record.file), record.suggestion
        data = write_file(
            suggestion,
            record.body,
            self._sealer.seal(suggestion, normal(record.body)),
            is_private=record.shown.is_private
            or holds_private(*texts_of(suggestion))
            or self._store.root.ignore.hides(suggestion.path),
        )
        author = Author(by=WRITER, causes=suggestion.causes, caller=caller)
        for _ in range(_ATTEMPTS):
            try:
                if not (only_new and self.is_in_vault(record.file)):
                    self._write(path, data, author, may_create=suggestion.is_pending, seen=seen)
            except ConflictError:
                continue
            return

    def _write(
        self,
        path: VaultPath,
        data: bytes,
        author: Author,
        *,
        may_create: bool,
        seen: SuggestionFile | None,
    ) -> None:
        try:
            present = self._store.read(path, keep=True)
        except NotFoundError:
            if may_create:
                self._store.create(path, data, author)
            return
        if present.data != data and (seen is None or read_file(present.data) == seen):
            self._store.replace(path, data, author, base=present.digest)

    def say(
        self, record: SuggestionRecord, words: str, seen: SuggestionFile | None = None
    ) -> SuggestionRecord:
        """Write words into its file, boxes empty, where it still says what was `seen`: boxes that
        were ticked since are another decision.
        """
        said = record_of(record.suggestion, record.file, replace(record.shown, words=words))
        said = replace(said, applying=record.applying)
        self.keep(said)
        self.put_up(said, seen=seen)
        return said

    def write_notice(self, path: VaultPath, words: str) -> None:
        """Write words into a file that is not the suggestion's own, and clear its boxes."""
        for _ in range(_ATTEMPTS):
            try:
                present = self._store.read(path, keep=True)
                self._store.replace(
                    path, with_words(present.data, words), Author(by=WRITER), base=present.digest
                )
            except ConflictError:
                continue
            return

    def at(self, path: str) -> SuggestionRecord | None:
        return next((record for record in self.all() if record.file == path), None)

    def is_in_vault(self, path: str) -> bool:
        try:
            self._store.read(VaultPath(path))
        except ParachuteError:
            return False
        return True

    def read(self, path: VaultPath) -> SuggestionFile | None:
        """What the file says; None: there is none, or none that is read."""
        try:
            if self._store.resolve(path) != path or self._size(path) > _LARGEST_FILE:
                return None
            data = self._store.read(path).data
        except ParachuteError:
            return None
        return read_file(data) if len(data) <= _LARGEST_FILE else None  # it may have grown

    def is_as_written(self, file: SuggestionFile, record: SuggestionRecord) -> bool:
        """Whether the file says what we wrote, boxes aside: now, or before words for a person were
        put into it that a crash or a full disk kept out of the file.
        """
        return file.suggestion == record.suggestion and (
            file.shown == normal(record.body) or self.is_ours(file)
        )

    def is_ours(self, file: SuggestionFile) -> bool:
        """Whether the file is as we once wrote it, boxes aside, by its seal."""
        return file.suggestion is not None and self._sealer.holds(
            file.seal, file.suggestion, file.shown
        )


def shown_of(suggestion: Suggestion, planned: PlannedSuggestion) -> SuggestionPreview:
    """What a person is to see of what it would do: all of it, one way or the other."""
    before, after = planned.before or b"", planned.after or b""
    if any(b"\0" in text or not is_utf8(text) for text in (before, after)):
        return SuggestionPreview(diff=f"(no text: {len(before)} bytes become {len(after)})")
    diff = diff_of(before, after, suggestion.path)
    is_whole = not diff.endswith(_CUT) and not diff.startswith(_TOO_LARGE)
    return SuggestionPreview(
        diff=diff,
        text=None if is_whole or planned.after is None else after.decode(),
        is_private=holds_private(before, after),
    )


def superseded(
    record: SuggestionRecord, suggestion: Suggestion, ours: bytes | None, theirs: bytes | None
) -> SuggestionRecord:
    """The record of one that cannot be done any more, both texts shown."""
    texts = (("What would stand there", ours), ("What stands there now", theirs))
    after = tuple((title, _shown_text(text)) for title, text in texts)
    is_private = record.shown.is_private or holds_private(ours or b"", theirs or b"")
    shown = replace(record.shown, words="", after=after, is_private=is_private)
    return SuggestionRecord(
        suggestion=suggestion, file=record.file, shown=shown, body=body_of(suggestion, shown)
    )


def holds_private(*texts: bytes) -> bool:
    """Whether a part of one of these notes is for no agent."""
    return any(may_be_private(one) and without_private(one) is not one for one in texts)


def texts_of(suggestion: Suggestion) -> list[bytes]:
    """The texts that are proposed."""
    values = (*suggestion.payload.values(), *(suggestion.modifications or {}).values())
    return [one.encode("utf-8", "replace") for one in values if isinstance(one, str)]


def unknown(name: str) -> NotFoundError:
    """The error for a suggestion that does not exist."""
    return NotFoundError(
        f"there is no suggestion {printable(name[:80])}; `parachute suggestions list` shows them"
    )


def _shown_text(text: bytes | None) -> str:
    if text is None:
        return "(not known, or no file)"
    shown = text[:_MOST_TEXT].decode("utf-8", "replace")
    return shown if len(text) <= _MOST_TEXT else f"{shown}\n(cut: it has {len(text)} bytes)"
