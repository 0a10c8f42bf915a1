"""Write journal: who wrote what, and why. What stood there before is in the object store."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from parachuted.state import Database, DatabaseStatus
from parachuted.vault.write_records import (
    ObservedWrite,
    Write,
    observed_from,
    row_of,
    storable,
    stored_text,
    write_from,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS writes (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, path TEXT NOT NULL, by TEXT NOT NULL, run TEXT, causes TEXT NOT NULL, operation TEXT NOT NULL,
    before TEXT, after TEXT, temporary TEXT NOT NULL, state TEXT NOT NULL,
    noticed INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS writes_by_path ON writes (path, id);
CREATE INDEX IF NOT EXISTS writes_by_run ON writes (run, id);
CREATE INDEX IF NOT EXISTS writes_intended ON writes (state) WHERE state = 'intended';
CREATE INDEX IF NOT EXISTS writes_unnoticed ON writes (path) WHERE noticed = 0;
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, started TEXT NOT NULL, watcher TEXT NOT NULL, outcome TEXT NOT NULL, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS runs_by_start ON runs (started, id);
CREATE TABLE IF NOT EXISTS run_causes (cause TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (cause, run)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sightings (
    id INTEGER PRIMARY KEY, at TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, source TEXT, digest TEXT, write INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS sightings_by_path ON sightings (path, id);
CREATE INDEX IF NOT EXISTS sightings_by_source ON sightings (source, id) WHERE source IS NOT NULL;
CREATE TABLE IF NOT EXISTS pruned (path TEXT PRIMARY KEY, at TEXT NOT NULL) WITHOUT ROWID;
"""  # noqa: E501

_KEYS = "ALTER TABLE writes ADD COLUMN key TEXT NOT NULL DEFAULT '';"
_ACTS = (
    "CREATE TABLE acts (id INTEGER PRIMARY KEY, document TEXT NOT NULL, last_write INTEGER NOT "
    "NULL);"
)

PERSONS = "by a person"
"""The outcome under which an ended act of a person's is kept among the runs, so that no budget of
agents counts it.
"""
_OF_AGENTS = f"outcome != '{PERSONS}'"
_RUNS_AT_ONCE = 500

