"""Usage: what each request to the model may cost, reserved before it is sent, and what it did cost.

Each has a row, and the limits are sums of rows. A row is written before the request is sent, with
the most that it can cost: a killed daemon leaves that. It has the wall clock's time, for a person,
and the elapsed time, in which an hour and a day are counted.
"""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

from parachuted.agents.gateway.message_request import MessageRequest, RequestRefusedError
from parachuted.agents.gateway.prices import Meter, Tokens, cost_of, price_of
from parachuted.errors import StorageFailedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.state import Database
from parachuted.texts.times import utc_now

BudgetPool: TypeAlias = Literal["work", "conversation"]
_HOUR, _DAY = "pool = :pool AND elapsed > :hour", "pool = :pool AND elapsed > :day"
_WORTH_BEGINNING = 0.01
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_KEPT_S = 400 * _DAY_S
_MOST_ROWS = 20
_DIGITS = 9
_LEAST_ANSWER = 256  # tokens: a shorter one is not worth its prompt, unless no more was asked for
_MILLION = 1_000_000

# The tables of versions 1 and 2, whose rows go into that of version 3.
_FOUR_TABLES = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, run TEXT NOT NULL, agent TEXT NOT NULL, session TEXT,
    model TEXT NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL, cache_written INTEGER NOT NULL, usd REAL NOT NULL,
    whole INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS request_times (request INTEGER PRIMARY KEY, elapsed REAL NOT NULL);
