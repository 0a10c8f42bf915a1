"""Ledger: what every request to the model took, as rows, so that limits survive a restart and a
bill can be explained.

SQLite beside the history. Sums that decide are kept in memory as well, for a request must not wait
for the disk. A row has two times: the wall clock's, for a person, and the elapsed time, which is
what an hour and a day are counted in.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

from parachuted.state import Database, DatabaseStatus, transaction
from parachuted.times import time_of

_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, run TEXT NOT NULL, agent TEXT NOT NULL, session TEXT, model TEXT NOT NULL,
    input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_written INTEGER NOT NULL, usd REAL NOT NULL,
    whole INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS request_times (request INTEGER PRIMARY KEY, elapsed REAL NOT NULL);
CREATE INDEX IF NOT EXISTS request_times_by_elapsed ON request_times (elapsed);
CREATE INDEX IF NOT EXISTS requests_by_time ON requests (at, usd);
CREATE INDEX IF NOT EXISTS requests_by_run ON requests (run);
CREATE TABLE IF NOT EXISTS request_causes (cause TEXT NOT NULL, request INTEGER NOT NULL, PRIMARY KEY (cause, request)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS request_causes_by_request ON request_causes (request);
"""  # noqa: E501
_CONVERSATIONS = """
CREATE TABLE conversation_requests (request INTEGER PRIMARY KEY);
CREATE INDEX IF NOT EXISTS requests_by_session ON requests (session);
"""
_TABLES = (
    ("conversation_requests", "request"),
    ("request_causes", "request"),
    ("request_times", "request"),
    ("requests", "id"),
)
_OF_CONVERSATION = "EXISTS (SELECT 1 FROM conversation_requests AS c WHERE c.request = requests.id)"
_SUMS = (
    "count(*), coalesce(sum(usd), 0), coalesce(sum(input), 0), coalesce(sum(output), 0), "
    "coalesce(sum(cache_read), 0), coalesce(sum(cache_written), 0)"
)
_KEPT_S = 400 * 86_400.0
_UNTIMED = "NOT EXISTS (SELECT 1 FROM request_times WHERE request = id)"  # rows of earlier versions
_OLDER = (
    "SELECT request FROM request_times WHERE elapsed < ? UNION SELECT id FROM requests "  # noqa: S608
    f"WHERE at < ? AND {_UNTIMED}"
)
_TIMED = (
    f"SELECT elapsed AS time, usd, {_OF_CONVERSATION} FROM request_times "  # noqa: S608
    "JOIN requests ON request = id WHERE elapsed > ?"
)
_LATEST = (
    f"{_TIMED} UNION ALL SELECT at, usd, {_OF_CONVERSATION} FROM requests "  # noqa: S608
    f"WHERE at > ? AND {_UNTIMED} ORDER BY time"
)
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_FOLLOWED = 4096
_MOST_ROWS = 20
_MOST_INT = 2**62
_DIGITS = 9

