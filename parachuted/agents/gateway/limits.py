"""Limits of what runs may spend, and the run that a request belongs to. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How a run reaches the gateway: at `url`, with `token` as its API key; or by `socket`, which
    is the run's own and asks for none.

    `model` is the one that it may ask.
    """

    url: str
    token: str
    socket: Path | None = None
    model: str | None = None


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
            (model for model in named if not any(is_same_model(model, own) for own in self.models)),
            None,
        )


def is_same_model(asked: str, setting: str) -> bool:
    """Whether a request's model is the one that a setting names: by its whole name, without its
    date, or by its family alone (`haiku`).
    """
    own = setting.removesuffix(_LONG_CONTEXT)
    if own in _FAMILIES:
        return asked == own or (asked.startswith("claude-") and own in asked.split("-"))
    return asked in {own, setting} or asked.startswith(f"{own}-20")


BudgetName: TypeAlias = Literal[
    "run",
    "usd_per_cause",
    "usd_per_hour",
    "usd_per_day",
    "usd_per_turn",
    "usd_per_session",
    "conversations_usd_per_day",
]
# who has the budget, and the setting that limits it
_OWNERS: dict[BudgetName, tuple[str, str]] = {
    "run": ("this run", "agent.max_cost_usd"),
    "usd_per_cause": ("what one change led to", "budget.usd_per_cause"),
    "usd_per_hour": ("this hour", "budget.usd_per_hour"),
    "usd_per_day": ("this day", "budget.usd_per_day"),
    "usd_per_turn": ("this turn", "conversation.max_cost_usd"),
    "usd_per_session": ("this conversation", "conversation.usd_per_session"),
    "conversations_usd_per_day": ("the day's conversations", "conversation.usd_per_day"),
}
_WORTH_BEGINNING = 0.01


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
class BudgetState:
    """One budget's limit, what was counted of it, and what requests on their way hold of it, in US
    dollars.
    """

    budget: BudgetName
    limit: float
    counted: float = 0.0
    reserved: float = 0.0

    @property
    def left(self) -> float:
        return self.limit - self.counted - self.reserved

    @property
    def is_used_up(self) -> bool:
        """Whether a hundredth or less would be left if no request were on its way: no run is
        worth beginning with that.
        """
        return (
            math.isfinite(self.limit) and self.limit - self.counted < self.limit * _WORTH_BEGINNING
        )

    def __str__(self) -> str:
        owner, setting = _OWNERS[self.budget]
        says = f"{owner} has used up its ${self.limit:g} (setting {setting})"
        if not self.is_used_up:
            says = (
                f"{owner} has ${self.left:.4f} left of its ${self.limit:g} (setting "
                f"{setting}), which does not pay for this request"
            )
        return f"{says}; `parachute usage` shows on what"


def narrowest(budgets: Iterable[BudgetState]) -> BudgetState:
    """The first budget that is used up, else the one that has the least left."""
    every = list(budgets)
    return next(
        (budget for budget in every if budget.is_used_up),
        min(every, key=lambda budget: budget.left),
    )