CREATE TABLE IF NOT EXISTS request_causes (cause TEXT NOT NULL, request INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS conversation_requests (request INTEGER PRIMARY KEY);
"""
_TABLE = f"""{_FOUR_TABLES}
CREATE TABLE usage (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, elapsed REAL NOT NULL, run TEXT NOT NULL,
    agent TEXT NOT NULL, causes TEXT NOT NULL, session TEXT, pool TEXT NOT NULL,
    model TEXT NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL, cache_written INTEGER NOT NULL, usd REAL NOT NULL,
    state TEXT NOT NULL);
INSERT INTO usage
    SELECT id, at, coalesce(t.elapsed, at), run, agent,
        (SELECT json_group_array(cause) FROM request_causes WHERE request = id), session,
        iif(c.request IS NULL, 'work', 'conversation'), model, input, output, cache_read,
        cache_written, usd, 'counted'
    FROM requests LEFT JOIN request_times AS t ON t.request = id
        LEFT JOIN conversation_requests AS c ON c.request = id;
DROP TABLE conversation_requests; DROP TABLE request_causes;
DROP TABLE request_times; DROP TABLE requests;
CREATE INDEX usage_by_elapsed ON usage (elapsed, pool, usd, state);
CREATE INDEX usage_by_run ON usage (run, usd, state);
CREATE INDEX usage_by_session ON usage (session, usd, state);
CREATE INDEX usage_by_causes ON usage (causes, usd, state);
CREATE INDEX usage_by_time ON usage (at);
"""  # noqa: S608  our own names
_PUT = """
INSERT OR REPLACE INTO usage VALUES (:id, :at, :elapsed, :run, :agent, :causes, :session, :pool,
    :model, :input, :output, :cache_read, :cache_write_5m + :cache_write_1h, :usd, :state)
"""
_SUMS = (
    "count(*), coalesce(sum(usd), 0), coalesce(sum(input), 0), coalesce(sum(output), 0), "
    "coalesce(sum(cache_read), 0), coalesce(sum(cache_written), 0)"
)
# The lists of a report, by the column that their rows are grouped by.
_GROUPS = {
    "days": "strftime('%Y-%m-%d', at, 'unixepoch')",
    "agents": "agent",
    "models": "model",
    "causes": "value",
    "sessions": "session",
    "runs": "run",
}
_OF_RUN, _OF_CAUSE, _OF_SESSION = "run = :run", "instr(causes, :cause)", "session = :session"
# By the setting that limits it: the field of MoneyLimits, or "run", and the rows that it sums.
_BUDGETS: dict[BudgetPool, dict[str, tuple[str, str]]] = {
    "work": {
        "agent.max_cost_usd": ("run", _OF_RUN),
        "budget.usd_per_cause": ("usd_per_cause", _OF_CAUSE),
        "budget.usd_per_hour": ("usd_per_hour", _HOUR),
        "budget.usd_per_day": ("usd_per_day", _DAY),
    },
    "conversation": {
        "conversation.max_cost_usd": ("run", _OF_RUN),
        "conversation.usd_per_session": ("usd_per_session", _OF_SESSION),
        "conversation.usd_per_day": ("conversations_usd_per_day", _DAY),
    },
}
# Those that come back with time, by who pays.
OVER_TIME: dict[BudgetPool, tuple[str, ...]] = {
    "work": ("budget.usd_per_hour", "budget.usd_per_day"),
    "conversation": ("conversation.usd_per_day",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToken:
    """Whose requests they are, the US dollars they may take, the only `model` they may name."""

    run: str
    agent: str
    causes: tuple[str, ...]
    session: str | None
    max_cost_usd: float
    model: str
    pool: BudgetPool = "work"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyLimits:
    """US dollars for all that one person's change leads to, in any hour, and in any day (24
    hours); and, beside that, for one session of conversation, and for all of them in any day.
    `usd_per_run` is only shown: a run's token has its limit.
    """

    usd_per_cause: float
    usd_per_hour: float
    usd_per_day: float
    usd_per_session: float = math.inf
    conversations_usd_per_day: float = math.inf
    usd_per_run: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetState:
    """US dollars: `reserved` is what requests on their way hold; `setting` has the limit."""

    setting: str
    limit: float
    counted: float = 0.0
    reserved: float = 0.0

    @property
    def left(self) -> float:
        return self.limit - self.counted - self.reserved

    @property
    def is_used_up(self) -> bool:
        """Whether so little is left, with no request on its way, that no run should begin."""
        left = self.limit - self.counted
        return math.isfinite(self.limit) and left < self.limit * _WORTH_BEGINNING

    def __str__(self) -> str:
        said = "is used up" if self.is_used_up else f"has ${self.left:.4f} left: too little"
        return f"the ${self.limit:g} of {self.setting} {said}; `parachute usage` shows on what"


class OverBudgetError(RequestRefusedError):
    """Too little is left for a request; `budget` is the one that has the least left."""

    def __init__(self, budget: BudgetState) -> None:
        super().__init__(str(budget))
        self.budget = budget


@dataclass(kw_only=True, eq=False)
class Charge:
    """What one request costs. `row` is its number in the file. `is_owed` while it may have reached
    the model; `meter` reads its answer.
    """

    run_token: RunToken
    model: str
    at: datetime
    tokens: Tokens = field(default_factory=Tokens)
    usd: float = 0.0
    state: Literal["reserved", "counted"] = "reserved"
    row: int | None = None
    is_owed: bool = False
    meter: Meter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotals:
    """A sum of requests to the model: US dollars and tokens; `input_tokens` are those that the
    cache had no part in.
    """

    requests: int = 0
    usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_written_tokens: int = 0

    @property
    def prompt(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_written_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageGroup(UsageTotals):
    """Of a day in UTC, an agent, a model, a cause, a session or a run, by its name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """What the model cost in so many days, counted from its own answers; the dearest 20 of a kind,
    the dearest first. A run with several causes counts for each. `notes` are about prices.
    """

    days_told: int
    since: datetime
    usd_last_hour: float
    usd_last_day: float
    usd_last_day_conversations: float
    limits: MoneyLimits
    notes: list[str]
    total: UsageTotals
    days: list[UsageGroup]
    agents: list[UsageGroup]
    models: list[UsageGroup]
    causes: list[UsageGroup]
    sessions: list[UsageGroup]
    runs: list[UsageGroup]


