"""Stores the records of suggestions and writes their files.

Blocks on the disk; callers work on a suggestion one at a time. A seal in the file, HMAC-SHA256 over
the suggestion and all that a person is shown of it, proves that it is what was proposed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from parachuted.access.private_parts import may_be_private
from parachuted.access.private_text import without_private
from parachuted.errors import (
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    StorageFailedError,
    storage_errors,
)
from parachuted.home_files.private import UntrustedFileError, locked, read_private, replace_private
from parachuted.state import StateStore
from parachuted.suggestions.suggestion import (
    PlannedSuggestion,
    Status,
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
from parachuted.vault import Author, Requester, Store, VaultPath, diff_of, is_utf8, printable

log = logging.getLogger(__name__)

KEY_FILE = "suggestions.key"
_LOCK = "suggestions.lock"
_BYTES = 32
_KEY = re.compile(r"([0-9a-fA-F]{2}){32,}")
_LARGEST_KEY = 1024
WRITER = "suggestions"
_ATTEMPTS = 5
_LARGEST_FILE = 4 << 20
_CUT = "(cut: the difference is longer)"
_TOO_LARGE = "(too large to be compared"
_MOST_KEPT = 2_000


State: TypeAlias = Status | Literal["applying"]
TRANSITIONS: Mapping[State, frozenset[State]] = {
    "pending": frozenset({"applying", "approved", "rejected", "superseded"}),
    "applying": frozenset({"pending", "approved", "modified", "superseded"}),
}
"""What may follow a state; the others are final. `applying` is kept before the vault is written, so
that a kill in between does it neither twice nor half. Only a batch, which writes nothing itself, is
approved at once.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionRecord:
    """`body` was last written below the frontmatter; `applying` is the run that is at it."""

    suggestion: Suggestion
    file: str
    preview: SuggestionPreview = field(repr=False)
    body: str = field(repr=False)
    applying: str | None = None

    @property
    def state(self) -> State:
        return "applying" if self.applying is not None else self.suggestion.status

    def start(self, run: str, by: str, payload: Mapping[str, object] | None) -> SuggestionRecord:
        self.check("applying")
        suggestion = replace(self.suggestion, resolved_by=by, modifications=payload)
        return replace(self, suggestion=suggestion, applying=run)

    def waiting(self) -> SuggestionRecord:
        """As it was before it was applied; its file has not changed, so a tick in it counts."""
        self.check("pending")
        suggestion = replace(self.suggestion, resolved_by=None, modifications=None)
        return replace(self, suggestion=suggestion, applying=None)

    def over(
        self,
        status: Status,
        by: str,
        outcome: str,
        at: datetime,
        *,
        applied_run: str | None = None,
        after: tuple[tuple[str, str], ...] = (),
        is_private: bool = False,
    ) -> SuggestionRecord:
        """As it is once it is resolved; `after` are texts to show below."""
        self.check(status)
        suggestion = replace(
            self.suggestion,
            status=status,
            resolved_by=by,
            resolved_at=at,
            outcome=outcome,
            applied_run=applied_run,
        )
        is_private = is_private or self.preview.is_private
        preview = replace(self.preview, words="", after=after, is_private=is_private)
        return record_of(suggestion, self.file, preview)

    def check(self, state: State) -> None:
        if state not in TRANSITIONS.get(self.state, ()):
            one = self.suggestion
            was = "is just being applied" if self.applying else f"was {one.status} already"
            raise EditRefusedError(f"the suggestion {one.id} {was}, by {one.resolved_by}")

    def to_json(self) -> dict[str, object]:
        row = asdict(self.preview) | {"body": self.body, "applying": self.applying}
        row["private"] = row.pop("is_private")
        return row | {"document": to_document(self.suggestion), "paper": self.file}


def record_of(suggestion: Suggestion, file: str, preview: SuggestionPreview) -> SuggestionRecord:
    body = body_of(suggestion, preview)
    return SuggestionRecord(suggestion=suggestion, file=file, preview=preview, body=body)


