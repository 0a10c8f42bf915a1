"""How often an agent's suggestions are approved, and whether that suffices to stop asking.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from parachuted.access.origin import UNTRUSTED
from parachuted.suggestions.payload import changes_watch
from parachuted.suggestions.suggestion import USER, Suggestion, SuggestionAction

LEAST_RESOLVED = 20
_MAY_BE_SPARED: frozenset[SuggestionAction] = frozenset({"create", "update"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    agent: str
    action: SuggestionAction
    approved: int
    modified: int
    rejected: int

    @property
    def resolved(self) -> int:
        return self.approved + self.modified + self.rejected

    @property
    def rate(self) -> float:
        """What was approved as it was, of all that was decided on, 0 to 1; what a person had to
        change counts half.
        """
        return (self.approved + self.modified / 2) / self.resolved if self.resolved else 0.0


def acceptance_of(suggestions: Iterable[Suggestion]) -> list[Acceptance]:
    """By agent and action.

    Undecided suggestions, and those that another agent decided, do not count.
    """
    found: dict[tuple[str, SuggestionAction], dict[str, int]] = {}
    for one in suggestions:
        if one.resolved_by == USER and one.status in {"approved", "modified", "rejected"}:
            counts = found.setdefault((one.source_agent, one.action), {})
            counts[one.status] = counts.get(one.status, 0) + 1
    return [
        Acceptance(
            agent=agent,
            action=action,
            approved=counts.get("approved", 0),
            modified=counts.get("modified", 0),
            rejected=counts.get("rejected", 0),
        )
        for (agent, action), counts in sorted(found.items())
    ]


def needs_no_asking(
    suggestion: Suggestion,
    before: bytes | None,
    after: bytes | None,
    known: Iterable[Acceptance],
    rate: float,
) -> bool:
    """Whether it may be applied at once: nearly all of its kind were approved, and its text is
    trusted.

    `rate` 0 is never. A change to watch patterns is always asked.
    """
    if (
        rate <= 0
        or suggestion.action not in _MAY_BE_SPARED
        or suggestion.origin in UNTRUSTED
        or changes_watch(before, after)
    ):
        return False
    return any(
        (one.agent, one.action) == (suggestion.source_agent, suggestion.action)
        and one.resolved >= LEAST_RESOLVED
        and one.rate >= rate
        for one in known
    )