UNDO, RESTORE = "undo", "restore"
BRINGS_BACK = frozenset({UNDO, RESTORE})
"""Authors of a person's acts that bring back what stood there before.

Each is a run of its own, but no agent's.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpending:
    """Of the runs that began on that day or later: US dollars, and tokens in and out."""

    date: str
    runs: int
    cost_usd: float
    input_tokens: int
    output_tokens: int


class WriteJournal:
    """Methods raise StorageFailedError when the disk refuses; threads may share it."""

    def __init__(self, path: Path) -> None:
        self._database = Database(
            path,
            label="the history",
            loss="earlier runs cannot be explained or undone",
            migrations={1: _SCHEMA, 2: _KEYS, 3: _ACTS},
        )
        self._unnoticed = self._paths_unnoticed()

    @property
    def problem(self) -> str | None:
        """Why a damaged file was set aside when this was opened."""
        return self._database.problem

    def status(self) -> DatabaseStatus:
        return self._database.status()

    def close(self) -> None:
        self._database.close()

    def intend(self, write: Write) -> Write:
        """Durably, before the write is made."""
        columns = "at, path, by, run, causes, operation, before, after, temporary, key, state"
        sql = f"INSERT INTO writes ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?,'intended')"  # noqa: S608
        with self._database.write() as database:
            self._unnoticed.add(write.path)
            number = database.execute(sql, storable(row_of(write))).lastrowid
        return replace(write, id=int(number or 0))

    def settle(self, write: int, state: Literal["done", "void"]) -> None:
        """Not durable by itself: after a power cut the next start settles it by what is on disk."""
        with self._database.write(is_durable=False) as database:
            database.execute("UPDATE writes SET state = ? WHERE id = ?", (state, write))

    def intended(self) -> list[Write]:
        """Writes whose end was never recorded: the process died, or the disk failed."""
        return self._writes("state = 'intended' ORDER BY id", ())

    def begin_act(self, document: Mapping[str, object]) -> int:
        """Record an act of several writes. Durable with its first write."""
        sql = "INSERT INTO acts (document, last_write) SELECT ?, coalesce(max(id), 0) FROM writes"
        with self._database.write(is_durable=False) as database:
            return int(database.execute(sql, (json.dumps(document),)).lastrowid or 0)

    def save_act(self, act: int, document: Mapping[str, object]) -> None:
        with self._database.write(is_durable=False) as database:
            database.execute(
                "UPDATE acts SET document = ? WHERE id = ?", (json.dumps(document), act)
            )

    def end_act(self, act: int) -> None:
        with self._database.write(is_durable=False) as database:
            database.execute("DELETE FROM acts WHERE id = ?", (act,))

    def acts(self) -> list[tuple[int, dict[str, Any], int]]:
        """Those that did not end: number, document, and the number of the last write before it."""
        rows = self._rows("SELECT id, document, last_write FROM acts ORDER BY id", ())
        return [(act, json.loads(document), last) for act, document, last in rows]

    def unnoticed(self, path: str, digest: str | None) -> Write | None:
        """The write that left `path` with that content, unless the scanner has seen it before."""
        if path not in self._unnoticed:
            return None
        writes = self._writes(
            "path = ? AND noticed = 0 AND after IS ? AND state != 'void' ORDER BY id DESC LIMIT 1",
            (path, digest),
        )
        return writes[0] if writes else None

    def is_ours_since(self, write: Write, digest: str | None) -> bool:
        """Whether it and unnoticed writes before it lead there from that content without a gap."""
        at = write.before
        for earlier in self._writes(
            "path = ? AND id < ? AND noticed = 0 AND state != 'void' ORDER BY id DESC",
            (write.path, write.id),
        ):
            if at == digest:
                return True
            at = earlier.before if earlier.after == at else at
        return at == digest

    def notice(self, writes: Sequence[Write]) -> None:
        """The scanner has seen these: the same content, when it comes again, is a person's."""
        with self._database.writer():
            with self._database.write() as database:
                sql = "UPDATE writes SET noticed = 1 WHERE path = ? AND id <= ? AND noticed = 0"
                database.executemany(sql, [storable((write.path, write.id)) for write in writes])
            self._unnoticed = self._paths_unnoticed()

    def writes_of(self, path: str) -> list[Write]:
        return self._writes("path = ? AND state != 'void' ORDER BY id", (path,))

    def knows_text(self, path: str, digest: str) -> bool:
        written = (
            "SELECT 1 FROM writes WHERE path = ? AND (before = ? OR after = ?) AND state != "
            "'void' LIMIT 1"
        )
        seen = "SELECT 1 FROM sightings WHERE path = ? AND digest = ? LIMIT 1"
        return bool(self._rows(written, (path, digest, digest)) or self._rows(seen, (path, digest)))

    def writes_by(self, run: str) -> list[Write]:
        return self._writes("run = ? AND state != 'void' ORDER BY id", (run,))

    def other_half(self, write: Write) -> Write | None:
        """A move is two writes in a row, of the place it came to and of the one it left."""
        if write.operation != "Move":
            return None
        other = (write.after, write.before)
        writes = self._writes(
            "id IN (?, ?) AND operation = 'Move' AND state != 'void'", (write.id - 1, write.id + 1)
        )
        own = (half for half in writes if half.author == write.author)
        return next((half for half in own if (half.before, half.after) == other), None)

    def saw(self, at: datetime, seen: Sequence[tuple[str, str, str | None, str | None]]) -> None:
        """Path, kind, earlier path, digest. Not durable by itself: it explains, decides nothing."""
        sql = "INSERT INTO sightings (path, kind, source, digest, at, write) VALUES (?,?,?,?,?,?)"
        with self._database.write(is_durable=False) as database:
            last = database.execute("SELECT coalesce(max(id), 0) FROM writes").fetchone()[0]
            rest = (at.isoformat(), last)
            database.executemany(sql, [(*storable(one), *rest) for one in seen])

    def sightings_of(self, path: str) -> list[ObservedWrite]:
        return self._sightings("path = ? ORDER BY id", (path,))

    def moved_from(self, path: str, after: int) -> list[ObservedWrite]:
        """Moves by people from that path, after the write of that number, oldest first."""
        return self._sightings("source = ? AND write >= ? ORDER BY id", (path, after))

    def move_away(self, path: str, after: int) -> Write | None:
        """The first write that moved that path away after that number, at its new place."""
        gone = self._writes(
            "path = ? AND id > ? AND operation = 'Move' AND after IS NULL AND state != 'void' "
            "ORDER BY id",
            (path, after),
        )
        return next((came for came in map(self.other_half, gone) if came is not None), None)

    def pruned(self, path: str) -> datetime | None:
        """The time of the newest write of that path that is no longer kept."""
        rows = self._rows("SELECT at FROM pruned WHERE path = ?", (path,))
        return datetime.fromisoformat(rows[0][0]) if rows else None

    def reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """For long queries that no writer waits for."""
        return self._database.reading()

    def drop_writes(self, writes: Sequence[int]) -> None:
        """Never the newest one, or its number would be given again."""
        rows = [(write,) for write in writes]
        with self._database.write() as database:
            database.executemany(
                "INSERT INTO pruned (path, at) SELECT path, at FROM writes WHERE id = ? "
                "ON CONFLICT (path) DO UPDATE SET at = max(at, excluded.at)",
                rows,
            )
            database.executemany("DELETE FROM writes WHERE id = ?", rows)
        with self._database.writer():
            self._unnoticed = self._paths_unnoticed()

    def drop_runs(self, runs: Sequence[str], *, is_durable: bool = True) -> None:
        rows = [(run,) for run in runs]
        with self._database.write(is_durable=is_durable) as database:
            database.executemany("DELETE FROM runs WHERE id = ?", rows)
            database.executemany("DELETE FROM run_causes WHERE run = ?", rows)

    def drop_sightings(self, before: datetime, horizon: datetime) -> int:
        """Forget what people did before that; returns how much.

        One seen between `before` and `horizon` saves those after it, whatever their own date says.
        """
        span = (before.isoformat(), horizon.isoformat())
        kept = (
            "SELECT coalesce(min(id), 9223372036854775807) FROM sightings WHERE at >= ? AND at <= ?"
        )
        with self._database.write() as database:
            return database.execute(
                f"DELETE FROM sightings WHERE id < ({kept}) AND (at < ? OR at > ?)",  # noqa: S608
                (*span, *span),
            ).rowcount

    def done_after(self, write: int) -> list[Write]:
        return self._writes("id > ? AND state = 'done' ORDER BY id", (write,))

    def last_write(self) -> int:
        return int(self._rows("SELECT coalesce(max(id), 0) FROM writes", ())[0][0])

    def save_run(
        self,
        run: str,
        *,
        started: datetime,
        watcher: str,
        outcome: str,
        causes: Sequence[str],
        document: Mapping[str, object],
        is_durable: bool = True,
    ) -> None:
        """What is not durable by itself is so with the next write that is."""
        with self._database.write(is_durable=is_durable) as database:
            columns = "id, started, watcher, outcome, document"
            values = (run, started.isoformat(), watcher, outcome, json.dumps(document))
            sql = f"INSERT OR REPLACE INTO runs ({columns}) VALUES (?,?,?,?,?)"  # noqa: S608
            database.execute(sql, storable(values))
            database.executemany(
                "INSERT OR IGNORE INTO run_causes (cause, run) VALUES (?,?)",
                [(cause, run) for cause in causes],
            )

    def run(self, run: str) -> dict[str, object] | None:
        rows = self._rows("SELECT document FROM runs WHERE id = ?", (run,))
        return json.loads(rows[0][0]) if rows else None

    def runs(self, *, limit: int = 50, before: str | None = None) -> list[dict[str, object]]:
        """Newest first; `before` names the run to go on after."""
        sql = "SELECT document FROM runs WHERE ? IS NULL OR id < ? ORDER BY id DESC LIMIT ?"
        return [json.loads(row[0]) for row in self._rows(sql, (before, before, limit))]

    def runs_that(
        self, is_run: Callable[[Mapping[str, object]], bool], *, limit: int, before: str | None
    ) -> list[dict[str, object]]:
        """The same of those whose document is wanted: a page is full whatever lies between."""
        found: list[dict[str, object]] = []
        place = before
        while len(found) < limit:
            page = self.runs(limit=_RUNS_AT_ONCE, before=place)
            found += itertools.islice(filter(is_run, page), limit - len(found))
            if len(page) < _RUNS_AT_ONCE:
                break
            place = str(page[-1]["id"])
        return found

    def runs_of_causes(self, causes: Sequence[str]) -> list[dict[str, object]]:
        marks = ",".join("?" * len(causes))
        sql = (
            "SELECT document FROM runs WHERE id IN (SELECT run FROM run_causes WHERE cause IN "  # noqa: S608
            f"({marks})) ORDER BY id"
        )
        return [json.loads(row[0]) for row in self._rows(sql, tuple(causes))]

    def unended(self) -> list[dict[str, object]]:
        sql = "SELECT document FROM runs WHERE outcome IN ('running', 'waiting')"
        return [json.loads(row[0]) for row in self._rows(sql, ())]

    def count_runs(self, *, cause: str | None = None) -> int:
        if cause is None:
            return int(self._rows(f"SELECT count(*) FROM runs WHERE {_OF_AGENTS}", ())[0][0])  # noqa: S608
        sql = f"SELECT count(*) FROM run_causes JOIN runs ON id = run WHERE cause = ? AND {_OF_AGENTS}"  # noqa: S608, E501
        found = self._rows(sql, (cause,))
        return int(found[0][0])

    def runs_started(self, since: datetime, until: datetime) -> set[str]:
        """By the wall clock of then."""
        sql = f"SELECT id FROM runs WHERE started >= ? AND started <= ? AND {_OF_AGENTS}"  # noqa: S608
        return {row[0] for row in self._rows(sql, (since.isoformat(), until.isoformat()))}

    def spent(self, since: datetime) -> RunSpending:
        sums = ", ".join(
            f"coalesce(sum(json_extract(document, '$.{name}')), 0)"
            for name in ("cost_usd", "input_tokens", "output_tokens")
        )
        sql = f"SELECT count(*), {sums} FROM runs WHERE started >= ? AND {_OF_AGENTS}"  # noqa: S608
        ((runs, cost, tokens_in, tokens_out),) = self._rows(sql, (since.isoformat(),))
        return RunSpending(
            date=f"{since:%Y-%m-%d}",
            runs=int(runs),
            cost_usd=round(float(cost), 6),
            input_tokens=int(tokens_in),
            output_tokens=int(tokens_out),
        )

    def _paths_unnoticed(self) -> set[str]:
        """Read once, so that a walk over a whole vault need not ask for each file."""
        sql = "SELECT DISTINCT path FROM writes WHERE noticed = 0"
        return {stored_text(row[0]) for row in self._rows(sql, ())}

    def _writes(self, where: str, values: tuple[object, ...]) -> list[Write]:
        columns = "id, at, path, by, run, causes, operation, before, after, temporary, state, key"
        return [
            write_from(row)
            for row in self._rows(f"SELECT {columns} FROM writes WHERE {where}", values)  # noqa: S608
        ]

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        return self._database.rows(sql, storable(values))

    def _sightings(self, where: str, values: tuple[object, ...]) -> list[ObservedWrite]:
        rows = self._rows(
            f"SELECT id, at, path, kind, source, digest, write FROM sightings WHERE {where}",  # noqa: S608
            values,
        )
        return [observed_from(row) for row in rows]


def new_id(prefix: str, at: datetime) -> str:
    """`prefix`, the moment, and eight random digits: `r-20261121-231502-417-9f3a61c8`."""
    moment = "%04d%02d%02d-%02d%02d%02d-%03d" % (  # noqa: UP031  four times as fast as an f-string
        at.year,
        at.month,
        at.day,
        at.hour,
        at.minute,
        at.second,
        at.microsecond // 1000,
    )
    return f"{prefix}-{moment}-{os.urandom(4).hex()}"