class UsageStore:
    """Every method but `charge` blocks on the disk. All raise StorageFailedError; threads may share
    it. `may_cost`: a model of unknown price may, since its server is not in your own network.
    """

    def __init__(
        self,
        path: Path,
        elapsed: Callable[[], float],
        limits: MoneyLimits,
        *,
        may_cost: bool = True,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._elapsed, self._clock = elapsed, clock
        self._limits, self._may_cost = limits, may_cost
        self._settled = asyncio.Event()
        self.report_problem: Callable[[str | None], None] = lambda _problem: None
        self.database = Database(
            path,
            label="the record of what the model cost",
            loss="its sums start from zero",
            migrations={3: _TABLE},
            on_open=self._clean_up,
        )

    @asynccontextmanager
    async def charge(self, run_token: RunToken, request: MessageRequest) -> AsyncIterator[Charge]:
        """The money for one request, on the disk as spent before this is entered, settled when it
        is left. Waits where other requests hold it. Raises OverBudgetError.
        """
        charge = Charge(run_token=run_token, model=request.model, at=self._clock())
        try:
            while True:
                settled = self._settled
                budget = await run_uninterrupted(self._reserve, charge, request)
                if budget is None:
                    break
                if budget.is_used_up or budget.reserved <= 0:
                    raise OverBudgetError(budget)
                await settled.wait()
            yield charge
        finally:
            if charge.row is not None:
                await self._end(charge)

    async def _end(self, charge: Charge) -> None:
        """A row that could not be settled stays there as spent."""
        try:
            await run_uninterrupted(self.settle, charge, is_owed=self._count(charge))
            self.report_problem(self.database.problem)
        except StorageFailedError as error:
            self.report_problem(str(error))
        finally:
            self._settled.set()  # those that wait for money look again
            self._settled = asyncio.Event()

    def narrowest(self, run_token: RunToken) -> BudgetState:
        """The budget of a run that has the least left."""
        with self.database.writer() as database:
            return narrowest([*self._budgets(database, run_token)])

    def settle(self, charge: Charge, *, is_owed: bool = True) -> None:
        """Nothing where it is not owed. A power cut may leave what was reserved."""
        with self.database.write(is_durable=False) as database:
            if is_owed:
                self._put(database, charge)
            else:
                database.execute("DELETE FROM usage WHERE id = ?", (charge.row,))

    def spent(self, run: str) -> UsageTotals:
        """Of requests that have ended. No writer waits for it, nor it for them."""
        if not self.database.is_open:
            return UsageTotals()
        where = "run = ? AND state <> 'reserved'"
        with self.database.reading() as database:
            row = database.execute(f"SELECT {_SUMS} FROM usage WHERE {where}", (run,)).fetchone()  # noqa: S608
        return UsageTotals(**_sums(row))

    def last(self, pool: BudgetPool = "work") -> tuple[float, float]:
        """US dollars of the last hour and of the last 24."""
        with self.database.writer() as database:
            values = {"pool": pool, **self._since()}
            return sum(_sum(database, _HOUR, values)), sum(_sum(database, _DAY, values))

    def report(self, now: datetime, days: int) -> UsageReport:
        """Of the last days in UTC, today among them."""
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        since = midnight - timedelta(days=days - 1)
        at = since.timestamp()
        hour, day = self.last()
        (total,) = self.database.rows(f"SELECT {_SUMS} FROM usage WHERE at >= ?", (at,))  # noqa: S608
        distinct = "SELECT DISTINCT model FROM usage WHERE at >= ? ORDER BY 1"
        unknown = [name for (name,) in self.database.rows(distinct, (at,)) if not price_of(name)]
        own = "nothing, since its server is in your own network"
        counted = "the dearest price that is known" if self._may_cost else own
        groups: dict[str, Any] = {name: self._grouped(name, at, days) for name in _GROUPS}
        return UsageReport(
            days_told=days,
            since=since,
            usd_last_hour=round(hour, _DIGITS),
            usd_last_day=round(day, _DIGITS),
            usd_last_day_conversations=round(self.last("conversation")[1], _DIGITS),
            limits=self._limits,
            notes=[f"the price of {name} is not known; it counts as {counted}" for name in unknown],
            total=UsageTotals(**_sums(total)),
            **groups,
        )

    def _grouped(self, name: str, since: float, days: int) -> list[UsageGroup]:
        column = _GROUPS[name]
        source = "usage, json_each(causes)" if name == "causes" else "usage"
        order, most = ("1 DESC", days) if name == "days" else ("3 DESC", _MOST_ROWS)
        rows = self.database.rows(
            f"SELECT {column}, {_SUMS} FROM {source} WHERE at >= ? AND {column} IS NOT NULL "  # noqa: S608
            f"GROUP BY 1 ORDER BY {order} LIMIT ?",
            (since, most),
        )
        return [UsageGroup(name=row[0], **_sums(row[1:])) for row in rows]

    def _since(self) -> dict[str, float]:
        now = self._elapsed()
        return {"hour": now - _HOUR_S, "day": now - _DAY_S}

    def _budgets(self, database: sqlite3.Connection, run_token: RunToken) -> Iterator[BudgetState]:
        values = {**asdict(run_token), **self._since()}
        for setting, (name, rows) in _BUDGETS[run_token.pool].items():
            limit = getattr(self._limits, name, run_token.max_cost_usd)
            for cause in run_token.causes if rows is _OF_CAUSE else ("",):
                counted, reserved = _sum(database, rows, {**values, "cause": _json(cause)})
                yield BudgetState(setting=setting, limit=limit, counted=counted, reserved=reserved)

    def _reserve(self, charge: Charge, request: MessageRequest) -> BudgetState | None:
        """Write down what it costs at most, or return the budget that does not pay for that."""
        with self.database.write() as database:
            budget = narrowest([*self._budgets(database, charge.run_token)])
            if not self._fit(charge, request, budget):
                return budget
            row = self._put(database, charge)
        charge.row = row  # only of what was committed: SQLite gives the number again otherwise
        return None

    def _fit(self, charge: Charge, request: MessageRequest, budget: BudgetState) -> bool:
        """Make it the most that the request costs, its answer cut to what is left."""

        def most_usd(output: int) -> float:
            tokens = request.tokens(output)
            return cost_of(request.model, tokens, may_cost=self._may_cost, place="us")

        if budget.is_used_up:
            return False
        output, prompt = request.output, most_usd(0)
        per_token = (most_usd(_MILLION) - prompt) / _MILLION
        if prompt + output * per_token > budget.left:
            output = int((budget.left - prompt) / per_token) if per_token > 0 else 0
            if budget.reserved > 0 or output < min(_LEAST_ANSWER, request.output):
                return False
        charge.tokens = request.tokens(max(output, 0))
        charge.usd = most_usd(charge.tokens.output)
        return True

    def _count(self, charge: Charge) -> bool:
        """Make it what the request did cost, False for nothing. An answer that was cut off cost all
        that it might have said, one that does not state its input all that was reserved.
        """
        meter = charge.meter
        charge.at, charge.state = self._clock(), "counted"
        if meter is None:
            return charge.is_owed
        meter.end()
        tokens, most = meter.tokens(), charge.tokens.output
        if tokens.prompt:
            if not meter.has_ended:
                least_or_most = min if meter.has_failed else max
                tokens = replace(tokens, output=least_or_most(most, tokens.output))
            charge.model, charge.tokens = meter.model or charge.model, tokens
            charge.usd = cost_of(charge.model, tokens, may_cost=self._may_cost, place=meter.place)
        return charge.is_owed and (meter.has_started or not meter.has_failed)

    def _put(self, database: sqlite3.Connection, charge: Charge) -> int | None:
        values = {
            **asdict(charge.run_token),
            **asdict(charge.tokens),
            "causes": _json(sorted(set(charge.run_token.causes))),
            "id": charge.row,
            "at": charge.at.timestamp(),
            "elapsed": self._elapsed(),
            "model": charge.model,
            "usd": charge.usd,
            "state": charge.state,
        }
        return database.execute(_PUT, values).lastrowid

    def _clean_up(self, database: sqlite3.Connection) -> None:
        """Of what was on its way when the daemon was killed only the most it cost is known."""
        database.execute("DELETE FROM usage WHERE elapsed < ?", (self._elapsed() - _KEPT_S,))
        database.execute("UPDATE usage SET state = 'counted' WHERE state = 'reserved'")


def narrowest(budgets: Sequence[BudgetState]) -> BudgetState:
    """The first budget that is used up, else the one that has the least left."""
    least = min(budgets, key=lambda budget: budget.left)
    return next((budget for budget in budgets if budget.is_used_up), least)


def _sum(
    database: sqlite3.Connection, where: str, values: Mapping[str, object]
) -> tuple[float, float]:
    counted, reserved = database.execute(
        "SELECT coalesce(sum(usd) FILTER (WHERE state <> 'reserved'), 0), "  # noqa: S608
        f"coalesce(sum(usd) FILTER (WHERE state = 'reserved'), 0) FROM usage WHERE {where}",
        values,
    ).fetchone()
    return counted, reserved


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _sums(row: Sequence[Any]) -> dict[str, Any]:
    sums = dict(zip([field.name for field in fields(UsageTotals)], row, strict=True))
    return {**sums, "usd": round(sums["usd"], _DIGITS)}
