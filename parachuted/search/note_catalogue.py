"""Note catalogue: the indexed notes and their links, to be listed, filtered and counted."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence

from parachuted.search.index_tables import key_of, link_name, text_of, write_cursor
from parachuted.search.indexed_note import (
    CatalogueLink,
    CataloguePage,
    NoteQuery,
    NoteSummary,
)
from parachuted.search.listing import make_listing
from parachuted.search.words import plain, storable
from parachuted.state import Database
from parachuted.vault import Link, VaultPath, resolve, resolve_target

_SECONDS = 5.0
_COLUMNS = (
    "notes.path, notes.title, notes.modified, notes.size, notes.digest, notes.tags, "
    "notes.matter, notes.typed"
)
_LINKS = """SELECT notes.path, links.text, links.kind, links.from_folder, links.line, links.note, links.at
FROM links JOIN notes ON notes.id = links.note"""  # noqa: E501


class NoteCatalogue:
    """Every call blocks for some milliseconds. Raises StorageFailedError without an index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def notes(self, query: NoteQuery, sees: Callable[[str], bool]) -> CataloguePage:
        """A page of notes that `sees` allows. Raises ValueError for an invalid cursor."""
        listing = make_listing(query)
        with self._database.reading(_SECONDS) as connection:
            rows: list[NoteSummary] = []
            last: tuple[object, ...] = ()
            for row in connection.execute(listing.sql(_COLUMNS), listing.values):
                if not sees(text_of(row[0])):
                    continue
                if len(rows) == query.limit:
                    return CataloguePage(rows=tuple(rows), next=write_cursor(query.sort, *last))
                rows.append(_note(row))
                last = (*row[-3:], row[0].hex())
        return CataloguePage(rows=tuple(rows), next=None)

    def paths(self, query: NoteQuery) -> list[str]:
        """Whatever its limit."""
        listing = make_listing(query)
        with self._database.reading(_SECONDS) as connection:
            return [
                text_of(row[0])
                for row in connection.execute(listing.sql("notes.path"), listing.values)
            ]

    def has_key(self, key: str, sees: Callable[[str], bool]) -> bool:
        sql = (
            "SELECT notes.path FROM fields JOIN notes ON notes.id = fields.note WHERE "
            "fields.key = ?"
        )
        with self._database.reading(_SECONDS) as connection:
            return any(
                sees(text_of(path)) for (path,) in connection.execute(sql, (plain(storable(key)),))
            )

    def note(self, path: str) -> NoteSummary | None:
        with self._database.reading(_SECONDS) as connection:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM notes WHERE path = ?",  # noqa: S608
                (key_of(path),),
            ).fetchone()
        return None if row is None else _note(row)

    def notes_at(self, paths: Sequence[str]) -> dict[str, NoteSummary]:
        """Those that are indexed; a few hundred at once."""
        marks = ", ".join("?" * len(paths))
        with self._database.reading(_SECONDS) as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM notes WHERE path IN ({marks})",  # noqa: S608  marks alone
                tuple(map(key_of, paths)),
            ).fetchall()
        return {row.path: row for row in map(_note, rows)}

    def links_to(self, path: str, sees: Callable[[str], bool] = bool) -> tuple[CatalogueLink, ...]:
        """Links that lead to that file, were there nothing but what `sees` allows."""
        with self._database.reading(_SECONDS) as connection:
            sql = f"{_LINKS} WHERE links.name = ? ORDER BY notes.path, links.at"
            rows = connection.execute(sql, (link_name(path),)).fetchall()
            return tuple(
                link
                for link in _links(rows, connection, sees)
                if link.target == path and sees(link.source)
            )

    def resolved(
        self, links: Iterable[Link], source: str, sees: Callable[[str], bool]
    ) -> list[str | None]:
        """Where these links lead, were there nothing but what `sees` allows."""
        with self._database.reading(_SECONDS) as connection:
            names = _Names(connection, sees)
            return [resolve(link, source, names) for link in links]

    def led_to(self, target: str, source: str, sees: Callable[[str], bool]) -> str | None:
        """As `resolved`; where no file has that name, the one note of that title or alias."""
        with self._database.reading(_SECONDS) as connection:
            names = _Names(connection, sees)
            return resolve_target(target, source, names, from_folder=True) or names.called(target)


class _Names:
    """The files of the vault that `sees` allows, as links look for them."""

    def __init__(self, connection: sqlite3.Connection, sees: Callable[[str], bool]) -> None:
        self._connection, self._sees = connection, sees

    def by_name(self, key: str) -> Iterable[str]:
        sql = (
            "SELECT path FROM notes WHERE name = ? UNION ALL SELECT path FROM others WHERE name = ?"
        )
        paths = [
            text_of(path)
            for (path,) in self._connection.execute(sql, (key_of(key),) * 2).fetchall()
        ]
        return filter(self._sees, paths)

    def called(self, title: str) -> str | None:
        """None where no note has that title or alias, or several have."""
        wanted = plain(title)
        sql = (
            "SELECT path FROM notes WHERE plain(title) = :title UNION SELECT path FROM notes JOIN "
            "fields ON fields.note = notes.id WHERE fields.key IN ('alias', 'aliases') AND "
            "fields.folded = :title"
        )
        self._connection.create_function("plain", 1, plain, deterministic=True)
        rows = self._connection.execute(sql, {"title": wanted}).fetchall() if wanted else ()
        found = [path for (stored,) in rows if self._sees(path := text_of(stored))]
        return found[0] if len(found) == 1 else None

    def exists(self, path: str) -> bool:
        sql = "SELECT 1 FROM notes WHERE path = ? UNION ALL SELECT 1 FROM others WHERE path = ?"
        return (
            self._sees(path)
            and self._connection.execute(sql, (key_of(path),) * 2).fetchone() is not None
        )


def _links(
    rows: Iterable[tuple[bytes, bytes, str, int, int, int, int]],
    connection: sqlite3.Connection,
    sees: Callable[[str], bool] = bool,
) -> Iterator[CatalogueLink]:
    names = _Names(connection, sees)
    for path, stored, kind, from_folder, line, _note_id, _at in rows:
        source, text = text_of(path), text_of(stored)
        target = resolve_target(text, source, names, from_folder=bool(from_folder))
        yield CatalogueLink(
            source=VaultPath(source),
            target=None if target is None else VaultPath(target),
            text=text,
            kind=kind,  # type: ignore[arg-type]
            line=line,
        )


def _note(row: tuple[bytes, str, float, int, str, str, str, str]) -> NoteSummary:
    path, title, modified, size, digest, tags, matter, typed = row[:8]
    return NoteSummary(
        path=text_of(path),
        title=title,
        modified=modified,
        size=size,
        digest=digest,
        tags=tuple(json.loads(tags)),
        matter=matter,
        typed_matter=typed,
    )


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text)
