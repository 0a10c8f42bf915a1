"""Spending limits for a run, a cause, an hour and a day, and the run that a request belongs to,
with its models. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

BudgetPool: TypeAlias = Literal["work", "conversation"]

_FAMILIES = frozenset({"haiku", "sonnet", "opus", "fable", "mythos"})
_LONG_CONTEXT = "[1m]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToken:
    """Whose requests they are: the run, its agent, the causes that its cost is counted for, and the
    US dollars that it may take.

    `models` are those that it may name: the one of the settings, or the one that its agent was
    approved with. `pool` is the budget that pays: that of conversations, or that of all other work.
    """

    run: str
    agent: str
    causes: tuple[str, ...]
    session: str | None
    max_cost_usd: float
    models: tuple[str, ...]
    pool: BudgetPool = "work"

    def foreign_model(self, named: Iterable[str]) -> str | None:
        """The first of these models that this run may not name, if there is one."""
        return next(
            (one for one in named if not any(is_same_model(one, own) for own in self.models)), None
        )


def is_same_model(asked: str, setting: str) -> bool:
    """Whether a request's model is the one that a setting names: by its whole name, without its
    date, or by its family alone (`haiku`).
    """
    own = setting.removesuffix(_LONG_CONTEXT)
    if own in _FAMILIES:
        return asked == own or (asked.startswith("claude-") and own in asked.split("-"))
    return asked in {own, setting} or asked.startswith(f"{own}-20")


_WORTH_BEGINNING = 0.01

BudgetName: TypeAlias = Literal[
    "run",
    "usd_per_cause",
    "usd_per_hour",
    "usd_per_day",
    "usd_per_turn",
    "usd_per_session",
    "conversations_usd_per_day",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyLimits:
    """US dollars for all that one person's change leads to, in any hour, and in any day (24
    hours); and, beside that, for one session of conversation, and for all of them in any day.
    """

    usd_per_cause: float
    usd_per_hour: float
    usd_per_day: float
    usd_per_session: float = math.inf
    conversations_usd_per_day: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceededBudget:
    """The budget that is used up, or of which too little is left: its limit, and what is left, in
    US dollars.
    """

    budget: BudgetName
    limit: float
    left: float = 0.0

    @property
    def is_used_up(self) -> bool:
        """Whether what is left is less than a hundredth, with which no run is worth beginning."""
        return math.isfinite(self.limit) and self.left < self.limit * _WORTH_BEGINNING

    def __str__(self) -> str:
        owner, setting = {
            "run": ("this run", "agent.max_cost_usd"),
            "usd_per_cause": ("what one change led to", "budget.usd_per_cause"),
            "usd_per_hour": ("this hour", "budget.usd_per_hour"),
            "usd_per_day": ("this day", "budget.usd_per_day"),
            "usd_per_turn": ("this turn", "conversation.max_cost_usd"),
            "usd_per_session": ("this conversation", "conversation.usd_per_session"),
            "conversations_usd_per_day": (
                "the day's conversations",
                "conversation.usd_per_day",
            ),
        }[self.budget]
        says = f"{owner} has used up its ${self.limit:g} (setting {setting})"
        if not self.is_used_up:
            says = (
                f"{owner} has ${self.left:.4f} left of its ${self.limit:g} (setting "
                f"{setting}), which does not pay for this request"
            )
        return f"{says}; `parachute usage` shows on what"


def narrowest(
    limits: MoneyLimits,
    *,
    run_usd: float,
    run_limit: float,
    causes: Mapping[str, float],
    hour_usd: float,
    day_usd: float,
) -> ExceededBudget:
    """The budget that has the least left.

    `causes` is what was spent for each of a run's causes; figures are in US dollars.
    """
    return _narrowest(
        ("run", run_usd, run_limit),
        ("usd_per_cause", max(causes.values(), default=0.0), limits.usd_per_cause),
        ("usd_per_hour", hour_usd, limits.usd_per_hour),
        ("usd_per_day", day_usd, limits.usd_per_day),
    )


def narrowest_of_conversation(
    limits: MoneyLimits, *, run_usd: float, run_limit: float, session_usd: float, day_usd: float
) -> ExceededBudget:
    """The same for a conversation: `session_usd` is what its session took, `day_usd` all
    conversations.
    """
    return _narrowest(
        ("usd_per_turn", run_usd, run_limit),
        ("usd_per_session", session_usd, limits.usd_per_session),
        ("conversations_usd_per_day", day_usd, limits.conversations_usd_per_day),
    )


def _narrowest(*spent: tuple[BudgetName, float, float]) -> ExceededBudget:
    every = [
        ExceededBudget(budget=budget, limit=limit, left=limit - usd) for budget, usd, limit in spent
    ]
    return next((one for one in every if one.is_used_up), min(every, key=lambda one: one.left))


def affordable(*, left: float, fixed: float, per_token: float, wanted: int) -> int:
    """How many tokens of an answer `left` dollars pay for, `wanted` at most, where the request
    costs `fixed` besides.
    """
    if fixed + wanted * per_token <= left:
        return wanted
    return int(min(max(0.0, (left - fixed) / per_token), wanted)) if per_token > 0 else 0
