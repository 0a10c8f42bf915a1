"""Spending: reserves what each request may cost before it is sent, and counts what it did cost when
it has ended.

The reservation counts in full unless the answer states its usage, or the model's server refused the
request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from parachuted.agents.gateway.limits import BudgetState, MoneyLimits, RunToken
from parachuted.agents.gateway.message_request import MessageRequest, RequestRefusedError
from parachuted.agents.gateway.prices import Meter, Tokens, cost_of
from parachuted.agents.gateway.usage_store import RequestUsage, UsageEntry, UsageStore
from parachuted.errors import StorageFailedError

log = logging.getLogger(__name__)

_LEAST_ANSWER = 256  # tokens: a shorter one is not worth its prompt, unless no more was asked for
_US = "us"
_MILLION = 1_000_000


class OverBudgetError(RequestRefusedError):
    """Too little is left for a request; `budget` is the one that has the least left."""

    def __init__(self, budget: BudgetState) -> None:
        super().__init__(str(budget))
        self.budget = budget


@dataclass(kw_only=True, eq=False)
class Charge:
    """One request's money: it may ask for an answer of `output` tokens.

    `is_owed` while it may have reached the model; `meter` reads its answer.
    """

    run_token: RunToken
    request: MessageRequest
    output: int = 0
    is_owed: bool = False
    meter: Meter | None = None
    entry: UsageEntry = field(default_factory=UsageEntry)


class Spending:
    """A gateway's money. It runs on the event loop, and the usage store in threads."""

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
        self._settled = asyncio.Event()
        self._settling: set[asyncio.Future[None]] = set()

    async def narrowest(self, run_token: RunToken) -> BudgetState:
        return await asyncio.to_thread(self.usage_store.narrowest, run_token, self.limits)

    @asynccontextmanager
    async def charge(
        self, run_token: RunToken, session: str | None, request: MessageRequest
    ) -> AsyncIterator[Charge]:
        """The money for one request, on the disk as spent before this is entered, and settled when
        it is left.

        Waits for other requests where these hold what it needs. Raises OverBudgetError, and
        StorageFailedError where it cannot be written down.
        """
        run_token = replace(run_token, session=session)
        charge = Charge(run_token=run_token, request=request)
        try:
            while True:
                settled = self._settled
                budget = await asyncio.to_thread(
                    self.usage_store.reserve,
                    charge.entry,
                    run_token,
                    self.limits,
                    lambda budget: self._most(charge, budget),
                )
                if budget is None:
                    break
                if budget.is_used_up or budget.reserved <= 0:
                    raise OverBudgetError(budget)
                await settled.wait()
            yield charge
        finally:
            settling = asyncio.get_running_loop().run_in_executor(
                None, self.usage_store.settle, charge.entry, self._cost(charge)
            )
            self._settling.add(settling)
            settling.add_done_callback(self._look_again)
            while not settling.done():  # counted also where the caller leaves meanwhile
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([settling])

    async def close(self) -> None:
        if self._settling:
            await asyncio.wait(self._settling)
        await asyncio.to_thread(self.usage_store.close)

    def _most(self, charge: Charge, budget: BudgetState) -> RequestUsage | None:
        """What the request costs at most, with an answer that is cut to what is left, if no other
        request holds it; None where that is too little.
        """
        request = charge.request
        prompt = self._most_usd(request, 0)
        per_token = (self._most_usd(request, _MILLION) - prompt) / _MILLION
        output = request.output
        if budget.is_used_up:
            return None
        if prompt + output * per_token > budget.left:
            output = int((budget.left - prompt) / per_token) if per_token > 0 else 0
            if budget.reserved > 0 or output < min(_LEAST_ANSWER, request.output):
                return None
        charge.output = max(output, 0)
        usd = self._most_usd(request, charge.output)
        return self._usage(charge, request.model, request.tokens(charge.output), usd)

    def _cost(self, charge: Charge) -> RequestUsage | None:
        """What it did cost, or None. An answer that was cut off cost all that it might have said,
        and one that does not state its input all that was reserved.
        """
        request, meter = charge.request, charge.meter
        if meter is not None:
            meter.end()
        if not charge.is_owed or (meter is not None and meter.is_refused):
            return None
        if meter is None or not (tokens := meter.tokens()).prompt:
            usd = self._most_usd(request, charge.output)
            most = self._usage(charge, request.model, request.tokens(charge.output), usd)
            return replace(most, state="at most")
        if not meter.is_whole:
            tokens = replace(tokens, output=max(charge.output, tokens.output))
        model = meter.model or request.model
        usd = meter.usd(model, tokens, may_cost=self._may_cost, speed=request.speed)
        usage = self._usage(charge, model, tokens, usd)
        return replace(usage, state="counted" if meter.is_whole else "at most")

    def _most_usd(self, request: MessageRequest, output: int) -> float:
        return cost_of(
            request.model,
            request.tokens(output),
            may_cost=self._may_cost,
            speed=request.speed,
            place=_US,
        )

    def _usage(self, charge: Charge, model: str, tokens: Tokens, usd: float) -> RequestUsage:
        run_token = charge.run_token
        return RequestUsage(
            at=self._clock(),
            run=run_token.run,
            agent=run_token.agent,
            causes=run_token.causes,
            session=run_token.session,
            model=model,
            input=tokens.input,
            output=tokens.output,
            cache_read=tokens.cache_read,
            cache_written=tokens.cache_write_5m + tokens.cache_write_1h,
            usd=usd,
            pool=run_token.pool,
            state="reserved",
        )

    def _look_again(self, settling: asyncio.Future[None]) -> None:
        """Requests that wait for money look again; a row that could not be settled stays there as
        spent.
        """
        self._settling.discard(settling)
        self._settled.set()
        self._settled = asyncio.Event()
        error = settling.exception()
        if error is not None and not isinstance(error, StorageFailedError):
            log.error("what a request to the model cost was not written down", exc_info=error)
        self._report(str(error) if error is not None else self.usage_store.problem)
