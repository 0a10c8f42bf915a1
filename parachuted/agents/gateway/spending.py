"""Reserves what each request may cost before it is sent, and settles it when it ends.

The reservation counts in full unless the answer states its usage, or the model's server refused the
request. It is on disk before the request leaves, so a killed daemon finds it as spent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from parachuted.agents.gateway.limits import (
    BudgetPool,
    ExceededBudget,
    MoneyLimits,
    RequestEstimate,
    RunToken,
    affordable,
    narrowest,
    narrowest_of_conversation,
)
from parachuted.agents.gateway.prices import MeterReading, Tokens, cost_of
from parachuted.agents.gateway.usage_store import RequestUsage, UsageEntry, UsageStore
from parachuted.errors import StorageFailedError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reservation:
    """Whose one request is, and its maximum cost in US dollars."""

    run: str
    causes: tuple[str, ...]
    usd: float
    session: str | None = None
    pool: BudgetPool = "work"


class Reservations:
    def __init__(self) -> None:
        self._open: set[Reservation] = set()
        self._ended = asyncio.Event()

    def usd(self, belongs: Callable[[Reservation], bool] = lambda _one: True) -> float:
        return sum(one.usd for one in self._open if belongs(one))

    def add(self, reservation: Reservation) -> None:
        self._open.add(reservation)

    def remove(self, reservation: Reservation) -> None:
        """It has ended; those that wait in `wait_for_end` look again."""
        self._open.discard(reservation)
        self._ended.set()
        self._ended = asyncio.Event()

    async def wait_for_end(self) -> None:
        await self._ended.wait()


log = logging.getLogger(__name__)

_LEAST_ANSWER = (
    256  # tokens: a shorter answer is not worth its prompt, unless no more was asked for
)
_US = "us"
_MILLION = 1_000_000

Count = Callable[[RequestEstimate], Awaitable[int | None]]


class OverBudgetError(Exception):
    """Too little is left for a request; `over` is the budget that has the least left."""

    def __init__(self, over: ExceededBudget) -> None:
        super().__init__(str(over))
        self.over = over


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAllowance:
    """What one request was granted: an answer of `output` tokens, for at most `usd` dollars."""

    run_token: RunToken
    session: str | None
    estimate: RequestEstimate
    output: int
    usd: float


class Spending:
    """A gateway's money. It runs on the event loop and shares only the usage store with threads."""

    def __init__(
        self,
        *,
        usage_store: UsageStore,
        limits: MoneyLimits,
        clock: Callable[[], datetime],
        may_cost: bool,
        report: Callable[[str | None], None],
    ) -> None:
        """`may_cost`: the server may charge for a model of unknown price.

        `report` receives what is wrong with the usage store's file.
        """
        self.usage_store, self.limits = usage_store, limits
        self._clock, self._may_cost, self._report = clock, may_cost, report
        self._reservations = Reservations()
        self._writes: set[asyncio.Future[None]] = set()

    def over(self, run_token: RunToken) -> ExceededBudget | None:
        """The budget that keeps this run from asking, if one is used up by what was counted."""
        found = self._narrowest(run_token, lambda _belongs: 0.0)
        return found if found.is_used_up else None

    @asynccontextmanager
    async def charge(
        self, run_token: RunToken, session: str | None, estimate: RequestEstimate, count: Count
    ) -> AsyncIterator[Charge]:
        """The money for one request, reserved now and settled when it is left.

        Waits for other requests where these hold what it needs.

        `count` has the model's server count a request's input, or answers None; it is asked where a
        bound does not do. Raises OverBudgetError; StorageFailedError where it cannot be written
        down.
        """
        if run_token.pool == "conversation" and session is not None:
            run_token = replace(run_token, session=session)
            await asyncio.to_thread(self.usage_store.follow, run_token.run, (), session)
        while True:
            found, wanted = self.narrowest(run_token), estimate.output
            output = self._affordable(estimate, found.left)
            if output >= wanted:
                break
            if not estimate.is_exact:
                tokens = await count(estimate)
                estimate = (
                    replace(estimate, is_exact=True) if tokens is None else estimate.counted(tokens)
                )
            elif self._reservations.usd(_sharing(found, run_token)) > 0:
                await self._reservations.wait_for_end()
            elif output < min(_LEAST_ANSWER, wanted) or output == 0:
                raise OverBudgetError(found)
            else:
                break
        purchase = RequestAllowance(
            run_token=run_token,
            session=session,
            estimate=estimate,
            output=output,
            usd=self._most_usd(estimate, output),
        )
        charge = Charge(self, purchase)
        try:
            await charge.reserve()
            yield charge
        finally:
            charge.settle()

    def reserve(self, purchase: RequestAllowance) -> Reservation:
        """Take the money out of what others may spend."""
        run_token = purchase.run_token
        reservation = Reservation(
            run=run_token.run,
            causes=run_token.causes,
            usd=purchase.usd,
            session=run_token.session,
            pool=run_token.pool,
        )
        self._reservations.add(reservation)
        return reservation

    def release(self, reservation: Reservation) -> None:
        self._reservations.remove(reservation)

    def has_room_for(self, purchase: RequestAllowance) -> bool:
        return (
            self._affordable(purchase.estimate, self.narrowest(purchase.run_token).left)
            >= purchase.output
        )

    def most(self, purchase: RequestAllowance) -> RequestUsage:
        return self._usage(
            purchase,
            purchase.estimate.model,
            purchase.estimate.tokens(purchase.output),
            purchase.usd,
            is_whole=False,
        )

    def read(self, purchase: RequestAllowance, reading: MeterReading) -> RequestUsage:
        """The usage that the answer states; for one that was cut off, the full granted output,
        since the real amount is unknown.

        An answer that does not state its input counts as all that was reserved.
        """
        if not reading.tokens.prompt:
            return self.most(purchase)
        tokens = (
            reading.tokens
            if reading.is_whole
            else replace(reading.tokens, output=max(purchase.output, reading.tokens.output))
        )
        model = reading.model or purchase.estimate.model
        usd = cost_of(
            model,
            tokens,
            may_cost=self._may_cost,
            speed=reading.speed or purchase.estimate.speed,
            place=reading.place,
        ).usd
        return self._usage(purchase, model, tokens, usd, is_whole=reading.is_whole)

    def write(self, writing: Callable[[], None]) -> None:
        """Update the usage store's file soon, in a thread.

        If that fails, the reservation stays there as spent.
        """
        future = asyncio.get_running_loop().run_in_executor(None, writing)
        self._writes.add(future)
        future.add_done_callback(self._written)

    async def close(self) -> None:
        if self._writes:
            await asyncio.wait(self._writes)
        await asyncio.to_thread(self.usage_store.close)

    def narrowest(self, run_token: RunToken) -> ExceededBudget:
        """The budget that has the least left, of what was counted and of what is reserved."""
        return self._narrowest(run_token, self._reservations.usd)

    def _narrowest(
        self, run_token: RunToken, reserved: Callable[[Callable[[Reservation], bool]], float]
    ) -> ExceededBudget:
        run = self.usage_store.followed("run", run_token.run).usd + reserved(
            lambda one: one.run == run_token.run
        )
        every = reserved(lambda one: one.pool == run_token.pool)
        if run_token.pool == "conversation":
            session = run_token.session or ""
            return narrowest_of_conversation(
                self.limits,
                run_usd=run,
                run_limit=run_token.max_cost_usd,
                session_usd=self.usage_store.followed("session", session).usd
                + reserved(lambda one: one.session == session),
                day_usd=self.usage_store.last_of_conversations() + every,
            )
        hour, day = self.usage_store.last()
        causes = {
            cause: self.usage_store.followed("cause", cause).usd
            + reserved(lambda one, cause=cause: cause in one.causes)  # type: ignore[misc]
            for cause in run_token.causes
        }
        return narrowest(
            self.limits,
            run_usd=run,
            run_limit=run_token.max_cost_usd,
            causes=causes,
            hour_usd=hour + every,
            day_usd=day + every,
        )

    def _affordable(self, estimate: RequestEstimate, left: float) -> int:
        fixed = self._most_usd(estimate, 0)
        per_token = (self._most_usd(estimate, _MILLION) - fixed) / _MILLION
        return affordable(left=left, fixed=fixed, per_token=per_token, wanted=estimate.output)

    def _most_usd(self, estimate: RequestEstimate, output: int) -> float:
        return cost_of(
            estimate.model,
            estimate.tokens(output),
            may_cost=self._may_cost,
            speed=estimate.speed,
            place=_US,
        ).usd

    def _usage(
        self, purchase: RequestAllowance, model: str, tokens: Tokens, usd: float, *, is_whole: bool
    ) -> RequestUsage:
        run_token = purchase.run_token
        return RequestUsage(
            at=self._clock(),
            run=run_token.run,
            agent=run_token.agent,
            causes=run_token.causes,
            session=purchase.session,
            model=model,
            input=tokens.input,
            output=tokens.output,
            cache_read=tokens.cache_read,
            cache_written=tokens.cache_write_5m + tokens.cache_write_1h,
            usd=usd,
            is_whole=is_whole,
            is_conversation=run_token.pool == "conversation",
        )

    def _written(self, writing: asyncio.Future[None]) -> None:
        self._writes.discard(writing)
        error = None if writing.cancelled() else writing.exception()
        if error is not None and not isinstance(error, StorageFailedError):
            log.error("what a request to the model cost was not written down", exc_info=error)
        self._report(str(error) if error is not None else self.usage_store.problem)


