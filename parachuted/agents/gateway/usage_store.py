"""Usage store: a row for each request to the model, by which limits survive a restart and a bill
can be explained.

The row is written before the request is sent, with the most that it can cost, and afterwards has
what it did cost: a killed daemon leaves the most. A row has two times: the wall clock's, for a
person, and the elapsed time, which is what an hour and a day are counted in.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from parachuted.agents.gateway.limits import (
    BudgetName,
    BudgetPool,
    BudgetState,
    MoneyLimits,
    RunToken,
    narrowest,
)
from parachuted.state import Database, DatabaseStatus
from parachuted.times import time_of

# The tables of versions 1 and 2, whose rows go into that of version 3.
_FOUR_TABLES = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, run TEXT NOT NULL, agent TEXT NOT NULL, session TEXT, model TEXT NOT NULL,
    input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_written INTEGER NOT NULL, usd REAL NOT NULL,
    whole INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS request_times (request INTEGER PRIMARY KEY, elapsed REAL NOT NULL);
CREATE TABLE IF NOT EXISTS request_causes (cause TEXT NOT NULL, request INTEGER NOT NULL, PRIMARY KEY (cause, request)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS conversation_requests (request INTEGER PRIMARY KEY);
"""  # noqa: E501
_ONE_TABLE = f"""{_FOUR_TABLES}
CREATE TABLE usage (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, elapsed REAL NOT NULL, run TEXT NOT NULL, agent TEXT NOT NULL, causes TEXT NOT NULL,
    session TEXT, pool TEXT NOT NULL, model TEXT NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL, cache_written INTEGER NOT NULL, usd REAL NOT NULL, state TEXT NOT NULL);
INSERT INTO usage
    SELECT id, at, coalesce(t.elapsed, at), run, agent, (SELECT json_group_array(cause) FROM request_causes WHERE request = id),
        session, iif(c.request IS NULL, 'work', 'conversation'), model, input, output, cache_read, cache_written, usd,
        iif(whole, 'counted', 'at most')
    FROM requests LEFT JOIN request_times AS t ON t.request = id LEFT JOIN conversation_requests AS c ON c.request = id;
DROP TABLE conversation_requests; DROP TABLE request_causes; DROP TABLE request_times; DROP TABLE requests;
CREATE INDEX usage_by_elapsed ON usage (elapsed, pool, usd, state);
CREATE INDEX usage_by_run ON usage (run, usd, state);
CREATE INDEX usage_by_session ON usage (session, usd, state);
CREATE INDEX usage_by_causes ON usage (causes, usd, state);
CREATE INDEX usage_by_time ON usage (at);
"""  # noqa: E501, S608  our own names
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_KEPT_S = 400 * _DAY_S
_SUMS = (
    "count(*), coalesce(sum(usd), 0), coalesce(sum(input), 0), coalesce(sum(output), 0), "
    "coalesce(sum(cache_read), 0), coalesce(sum(cache_written), 0)"
)
_MOST_ROWS = 20
_DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestUsage:
    """One request: `usd` in US dollars, the others in tokens.

    `state` is "reserved" while it is on its way, "counted" where the answer said what it took, and
    "at most" where it was cut off.
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
    pool: BudgetPool = "work"
    state: Literal["reserved", "counted", "at most"] = "counted"


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
    """The place of one request in the file."""

    def __init__(self) -> None:
        self.row: int | None = None
        self.is_settled = False


class UsageStore:
    """Opens its file at its first use. Every method blocks on the disk, and raises
    StorageFailedError when that refuses. Threads may share it.
    """

    def __init__(self, path: Path, elapsed: Callable[[], float]) -> None:
        """`elapsed` is the time that limits are counted in, in seconds since 1970."""
        self._elapsed = elapsed
        self._database = Database(
            path,
            label="the record of what the model cost",
            loss="its sums start from zero",
            migrations={3: _ONE_TABLE},
            on_open=self._clean_up,
        )

    @property
    def problem(self) -> str | None:
        return self._database.problem

    def status(self) -> DatabaseStatus:
        return self._database.status()

    def close(self) -> None:
        self._database.close()

    def narrowest(self, run_token: RunToken, limits: MoneyLimits) -> BudgetState:
        """The budget of a run that has the least left."""
        with self._database.writer() as database:
            return narrowest(self._budgets(database, run_token, limits))

    def reserve(
        self,
        entry: UsageEntry,
        run_token: RunToken,
        limits: MoneyLimits,
        most: Callable[[BudgetState], RequestUsage | None],
    ) -> BudgetState | None:
        """Write down what a request costs at most, before it is sent.

        `most` says what that is for a budget that has so much left; where it is None, nothing is
        written, and the budget is returned.
        """
        with self._database.write() as database:
            budget = narrowest(self._budgets(database, run_token, limits))
            usage = most(budget)
            if usage is None:
                return budget
            if not entry.is_settled:
                entry.row = self._put(database, None, usage)
            return None

    def settle(self, entry: UsageEntry, usage: RequestUsage | None) -> None:
        """Write down what a request cost in place of what was reserved; None: nothing. A power cut
        may leave what was reserved.
        """
        with self._database.write(is_durable=False) as database:
            entry.is_settled = True
            if usage is not None:
                entry.row = self._put(database, entry.row, usage)
            else:
                database.execute("DELETE FROM usage WHERE id = ?", (entry.row,))

    def spent(self, run: str) -> UsageTotals:
        """The sum of a run's requests that have ended; makes no one who writes wait, nor waits for
        them. Nothing while the file has not been opened.
        """
        if not self._database.is_open:
            return UsageTotals()
        where = "run = ? AND state <> 'reserved'"
        with self._database.reading() as database:
            row = database.execute(f"SELECT {_SUMS} FROM usage WHERE {where}", (run,)).fetchone()  # noqa: S608
        return _totals(row)

    def last(self, pool: BudgetPool = "work") -> tuple[float, float]:
        """US dollars of the last hour and of the last 24."""
        with self._database.writer() as database:
            hour, day = (
                _sum(database, "pool = ? AND elapsed > ?", pool, self._elapsed() - seconds)
                for seconds in (_HOUR_S, _DAY_S)
            )
        return sum(hour), sum(day)

    def report(self, now: datetime, days: int = 7) -> dict[str, object]:
        """What the last days cost: in all, and by day (UTC), agent, model, cause, session and run,
        the dearest first.
        """
        since = _midnight(now, days)
        hour, day = self.last()
        (total,) = self._database.rows(
            f"SELECT {_SUMS} FROM usage WHERE at >= ?",  # noqa: S608
            (since.timestamp(),),
        )
        document: dict[str, object] = {
            "since": time_of(since),
            "usd_last_hour": round(hour, _DIGITS),
            "usd_last_day": round(day, _DIGITS),
            "usd_last_day_conversations": round(self.last("conversation")[1], _DIGITS),
            "total": _totals(total).document(),
        }
        by_day = "strftime('%Y-%m-%d', at, 'unixepoch')"
        document["days"] = self._grouped(by_day, "date", since, order="1 DESC", most=days)
        for column in ("agent", "model", "session", "run"):
            document[f"{column}s"] = self._grouped(column, column, since)
        document["causes"] = self._grouped(
            "value", "cause", since, source="usage, json_each(causes)"
        )
        return document

    def models(self, now: datetime, days: int = 7) -> list[str]:
        rows = self._database.rows(
            "SELECT DISTINCT model FROM usage WHERE at >= ?", (_midnight(now, days).timestamp(),)
        )
        return sorted(str(model) for (model,) in rows)

    def _budgets(
        self, database: sqlite3.Connection, run_token: RunToken, limits: MoneyLimits
    ) -> Iterator[BudgetState]:
        hour, day = (self._elapsed() - seconds for seconds in (_HOUR_S, _DAY_S))
        in_pool = f"pool = '{run_token.pool}' AND elapsed > ?"
        budgets: list[tuple[BudgetName, float, str, object]]
        if run_token.pool == "conversation":
            budgets = [
                ("usd_per_turn", run_token.max_cost_usd, "run = ?", run_token.run),
                ("usd_per_session", limits.usd_per_session, "session = ?", run_token.session),
                ("conversations_usd_per_day", limits.conversations_usd_per_day, in_pool, day),
            ]
        else:
            by_cause = "instr(causes, ?)"
            budgets = [
                ("run", run_token.max_cost_usd, "run = ?", run_token.run),
                *(
                    ("usd_per_cause", limits.usd_per_cause, by_cause, _json(cause))
                    for cause in run_token.causes
                ),
                ("usd_per_hour", limits.usd_per_hour, in_pool, hour),
                ("usd_per_day", limits.usd_per_day, in_pool, day),
            ]
        for budget, limit, where, value in budgets:
            counted, reserved = _sum(database, where, value)
            yield BudgetState(budget=budget, limit=limit, counted=counted, reserved=reserved)

    def _put(self, database: sqlite3.Connection, row: int | None, usage: RequestUsage) -> int:
        values = {
            **asdict(usage),
            "id": row,
            "at": usage.at.timestamp(),
            "elapsed": self._elapsed(),
            "causes": _json(sorted(set(usage.causes))),
        }
        names = ("id", "elapsed", *(field.name for field in fields(usage)))
        places = ", ".join(f":{name}" for name in names)
        put = f"INSERT OR REPLACE INTO usage ({', '.join(names)}) VALUES ({places})"  # noqa: S608
        return database.execute(put, values).lastrowid or 0

    def _grouped(
        self,
        column: str,
        name: str,
        since: datetime,
        *,
        source: str = "usage",
        order: str = "3 DESC",
        most: int = _MOST_ROWS,
    ) -> list[dict[str, object]]:
        where = f"WHERE at >= ? AND {column} IS NOT NULL GROUP BY 1 ORDER BY {order} LIMIT ?"
        rows = self._database.rows(
            f"SELECT {column}, {_SUMS} FROM {source} {where}",  # noqa: S608
            (since.timestamp(), most),
        )
        return [{name: row[0], **_totals(row[1:]).document()} for row in rows]

    def _clean_up(self, database: sqlite3.Connection) -> None:
        """Nothing is asked of rows that are older than a year and a bit. Of what was on its way
        when the daemon was killed no one knows more than the most that it cost.
        """
        database.execute("DELETE FROM usage WHERE elapsed < ?", (self._elapsed() - _KEPT_S,))
        database.execute("UPDATE usage SET state = 'at most' WHERE state = 'reserved'")


def _sum(database: sqlite3.Connection, where: str, *values: object) -> tuple[float, float]:
    """US dollars that were counted, and that are reserved."""
    counted, reserved = database.execute(
        "SELECT coalesce(sum(usd) FILTER (WHERE state <> 'reserved'), 0), "  # noqa: S608
        f"coalesce(sum(usd) FILTER (WHERE state = 'reserved'), 0) FROM usage WHERE {where}",
        values,
    ).fetchone()
    return counted, reserved


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _midnight(now: datetime, days: int) -> datetime:
    """When the last so many days began, in UTC; today is one of them."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(
        days=days - 1
    )


def _totals(row: Sequence[object]) -> UsageTotals:
    names = [field.name for field in fields(UsageTotals)]
    return UsageTotals(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type]
