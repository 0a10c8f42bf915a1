"""Usage: what each request to the model may cost, reserved before it is sent, and what it did cost.

Each has a row, and the limits are sums of rows. A row is written before the request is sent, with
the most that it can cost: a killed daemon leaves that. It has the wall clock's time, for a person,
and the elapsed time, in which an hour and a day are counted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from parachuted.agents.gateway.message_request import MessageRequest, RequestRefusedError
from parachuted.agents.gateway.prices import Meter, Tokens, cost_of, price_note
from parachuted.errors import StorageFailedError
from parachuted.state import Database

log = logging.getLogger(__name__)

BudgetPool: TypeAlias = Literal["work", "conversation"]
_FAMILIES = frozenset({"haiku", "sonnet", "opus", "fable", "mythos"})
_LONG_CONTEXT = "[1m]"
_HOUR, _DAY = "pool = :pool AND elapsed > :hour", "pool = :pool AND elapsed > :day"
# Budgets by their names: whose it is, in words, the setting that limits it, and the rows it sums.
_OF_WORK = {
    "run": ("this run", "agent.max_cost_usd", "run = :run"),
    "usd_per_cause": ("what one change led to", "budget.usd_per_cause", "instr(causes, :cause)"),
    "usd_per_hour": ("this hour", "budget.usd_per_hour", _HOUR),
    "usd_per_day": ("this day", "budget.usd_per_day", _DAY),
}
_OF_CONVERSATION = {
    "usd_per_turn": ("this turn", "conversation.max_cost_usd", "run = :run"),
    "usd_per_session": ("this conversation", "conversation.usd_per_session", "session = :session"),
    "conversations_usd_per_day": ("the day's conversations", "conversation.usd_per_day", _DAY),
}
_BUDGETS: dict[BudgetPool, dict[str, tuple[str, str, str]]] = {
    "work": _OF_WORK,
    "conversation": _OF_CONVERSATION,
}
# Those that come back with time, by who pays.
OVER_TIME: dict[BudgetPool, tuple[str, ...]] = {
    "work": ("usd_per_hour", "usd_per_day"),
    "conversation": ("conversations_usd_per_day",),
}
_WORTH_BEGINNING = 0.01

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
_PUT = """
INSERT OR REPLACE INTO usage (id, at, elapsed, run, agent, causes, session, pool, model, input,
    output, cache_read, cache_written, usd, state)
VALUES (:id, :at, :elapsed, :run, :agent, :causes, :session, :pool, :model, :input,
    :output, :cache_read, :cache_write_5m + :cache_write_1h, :usd, :state)