UsageKind: TypeAlias = Literal["run", "cause", "session"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUsage:
    """One request.

    `usd` in US dollars, the others in tokens; `is_whole` False: the answer was cut off, and this is
    the most it took. `is_conversation`: the budget of conversations pays it.
    """

    at: datetime
    run: str
    agent: str
    causes: tuple[str, ...]
    session: str | None
    model: str
    input: int
    output: int
    cache_read: int
    cache_written: int
    usd: float
    is_whole: bool = True
    is_conversation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """A sum of requests: US dollars and tokens.

    `input` is what was neither read from nor written to the cache.
    """

    requests: int = 0
    usd: float = 0.0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_written: int = 0

    @property
    def prompt(self) -> int:
        return self.input + self.cached

    @property
    def cached(self) -> int:
        return self.cache_read + self.cache_written

    def plus(self, usage: RequestUsage) -> UsageTotals:
        return UsageTotals(
            requests=self.requests + 1,
            usd=self.usd + usage.usd,
            input=self.input + usage.input,
            output=self.output + usage.output,
            cache_read=self.cache_read + usage.cache_read,
            cache_written=self.cache_written + usage.cache_written,
        )

    def document(self) -> dict[str, object]:
        return {
            "requests": self.requests,
            "usd": round(self.usd, _DIGITS),
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_tokens": self.cache_read,
            "cache_written_tokens": self.cache_written,
        }


class UsageEntry:
    """The place of one request in the file.

    It is first what the request costs at most, then what it did cost.
    """

    __slots__ = ("is_settled", "row")

    def __init__(self) -> None:
        self.row: int | None = None
        self.is_settled = False


class RollingSum:
    """A running sum over the last so many seconds of elapsed time."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._sum = seconds, 0.0
        self._entries: deque[tuple[float, float]] = deque()

    def add(self, at: float, usd: float) -> None:
        self._entries.append((at, usd))
        self._sum += usd

    def total(self, now: float) -> float:
        while self._entries and self._entries[0][0] <= now - self._seconds:
            self._sum -= self._entries.popleft()[1]
        if not self._entries:
            self._sum = 0.0  # no crumbs of rounding
        return self._sum


class UsageStore:
    """The rows.

    It opens itself at its first use. Methods raise StorageFailedError when the disk refuses;
    threads may share it. What blocks is marked so.
    """

    def __init__(self, path: Path, elapsed: Callable[[], float]) -> None:
        """`elapsed` is the time that limits are counted in, in seconds since 1970."""
        self._elapsed = elapsed
        self._database = Database(
            path,
            label="the record of what the model cost",
            loss="its sums start from zero",
            migrations={1: _SCHEMA, 2: _CONVERSATIONS},
            on_open=self._load,
        )
        self._sums = (
            threading.Lock()
        )  # of what is in memory, which the event loop asks; may be taken while the file is in use
        self._hour, self._day = RollingSum(_HOUR_S), RollingSum(_DAY_S)
        self._conversations_day = RollingSum(_DAY_S)
        self._followed: OrderedDict[tuple[UsageKind, str], UsageTotals] = OrderedDict()

    @property
    def problem(self) -> str | None:
        return self._database.problem

    def status(self) -> DatabaseStatus:
        """The state of the file. Blocks on the disk."""
        return self._database.status()

    def open(self) -> None:
        """Open the file and add up the last day. Blocks."""
        with self._database.writer():
            pass

    def follow(self, run: str, causes: Sequence[str], session: str | None = None) -> None:
        """Have the sums of this run, of these causes and of this session in memory from now on.
        Blocks.
        """
        wanted: list[tuple[UsageKind, str]] = [
            ("run", run),
            *(("cause", cause) for cause in causes),
        ]
        if session is not None:
            wanted.append(("session", session))
        with self._database.writer(), self._sums:
            for kind, name in wanted:
                if (kind, name) not in self._followed:
                    self._followed[kind, name] = self._of(kind, name)
                self._followed.move_to_end((kind, name))
            while len(self._followed) > max(_FOLLOWED, len(wanted)):
                self._followed.popitem(last=False)

    def count(self, usage: RequestUsage) -> None:
        """Take a request into the sums, at once; `settle` writes it down."""
        with self._sums:
            at = self._elapsed()
            self._add(at, usage.usd, is_conversation=usage.is_conversation)
            names: list[tuple[UsageKind, str]] = [
                ("run", usage.run),
                *(("cause", cause) for cause in usage.causes),
            ]
            if usage.session is not None:
                names.append(("session", usage.session))
            for key in names:
                if key in self._followed:
                    self._followed[key] = self._followed[key].plus(usage)
                    self._followed.move_to_end(key)

    def reserve(self, entry: UsageEntry, most: RequestUsage) -> None:
        """Write down what a request costs at most, before it is sent: what a killed daemon leaves
        counts as spent. Blocks.
        """
        with self._database.write() as database:
            if not entry.is_settled:
                entry.row = _insert(database, most, self._elapsed())

    def settle(self, entry: UsageEntry, usage: RequestUsage | None) -> None:
        """Write down what a request cost in place of what was reserved; None: nothing. Blocks."""
        with self._database.write() as database:
            entry.is_settled = True
            if entry.row is not None:
                for table, column in _TABLES:
                    database.execute(f"DELETE FROM {table} WHERE {column} = ?", (entry.row,))  # noqa: S608  our own names
            if usage is not None:
                entry.row = _insert(database, usage, self._elapsed())

    def followed(self, kind: UsageKind, name: str) -> UsageTotals:
        """The sum of a run or cause that is followed, from memory."""
        with self._sums:
            return self._followed.get((kind, name), UsageTotals())

    def last(self) -> tuple[float, float]:
        """US dollars of the last hour and of the last 24, without conversations, from memory."""
        with self._sums:
            now = self._elapsed()
            return self._hour.total(now), self._day.total(now)

    def last_of_conversations(self) -> float:
        """US dollars that conversations took in the last 24 hours, from memory."""
        with self._sums:
            return self._conversations_day.total(self._elapsed())

    def spent(
        self,
        *,
        run: str | None = None,
        cause: str | None = None,
        session: str | None = None,
        since: datetime | None = None,
    ) -> UsageTotals:
        """The sum of what matches all that is given. Blocks."""
        where, values = _where(run, cause, session, since)
        return _spent(self._rows(f"SELECT {_SUMS} FROM requests{where}", values)[0])  # noqa: S608

    def report(self, now: datetime, days: int = 7) -> dict[str, object]:
        """What the last days cost: in all, and by day (UTC), agent, model, cause, session and run,
        the dearest first. Blocks.
        """
        since = _midnight(now, days)
        self.open()
        hour, day = self.last()
        document: dict[str, object] = {
            "since": time_of(since),
            "usd_last_hour": round(hour, _DIGITS),
            "usd_last_day": round(day, _DIGITS),
            "usd_last_day_conversations": round(self.last_of_conversations(), _DIGITS),
            "total": self.spent(since=since).document(),
        }
        by_day = "strftime('%Y-%m-%d', at, 'unixepoch')"
        document["days"] = self._grouped(by_day, "date", since, order="1 DESC", most=days)
        for plural, column in (
            ("agents", "agent"),
            ("models", "model"),
            ("sessions", "session"),
            ("runs", "run"),
        ):
            document[plural] = self._grouped(column, column, since)
        document["causes"] = self._grouped(
            "cause", "cause", since, source="requests JOIN request_causes ON request = id"
        )
        return document

    def models(self, now: datetime, days: int = 7) -> list[str]:
        rows = self._rows(
            "SELECT DISTINCT model FROM requests WHERE at >= ?", (_midnight(now, days).timestamp(),)
        )
        return sorted(str(row[0]) for row in rows)

    def close(self) -> None:
        self._database.close()

    def _of(self, kind: UsageKind, name: str) -> UsageTotals:
        if kind == "session":
            return self.spent(session=name)
        return self.spent(run=name) if kind == "run" else self.spent(cause=name)

    def _add(self, at: float, usd: float, *, is_conversation: bool) -> None:
        if is_conversation:
            self._conversations_day.add(at, usd)
            return
        self._hour.add(at, usd)
        self._day.add(at, usd)

    def _grouped(
        self,
        column: str,
        name: str,
        since: datetime,
        *,
        source: str = "requests",
        order: str = "3 DESC",
        most: int = _MOST_ROWS,
    ) -> list[dict[str, object]]:
        where = f"WHERE at >= ? AND {column} IS NOT NULL GROUP BY 1 ORDER BY {order} LIMIT ?"
        rows = self._rows(
            f"SELECT {column}, {_SUMS} FROM {source} {where}",  # noqa: S608
            (since.timestamp(), most),
        )
        return [{name: row[0], **_spent(row[1:]).document()} for row in rows]

    def _load(self, database: sqlite3.Connection) -> None:
        """Nothing is asked of rows that are older than a year and a bit, so they go."""
        now = self._elapsed()
        with transaction(database):
            old = [(row,) for (row,) in database.execute(_OLDER, (now - _KEPT_S, now - _KEPT_S))]
            for table, column in _TABLES:
                database.executemany(f"DELETE FROM {table} WHERE {column} = ?", old)  # noqa: S608  our own names
        rows = database.execute(_LATEST, (now - _DAY_S, now - _DAY_S)).fetchall()
        with self._sums:
            for at, usd, is_conversation in rows:
                self._add(at, usd, is_conversation=bool(is_conversation))

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        return self._database.rows(sql, values)


def _insert(database: sqlite3.Connection, usage: RequestUsage, elapsed: float) -> int | None:
    values = (
        *(
            usage.at.timestamp(),
            usage.run,
            usage.agent,
            usage.session,
            usage.model,
            usage.input,
            usage.output,
        ),
        *(usage.cache_read, usage.cache_written, usage.usd, int(usage.is_whole)),
    )
    columns = "at, run, agent, session, model, input, output, cache_read, cache_written, usd, whole"
    row = database.execute(
        f"INSERT INTO requests ({columns}) VALUES (?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608
        values,
    ).lastrowid
    database.execute("INSERT OR REPLACE INTO request_times VALUES (?,?)", (row, elapsed))
    if usage.is_conversation:
        database.execute("INSERT OR REPLACE INTO conversation_requests VALUES (?)", (row,))
    database.executemany(
        "INSERT OR IGNORE INTO request_causes VALUES (?,?)",
        [(cause, row) for cause in set(usage.causes)],
    )
    return row


def _midnight(now: datetime, days: int) -> datetime:
    """When the last so many days began, in UTC; today is one of them."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(
        days=days - 1
    )


def _where(
    run: str | None, cause: str | None, session: str | None, since: datetime | None
) -> tuple[str, tuple[object, ...]]:
    asked: list[tuple[str, object]] = []
    if run is not None:
        asked.append(("run = ?", run))
    if cause is not None:
        asked.append(("id IN (SELECT request FROM request_causes WHERE cause = ?)", cause))
    if session is not None:
        asked.append(("session = ?", session))
    if since is not None:
        asked.append(("at >= ?", since.timestamp()))
    return (" WHERE " + " AND ".join(part for part, _ in asked) if asked else ""), tuple(
        value for _, value in asked
    )


def _spent(row: Sequence[object]) -> UsageTotals:
    requests, usd, *tokens = (value if isinstance(value, int | float) else 0 for value in row)
    counts = [int(min(count, _MOST_INT)) for count in tokens]
    return UsageTotals(
        requests=int(requests),
        usd=float(usd),
        input=counts[0],
        output=counts[1],
        cache_read=counts[2],
        cache_written=counts[3],
    )
