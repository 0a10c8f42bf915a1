"""Stores the records of suggestions and writes their files.

Blocks on the disk; callers work on a suggestion one at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from parachuted.access.private_text import may_be_private, without_private
from parachuted.errors import ConflictError, NotFoundError, ParachuteError
from parachuted.state import StateStore
from parachuted.suggestions.suggestion import (
    PlannedSuggestion,
    Suggestion,
    SuggestionFile,
    SuggestionRecord,
    body_of,
    file_name,
    normal,
    read_file,
    record_from,
    write_file,
)
from parachuted.vault import Author, Requester, Store, VaultPath, diff_of, is_utf8, printable

log = logging.getLogger(__name__)

WRITER = "suggestions"
_ATTEMPTS = 5
_LARGEST_FILE = 4 << 20
_CUT = "(cut: the difference is longer)"
_TOO_LARGE = "(too large to be compared"
_MOST_KEPT = 2_000


class SuggestionStore:
    """All records in memory, as the state has them, and their files in the vault."""

    def __init__(self, store: Store, state: StateStore) -> None:
        self._store, self._table = store, state.table("suggestions")
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

    def keep(self, record: SuggestionRecord) -> None:
        """Keep it, and the latest thousands of those resolved. Raises StorageFailedError."""
        name = record.suggestion.id
        self._table.put(name, record.to_json())
        with self._lock:
            self._records[name] = record
            resolved = [key for key, one in self._records.items() if not one.suggestion.is_pending]
            gone = resolved[: max(0, len(resolved) - _MOST_KEPT)]
            for key in gone:
                del self._records[key]
        for key in gone:
            self._table.drop(key)

    def put_up(
        self,
        record: SuggestionRecord,
        requester: Requester | None = None,
        *,
        only_new: bool = False,
        seen: SuggestionFile | None = None,
    ) -> None:
        """Write its file, or create it if the suggestion waits and has none (`only_new`: no more
        than that). One that no longer says what was `seen` stays. Others' edits are kept in the
        history.
        """
        suggestion = record.suggestion
        is_private = (
            record.is_private
            or holds_private(*texts_of(suggestion))
            or self._store.root.ignore.hides(suggestion.path)
        )
        data = write_file(record, is_private=is_private)

        def text(present: bytes | None) -> bytes | None:
            if present is None:
                return data if suggestion.is_pending else None
            is_free = not only_new and (seen is None or read_file(present) == seen)
            return data if is_free and present != data else None

        author = Author(by=WRITER, causes=suggestion.causes, requester=requester)
        self._write(VaultPath(record.file), author, text)

    def _write(
        self, path: VaultPath, author: Author, text: Callable[[bytes | None], bytes | None]
    ) -> None:
        """Write what `text` makes of what is there (None: it stays), also while others write."""
        for _ in range(_ATTEMPTS):
            try:
                present = self._store.read(path, keep=True)
            except NotFoundError:
                present = None
            if (data := text(None if present is None else present.data)) is None:
                return
            with suppress(ConflictError):
                if present is None:
                    self._store.create(path, data, author)
                else:
                    self._store.replace(path, data, author, base=present.digest)
                return

    def say(self, record: SuggestionRecord, words: str, seen: SuggestionFile | None = None) -> None:
        """Write words into its file, boxes empty, unless it changed since it was `seen`."""
        suggestion_record = replace(record, words=words)
        self.keep(suggestion_record)
        self.put_up(suggestion_record, seen=seen)

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
            if self._store.resolve(path) != path or self._store.root.size(path) > _LARGEST_FILE:
                return None
            data = self._store.read(path).data
        except ParachuteError:
            return None
        return read_file(data) if len(data) <= _LARGEST_FILE else None  # it may have grown

    def is_as_written(self, file: SuggestionFile, record: SuggestionRecord) -> bool:
        """Whether the file says what we wrote, boxes aside."""
        return file.suggestion == record.suggestion and any(
            file.body == normal(body_of(one)) for one in (record, replace(record, words=""))
        )


def record_of(suggestion: Suggestion, planned: PlannedSuggestion) -> SuggestionRecord:
    """Of one that waits, with what it would change."""
    file, before, after = file_name(suggestion), planned.before or b"", planned.after or b""
    if any(b"\0" in text or not is_utf8(text) for text in (before, after)):
        diff = f"(no text: {len(before)} bytes become {len(after)})"
        return SuggestionRecord(suggestion=suggestion, file=file, diff=diff)
    diff = diff_of(before, after, suggestion.path)
    is_whole = not diff.endswith(_CUT) and not diff.startswith(_TOO_LARGE)
    return SuggestionRecord(
        suggestion=suggestion,
        file=file,
        diff=diff,
        text=None if is_whole or planned.after is None else after.decode(),
        is_private=holds_private(before, after),
    )


def holds_private(*texts: bytes) -> bool:
    return any(may_be_private(text) and without_private(text) is not text for text in texts)


def texts_of(suggestion: Suggestion) -> list[bytes]:
    payloads = (suggestion.payload, suggestion.modifications or {})
    texts = (
        f"# {text}" if name == "section" else text
        for payload in payloads
        for name, text in payload.items()
        if isinstance(text, str)
    )
    return [text.encode("utf-8", "replace") for text in texts]


def unknown(name: str) -> NotFoundError:
    return NotFoundError(
        f"there is no suggestion {printable(name[:80])}; `parachute suggestions list` shows them"
    )
