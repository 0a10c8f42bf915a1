"""Write records: a write of the daemon, one that was observed, and their rows in the history."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from parachuted.vault.author import Author

WriteState = Literal["intended", "done", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """`before` and `after` are digests (None: no file); `id` is 0 until recorded."""

    id: int = 0
    at: datetime
    path: str
    author: Author
    operation: str
    before: str | None
    after: str | None
    temporary: str
    state: WriteState = "intended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWrite:
    """What a person, or their program, was seen to do after our write of number `write`.

    `source` is where the file was before it moved; `digest` is None when it is gone or no note.
    """

    id: int
    at: datetime
    path: str
    kind: str
    source: str | None
    digest: str | None
    write: int


def storable(values: Sequence[object]) -> tuple[object, ...]:
    """Names that are not UTF-8 hold lone surrogates, which SQLite's text cannot: as bytes."""
    return tuple(
        _as_bytes(value) if isinstance(value, str) and not value.isascii() else value
        for value in values
    )


def _as_bytes(text: str) -> str | bytes:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")
    return text


def row_of(write: Write) -> tuple[object, ...]:
    author = write.author
    return (
        *(write.at.isoformat(), write.path, author.by, author.run, json.dumps(author.causes)),
        *(write.operation, write.before, write.after, write.temporary, author.key),
    )


def write_from(row: tuple[str, ...]) -> Write:
    path = stored_text(row[2])
    author = Author(by=row[3], run=row[4], causes=tuple(json.loads(row[5])), key=row[11])
    return Write(
        id=int(row[0]),
        at=datetime.fromisoformat(row[1]),
        path=path,
        author=author,
        operation=row[6],
        before=row[7],
        after=row[8],
        temporary=row[9],
        state=row[10],  # type: ignore[arg-type]
    )


def observed_from(row: tuple[Any, ...]) -> ObservedWrite:
    return ObservedWrite(
        id=int(row[0]),
        at=datetime.fromisoformat(row[1]),
        path=stored_text(row[2]),
        kind=row[3],
        source=None if row[4] is None else stored_text(row[4]),
        digest=row[5],
        write=int(row[6]),
    )


def stored_text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
