"""Something small about each file, by path, in a database of the module's own. It can be lost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Generic, TypeVar

Value = TypeVar("Value")
_SCHEMA = """CREATE TABLE IF NOT EXISTS held (
    kind TEXT, path TEXT, name TEXT, value TEXT, PRIMARY KEY (kind, path, name)) WITHOUT ROWID"""


def open_database(path: Path) -> sqlite3.Connection:
    """One that is damaged begins again, empty."""
    try:
        return _opened(path)
    except sqlite3.DatabaseError:
        path.unlink()
        return _opened(path)


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False)
    database.execute("PRAGMA synchronous = OFF")
    database.execute(_SCHEMA)
    return database


class ByPath(Generic[Value]):
    """For each path, values by the name of an entry there; an empty mapping is none."""

    def __init__(self, database: sqlite3.Connection, kind: str) -> None:
        self._database, self._kind = database, kind
        self._files: dict[str, dict[str, Value]] = {}
        self._places: dict[str, str] = {}
        rows = "SELECT path, name, value FROM held WHERE kind = ?"
        for row in database.execute(rows, (kind,)):
            path, name, value = map(json.loads, row)
            self._files.setdefault(path, {})[name] = value
            self._places.setdefault(name, path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def get(self, path: str) -> Mapping[str, Value]:
        return self._files.get(path, {})

    def put(self, path: str, values: Mapping[str, Value]) -> None:
        before = self.get(path)
        gone = [(self._kind, json.dumps(path), json.dumps(name)) for name in before.keys() - values]
        new = [
            (self._kind, json.dumps(path), json.dumps(name), json.dumps(value))
            for name, value in values.items()
            if name not in before or before[name] != value
        ]
        with self._database:
            one = "DELETE FROM held WHERE kind = ? AND path = ? AND name = ?"
            self._database.executemany(one, gone)
            self._database.executemany("INSERT OR REPLACE INTO held VALUES (?, ?, ?, ?)", new)
        if not values:
            self._files.pop(path, None)
            return
        self._files[path] = dict(values)
        for name in values:
            if name not in self.get(self._places.get(name, "")):
                self._places[name] = path

    def move(self, source: str, path: str) -> None:
        values = self.get(source)
        self.put(path, {**self.get(path), **values})
        self.put(source, {})

    def path_of(self, name: str) -> str | None:
        path = self._places.get(name)
        if path is None or name in self.get(path):
            return path
        return next((path for path, values in self._files.items() if name in values), None)

    def paths_of(self, name: str) -> Iterator[str]:
        """The files that have it, the one that had it first before others."""
        first = self.path_of(name)
        if first is not None:
            yield first
            yield from (path for path, values in self._files.items() if name in values)
