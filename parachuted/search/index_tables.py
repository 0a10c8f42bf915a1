"""Tables: put notes into the database and take them out. One thread uses them."""

from __future__ import annotations

import json
import os
import sqlite3
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path

from parachuted.search.indexed_note import IndexedNote
from parachuted.search.words import emoji, plain
from parachuted.state import Database
from parachuted.vault import name_key

COLUMNS = ("title", "headings", "body", "tags", "matter", "place", "facets")
_VERSION = 6
# FTS5 collects 4 MB of words in memory before it writes a segment; with its default of 1 MB a third
# of the time goes into merging
_SCHEMA = f"""
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, name BLOB NOT NULL, title TEXT NOT NULL, modified REAL NOT NULL,
    size INTEGER NOT NULL, digest TEXT NOT NULL, tags TEXT NOT NULL, matter TEXT NOT NULL, typed TEXT NOT NULL,
    reason TEXT);
CREATE INDEX notes_by_name ON notes (name);
CREATE INDEX notes_with_reason ON notes (path) WHERE reason IS NOT NULL;
CREATE TABLE others (path BLOB PRIMARY KEY, name BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX others_by_name ON others (name);
CREATE TABLE tags (tag TEXT NOT NULL, note INTEGER NOT NULL, PRIMARY KEY (tag, note)) WITHOUT ROWID;
CREATE TABLE fields (
    note INTEGER NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL, folded TEXT NOT NULL, kind TEXT NOT NULL, number REAL NOT NULL,
    PRIMARY KEY (note, key, at)) WITHOUT ROWID;
CREATE INDEX fields_by_key ON fields (key, note);
CREATE TABLE links (
    note INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, text BLOB NOT NULL, name BLOB NOT NULL, from_folder INTEGER NOT NULL,
    line INTEGER NOT NULL, PRIMARY KEY (note, at)) WITHOUT ROWID;
CREATE INDEX links_by_name ON links (name);
CREATE VIRTUAL TABLE texts USING fts5({", ".join(COLUMNS)}, tokenize = "unicode61 remove_diacritics 2 tokenchars '{emoji()}'");
INSERT INTO texts (texts, rank) VALUES ('hashsize', 4194304);
"""  # noqa: E501, S608


def make_database(path: Path) -> Database:
    return Database(
        path,
        label="the search index",
        loss="it is rebuilt from the vault",
        migrations={_VERSION: _SCHEMA},
        is_derived=True,
    )


_PIECES = ", ".join(
    f"CAST(substr(:text, json_extract(value, '$[{at}]'), json_extract(value, '$[{at + 1}]') - "
    f"json_extract(value, '$[{at}]')) AS TEXT)"
    for at in range(1, len(COLUMNS) + 1)
)
_INSERT_TEXTS = f"""INSERT INTO texts (rowid, {", ".join(COLUMNS)})
SELECT json_extract(value, '$[0]'), {_PIECES} FROM json_each(:pieces)"""  # noqa: S608
_INSERT_NOTE = "INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_WITH_NOTE = ("tags", "fields", "links")


