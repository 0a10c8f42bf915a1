"""Spending: reserves what each request may cost before it is sent, and counts what it did cost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from parachuted.agents.gateway.message_request import MessageRequest, RequestRefusedError
from parachuted.agents.gateway.prices import Meter, cost_of
from parachuted.agents.gateway.usage import (
    BudgetState,
    MoneyLimits,
    RequestUsage,
    RunToken,
    UsageStore,
)
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
