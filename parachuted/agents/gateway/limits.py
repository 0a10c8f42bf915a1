"""Limits: how much money there may be spent, by a run, for a cause, in an hour and in a day, and which of these is used up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

BudgetName: TypeAlias = Literal["run", "usd_per_cause", "usd_per_hour", "usd_per_day"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyLimits:
    """US dollars for all that one person's change leads to, in any hour, and in any day (24 hours)."""

    usd_per_cause: float
    usd_per_hour: float
    usd_per_day: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """The budget that is used up, and its limit in US dollars."""

    budget: BudgetName
    limit: float

    def __str__(self) -> str:
        says = {
            "run": f"this run has used up its ${self.limit:g} (setting agent.max_cost_usd)",
            "usd_per_cause": f"what one change led to has used up its ${self.limit:g} (setting budget.usd_per_cause)",
            "usd_per_hour": f"the ${self.limit:g} for an hour are used up (setting budget.usd_per_hour)",
            "usd_per_day": f"the ${self.limit:g} for a day are used up (setting budget.usd_per_day)",
        }
        return f"{says[self.budget]}; `parachute usage` shows on what"


def find_over(
    limits: MoneyLimits, *, run_usd: float, run_limit: float, causes: Mapping[str, float], hour_usd: float, day_usd: float
) -> Over | None:
    """The narrowest budget in which nothing is left, if there is one. `causes` is what was spent for each of a run's causes.

    A limit is reached by what was spent, so it is overspent by at most the requests that were on their way.
    """
    spent: tuple[tuple[BudgetName, float, float], ...] = (
        ("run", run_usd, run_limit),
        ("usd_per_cause", max(causes.values(), default=0.0), limits.usd_per_cause),
        ("usd_per_hour", hour_usd, limits.usd_per_hour),
        ("usd_per_day", day_usd, limits.usd_per_day),
    )
    return next((Over(budget=budget, limit=limit) for budget, usd, limit in spent if usd >= limit), None)