class IndexTables:
    """Later ids are fresher notes, so that a search can begin with the freshest."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def known(self) -> dict[str, tuple[str, float]]:
        """Digest and time of change (seconds since 1970) of every note."""
        rows = self._connection.execute("SELECT path, digest, modified FROM notes")
        return {text_of(path): (digest, modified) for path, digest, modified in rows}

    def others(self) -> set[str]:
        return {text_of(path) for (path,) in self._connection.execute("SELECT path FROM others")}

    def last_id(self) -> int:
        return int(self._connection.execute("SELECT coalesce(max(id), 0) FROM notes").fetchone()[0])

    def digest(self, path: str) -> str | None:
        row = self._connection.execute(
            "SELECT digest FROM notes WHERE path = ?", (key_of(path),)
        ).fetchone()
        return None if row is None else str(row[0])

    def put(self, indexed_notes: Sequence[tuple[int, IndexedNote]]) -> None:
        """Notes that are not there, by rising id."""
        run = self._connection.executemany
        self._connection.execute(_INSERT_TEXTS, _packed(indexed_notes))
        run(_INSERT_NOTE, (_row(number, indexed_note) for number, indexed_note in indexed_notes))
        run(
            "INSERT OR IGNORE INTO tags VALUES (?, ?)",
            (
                (plain(tag), number)
                for number, indexed_note in indexed_notes
                for tag in indexed_note.tags
            ),
        )
        run(
            "INSERT OR IGNORE INTO fields VALUES (?, ?, ?, ?, ?, ?)",
            (
                (number, field.key, field.at, plain(field.text), field.kind, field.number)
                for number, indexed_note in indexed_notes
                for field in indexed_note.fields
            ),
        )
        run(
            "INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    number,
                    at,
                    link.kind,
                    key_of(link.target),
                    link_name(link.target),
                    link.form in {"bare", "angle"},
                    link.line,
                )
                for number, indexed_note in indexed_notes
                for at, link in enumerate(indexed_note.links)
            ),
        )

    def drop(self, paths: Iterable[str]) -> None:
        for path in paths:
            row = self._connection.execute(
                "SELECT id FROM notes WHERE path = ?", (key_of(path),)
            ).fetchone()
            if row is None:
                self._connection.execute("DELETE FROM others WHERE path = ?", (key_of(path),))
                continue
            self._connection.execute("DELETE FROM texts WHERE rowid = ?", row)
            self._connection.execute("DELETE FROM notes WHERE id = ?", row)
            for table in _WITH_NOTE:
                self._connection.execute(f"DELETE FROM {table} WHERE note = ?", row)  # noqa: S608

    def put_others(self, paths: Iterable[str]) -> None:
        """Files that are not notes, so that links to them lead somewhere."""
        rows = ((key_of(path), key_of(name_key(path.rpartition("/")[2]))) for path in paths)
        self._connection.executemany("INSERT OR IGNORE INTO others VALUES (?, ?)", rows)

    def touch(self, times: Iterable[tuple[str, float]]) -> None:
        rows = ((modified, key_of(path)) for path, modified in times)
        self._connection.executemany("UPDATE notes SET modified = ? WHERE path = ?", rows)


def link_name(target: str) -> bytes:
    """Without `.md`, however often: `[[a.md]]` may mean `a.md` and `a.md.md`."""
    name = name_key(target.rstrip("/").rpartition("/")[2])
    while name.endswith(".md"):
        name = name.removesuffix(".md")
    return key_of(name)


def key_of(path: str) -> bytes:
    """A path as it is stored: names need not be UTF-8, which SQLite's texts have to be."""
    return os.fsencode(path)


def text_of(stored: bytes) -> str:
    return os.fsdecode(stored)


def _packed(indexed_notes: Sequence[tuple[int, IndexedNote]]) -> dict[str, bytes | str]:
    """One statement takes all texts in, and other threads run meanwhile."""
    pieces: list[bytes] = []
    places, at = [], 1
    for number, indexed_note in indexed_notes:
        place = [number, at]
        for text in indexed_note.texts:
            piece = text.encode()
            pieces.append(piece)
            at += len(piece)
            place.append(at)
        places.append(place)
    return {"text": b"".join(pieces), "pieces": json.dumps(places)}


def _row(number: int, indexed_note: IndexedNote) -> tuple[object, ...]:
    name = key_of(name_key(indexed_note.path.rpartition("/")[2]))
    tags = json.dumps(indexed_note.tags, ensure_ascii=False) if indexed_note.tags else "[]"
    return (
        number,
        key_of(indexed_note.path),
        name,
        indexed_note.title,
        indexed_note.modified,
        indexed_note.size,
        indexed_note.digest,
        tags,
        indexed_note.matter,
        indexed_note.typed_matter,
        indexed_note.reason,
    )


def write_cursor(about: str, *values: object) -> str:
    return (
        urlsafe_b64encode(json.dumps([about, *values], separators=(",", ":")).encode())
        .decode()
        .rstrip("=")
    )


def read_cursor(text: str, about: str, kinds: Sequence[type | tuple[type, ...]]) -> list[object]:
    """Raises ValueError where it is none, or is of a list in another order."""
    try:
        found = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError) as error:
        raise ValueError("the cursor is invalid; pass `next` back unchanged") from error
    if not isinstance(found, list) or len(found) != len(kinds) + 1 or found[0] != about:
        raise ValueError("the cursor belongs to a list in another order; start again without it")
    values = found[1:]
    if not all(
        isinstance(value, kind) and not isinstance(value, bool)
        for value, kind in zip(values, kinds, strict=True)
    ):
        raise ValueError("the cursor is invalid; pass `next` back unchanged")
    return values