class Charge:
    """One request's money. `purchase.output` is the longest answer that it may ask for."""

    def __init__(self, spending: Spending, purchase: RequestAllowance) -> None:
        self.purchase = purchase
        self._spending = spending
        self._reservation: Reservation | None = None
        self._entry = UsageEntry()
        self._is_owed = False
        self._reading: MeterReading | None = None

    async def reserve(self) -> None:
        """Take the money, and have that on the disk. Raises StorageFailedError."""
        self._reservation = self._spending.reserve(self.purchase)
        most = self._spending.most(self.purchase)
        await asyncio.to_thread(self._spending.usage_store.reserve, self._entry, most)

    async def attempt(self) -> None:
        """The request is about to be sent.

        One that was sent before, and got no answer, is counted as spent, and paid for again.

        Raises OverBudgetError where no money is left for that, StorageFailedError.
        """
        if self._is_owed:
            self.settle()
            if not self._spending.has_room_for(self.purchase):
                raise OverBudgetError(self._spending.narrowest(self.purchase.run_token))
            self._entry = UsageEntry()
            await self.reserve()
        self._is_owed = True

    def refused(self) -> None:
        """The request did not reach the model: it was refused, or never arrived.

        It costs nothing.
        """
        self._is_owed = False

    def answered(self, reading: MeterReading) -> None:
        """What was read from the answer to it, until now."""
        self._reading = reading

    def settle(self) -> None:
        """Count what was spent, before the agent can ask again, and free the rest; the file
        follows.
        """
        spending, reservation, entry = self._spending, self._reservation, self._entry
        if reservation is None:
            return
        self._reservation = None
        usage = None
        if self._is_owed:
            usage = (
                spending.read(self.purchase, self._reading)
                if self._reading is not None
                else spending.most(self.purchase)
            )
            spending.usage_store.count(usage)
        spending.release(reservation)
        self._is_owed, self._reading = False, None
        spending.write(lambda: spending.usage_store.settle(entry, usage))


def _sharing(over: ExceededBudget, run_token: RunToken) -> Callable[[Reservation], bool]:
    if over.budget in {"run", "usd_per_turn"}:
        return lambda one: one.run == run_token.run
    if over.budget == "usd_per_cause":
        return lambda one: any(cause in one.causes for cause in run_token.causes)
    if over.budget == "usd_per_session":
        return lambda one: one.session == run_token.session
    return lambda one: one.pool == run_token.pool
