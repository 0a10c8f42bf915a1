"""Identifies the run that a request belongs to, its cost limit and its models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_FAMILIES = frozenset({"haiku", "sonnet", "opus", "fable", "mythos"})
_LONG_CONTEXT = "[1m]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToken:
    """Whose requests they are: the run, its agent, the causes that its cost is counted for, and the
    US dollars that it may take.

    `models` are those that it may name: the one of the settings, or the one that its agent was
    approved with.
    """

    run: str
    agent: str
    causes: tuple[str, ...]
    session: str | None
    max_cost_usd: float
    models: tuple[str, ...]

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