def record_from(row: Mapping[str, Any]) -> SuggestionRecord:
    """Raises ValueError, KeyError or TypeError for what is no record."""
    return SuggestionRecord(
        suggestion=from_document(row["document"]),
        file=row["paper"],
        preview=SuggestionPreview(
            diff=row["diff"],
            text=row["text"],
            words=row["words"],
            after=tuple((str(title), str(text)) for title, text in row["after"]),
            is_private=bool(row.get("private")),
        ),
        body=row["body"],
        applying=row["applying"],
    )


class Sealer:
    """Makes and checks seals. The key is made when it is first needed, which blocks on the disk."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._key: bytes | None = None

    def seal(self, suggestion: Suggestion, body: str) -> str:
        """As 64 hexadecimal digits. StorageFailedError when the key cannot be read or kept."""
        message = json.dumps(
            [to_document(suggestion), body], sort_keys=True, separators=(",", ":")
        ).encode()
        return hmac.new(self._known_key(), message, hashlib.sha256).hexdigest()

    def holds(self, seal: str, suggestion: Suggestion, body: str) -> bool:
        known = self.seal(suggestion, body)
        return hmac.compare_digest(seal.encode("utf-8", "replace"), known.encode())

    def _known_key(self) -> bytes:
        if self._key is None:
            file = self._home / KEY_FILE
            try:
                with storage_errors(f"{KEY_FILE} cannot be used"), locked(self._home, _LOCK):
                    if (text := read_private(file, _LARGEST_KEY, is_secret=True)) is None:
                        text = secrets.token_hex(_BYTES)
                        replace_private(file, text.encode())
            except UntrustedFileError as error:
                raise StorageFailedError(f"suggestions cannot be sealed: {error}") from error
            if _KEY.fullmatch(text.strip()) is None:
                raise StorageFailedError(f"{KEY_FILE} holds no key; remove it to have one made")
            self._key = bytes.fromhex(text.strip())
        return self._key


class SuggestionStore:
    """All records in memory, as the state has them, and their files in the vault."""

    def __init__(
        self,
        store: Store,
        state: StateStore,
        sealer: Sealer,
    ) -> None:
        self._store, self._sealer = store, sealer
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
        """Whether there was one of that name, resolved too long ago to be kept."""
        return self._over.get_record(name) is not None

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
            self._over.put(key, {})
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
            record.preview.is_private
            or holds_private(*texts_of(suggestion))
            or self._store.root.ignore.hides(suggestion.path)
        )
        seal = self._sealer.seal(suggestion, normal(record.body))
        data = write_file(suggestion, record.body, seal, is_private=is_private)

        def text(present: bytes | None) -> bytes | None:
            if present is None:
                return data if suggestion.is_pending else None
            is_free = not only_new and (seen is None or read_file(present) == seen)
            return data if is_free and present != data else None

        author = Author(by=WRITER, causes=suggestion.causes, requester=requester)
        self._write(VaultPath(record.file), author, text)

    def write_notice(self, path: VaultPath, words: str) -> None:
        """Words for a person into a file that is no suggestion's."""

        def text(present: bytes | None) -> bytes | None:
            return None if present is None else with_words(present, words)

        self._write(path, Author(by=WRITER), text)

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

    def say(
        self, record: SuggestionRecord, words: str, seen: SuggestionFile | None = None
    ) -> SuggestionRecord:
        """Write words into its file, boxes empty, unless it changed since it was `seen`."""
        said = record_of(record.suggestion, record.file, replace(record.preview, words=words))
        said = replace(said, applying=record.applying)
        self.keep(said)
        self.put_up(said, seen=seen)
        return said

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
        """Whether the file says what we wrote, boxes aside, by its record or its seal."""
        return file.suggestion == record.suggestion and (
            file.body == normal(record.body) or self.is_ours(file)
        )

    def is_ours(self, file: SuggestionFile) -> bool:
        return file.suggestion is not None and self._sealer.holds(
            file.seal, file.suggestion, file.body
        )


def preview_of(suggestion: Suggestion, planned: PlannedSuggestion) -> SuggestionPreview:
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