"""
_MOST_ROWS = 20
_DIGITS = 9
_LEAST_ANSWER = 256  # tokens: a shorter one is not worth its prompt, unless no more was asked for
_US = "us"
_MILLION = 1_000_000


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


def is_same_model(asked: str, setting: str) -> bool:
    """By its whole name, without its date, or by its family alone (`haiku`)."""
    own = setting.removesuffix(_LONG_CONTEXT)
    if own in _FAMILIES:
        return asked == own or (asked.startswith("claude-") and own in asked.split("-"))
    return asked in {own, setting} or asked.startswith(f"{own}-20")


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
    """US dollars: `reserved` is what requests on their way hold."""

    budget: str
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
        owner, setting, _rows = (_OF_WORK | _OF_CONVERSATION)[self.budget]
        limit, see = f"its ${self.limit:g} (setting {setting})", "`parachute usage` shows on what"
        if self.is_used_up:
            return f"{owner} has used up {limit}; {see}"
        short = "which does not pay for this request"
        return f"{owner} has ${self.left:.4f} left of {limit}, {short}; {see}"


def narrowest(budgets: Iterable[BudgetState]) -> BudgetState:
    """The first budget that is used up, else the one that has the least left."""
    every = list(budgets)
    return next(
        (budget for budget in every if budget.is_used_up),
        min(every, key=lambda budget: budget.left),
    )


@dataclass(kw_only=True, eq=False)
class RequestUsage:
    """One request. `state` is "at most" where it was cut off; `row` is its number in the file."""

    run_token: RunToken
    model: str
    at: datetime
    tokens: Tokens = field(default_factory=Tokens)
    usd: float = 0.0
    state: Literal["reserved", "counted", "at most"] = "reserved"
    row: int | None = None
    has_ended: bool = False


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


# The lists of a report, by the column that their rows are grouped by.
_GROUPS = {
    "days": "strftime('%Y-%m-%d', at, 'unixepoch')",
    "agents": "agent",
    "models": "model",
    "causes": "value",
    "sessions": "session",
    "runs": "run",
}


class UsageStore:
    """Every method blocks on the disk, and raises StorageFailedError. Threads may share it."""

    def __init__(self, path: Path, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self.database = Database(
            path,
            label="the record of what the model cost",
            loss="its sums start from zero",
            migrations={3: _ONE_TABLE},
            on_open=self._clean_up,
        )

    def narrowest(self, run_token: RunToken, limits: MoneyLimits) -> BudgetState:
        """The budget of a run that has the least left."""
        with self.database.writer() as database:
            return narrowest(self._budgets(database, run_token, limits))

    def reserve(
        self, usage: RequestUsage, limits: MoneyLimits, fit: Callable[[BudgetState], bool]
    ) -> BudgetState | None:
        """Write down what a request costs at most. `fit` makes `usage` what a budget pays for;
        where that is too little, nothing is written, and the budget is returned.
        """
        with self.database.writer():  # `settle` waits until the row is known
            with self.database.write() as database:
                budget = narrowest(self._budgets(database, usage.run_token, limits))
                if not fit(budget):
                    return budget
                row = None if usage.has_ended else self._put(database, usage)
            usage.row = row  # only of what was committed: SQLite gives the number again otherwise
            return None

    def settle(self, usage: RequestUsage, *, is_owed: bool = True) -> None:
        """Nothing where it is not owed. A power cut may leave what was reserved."""
        with self.database.write(is_durable=False) as database:
            usage.has_ended = True
            if is_owed:
                usage.row = self._put(database, usage)
            else:
                database.execute("DELETE FROM usage WHERE id = ?", (usage.row,))

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

    def report(
        self, now: datetime, days: int, limits: MoneyLimits, *, may_cost: bool
    ) -> UsageReport:
        """Of the last days in UTC, today among them. `may_cost`: models of unknown price may."""
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        since = midnight - timedelta(days=days - 1)
        at = since.timestamp()
        hour, day = self.last()
        (total,) = self.database.rows(f"SELECT {_SUMS} FROM usage WHERE at >= ?", (at,))  # noqa: S608
        distinct = "SELECT DISTINCT model FROM usage WHERE at >= ? ORDER BY 1"
        models = [model for (model,) in self.database.rows(distinct, (at,))]
        groups: dict[str, Any] = {name: self._grouped(name, at, days) for name in _GROUPS}
        return UsageReport(
            days_told=days,
            since=since,
            usd_last_hour=round(hour, _DIGITS),
            usd_last_day=round(day, _DIGITS),
            usd_last_day_conversations=round(self.last("conversation")[1], _DIGITS),
            limits=limits,
            notes=[note for model in models if (note := price_note(model, may_cost=may_cost))],
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

    def _budgets(
        self, database: sqlite3.Connection, run_token: RunToken, limits: MoneyLimits
    ) -> Iterator[BudgetState]:
        values = {**asdict(run_token), **self._since()}
        for budget, (_owner, _setting, rows) in _BUDGETS[run_token.pool].items():
            limit = getattr(limits, budget, run_token.max_cost_usd)
            for cause in run_token.causes if budget == "usd_per_cause" else ("",):
                counted, reserved = _sum(database, rows, {**values, "cause": _json(cause)})
                yield BudgetState(budget=budget, limit=limit, counted=counted, reserved=reserved)

    def _put(self, database: sqlite3.Connection, usage: RequestUsage) -> int | None:
        values = {
            **asdict(usage.run_token),
            **asdict(usage.tokens),
            "causes": _json(sorted(set(usage.run_token.causes))),
            "id": usage.row,
            "at": usage.at.timestamp(),
            "elapsed": self._elapsed(),
            "model": usage.model,
            "usd": usage.usd,
            "state": usage.state,
        }
        return database.execute(_PUT, values).lastrowid

    def _clean_up(self, database: sqlite3.Connection) -> None:
        """Of what was on its way when the daemon was killed only the most it cost is known."""
        database.execute("DELETE FROM usage WHERE elapsed < ?", (self._elapsed() - _KEPT_S,))
        database.execute("UPDATE usage SET state = 'at most' WHERE state = 'reserved'")


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


class OverBudgetError(RequestRefusedError):
    """Too little is left for a request; `budget` is the one that has the least left."""

    def __init__(self, budget: BudgetState) -> None:
        super().__init__(str(budget))
        self.budget = budget


@dataclass(kw_only=True, eq=False)
class Charge(RequestUsage):
    """`is_owed` while it may have reached the model; `meter` reads its answer."""

    request: MessageRequest
    is_owed: bool = False
    meter: Meter | None = None


@dataclass(kw_only=True, eq=False)
class Spending:
    """On the event loop, the store in threads. `may_cost`: for a model of unknown price."""

    usage_store: UsageStore
    limits: MoneyLimits
    clock: Callable[[], datetime]
    may_cost: bool
    report: Callable[[str | None], None]
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def charge(self, run_token: RunToken, request: MessageRequest) -> AsyncIterator[Charge]:
        """The money for one request, on the disk as spent before this is entered, settled when it
        is left. Waits where other requests hold it. Raises OverBudgetError, StorageFailedError.
        """
        charge = Charge(run_token=run_token, model=request.model, at=self.clock(), request=request)
        fit = partial(self._fit, charge)
        try:
            while True:
                settled = self._settled
                budget = await asyncio.to_thread(self.usage_store.reserve, charge, self.limits, fit)
                if budget is None:
                    break
                if budget.is_used_up or budget.reserved <= 0:
                    raise OverBudgetError(budget)
                await settled.wait()
            yield charge
        finally:
            is_owed = self._count(charge)
            settling = asyncio.get_running_loop().run_in_executor(
                None, partial(self.usage_store.settle, charge, is_owed=is_owed)
            )
            while not settling.done():  # counted also where the caller leaves meanwhile
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([settling])
            self._settled.set()  # those that wait for money look again
            self._settled = asyncio.Event()
            self._report(settling.exception())

    def _fit(self, charge: Charge, budget: BudgetState) -> bool:
        """Make it the most that the request costs, its answer cut to what is left."""
        if budget.is_used_up:
            return False
        request, output = charge.request, charge.request.output
        prompt = self._most_usd(request, 0)
        per_token = (self._most_usd(request, _MILLION) - prompt) / _MILLION
        if prompt + output * per_token > budget.left:
            output = int((budget.left - prompt) / per_token) if per_token > 0 else 0
            if budget.reserved > 0 or output < min(_LEAST_ANSWER, request.output):
                return False
        charge.tokens = request.tokens(max(output, 0))
        charge.usd = self._most_usd(request, charge.tokens.output)
        return True

    def _count(self, charge: Charge) -> bool:
        """Make it what the request did cost, False for nothing. An answer that was cut off cost all
        that it might have said, one that does not state its input all that was reserved.
        """
        request, meter = charge.request, charge.meter
        charge.at, charge.state = self.clock(), "at most"
        if meter is None:
            return charge.is_owed
        meter.end()
        tokens = meter.tokens()
        if tokens.prompt:
            if meter.is_whole:
                charge.state = "counted"
            else:
                tokens = replace(tokens, output=max(charge.tokens.output, tokens.output))
            charge.model, charge.tokens = meter.model or request.model, tokens
            speed, place = meter.text("speed") or request.speed, meter.text("inference_geo")
            charge.usd = cost_of(
                charge.model, tokens, may_cost=self.may_cost, speed=speed, place=place
            )
        return charge.is_owed and not meter.is_refused

    def _most_usd(self, request: MessageRequest, output: int) -> float:
        tokens, may_cost = request.tokens(output), self.may_cost
        return cost_of(request.model, tokens, may_cost=may_cost, speed=request.speed, place=_US)

    def _report(self, error: BaseException | None) -> None:
        """A row that could not be settled stays there as spent."""
        if error is not None and not isinstance(error, StorageFailedError):
            log.error("what a request to the model cost was not written down", exc_info=error)
        self.report(str(error) if error is not None else self.usage_store.database.problem)
