"""Sheets: suggestions as values, for tests of what is pure."""

from __future__ import annotations

from datetime import UTC, datetime

from parachuted.suggestions import Suggestion
from parachuted.suggestions.suggestion import SuggestionRecord

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def suggestion(**more: object) -> Suggestion:
    """One that waits."""
    given: dict[str, object] = {
        "id": "s0000000001",
        "source_agent": "reflector",
        "source_session": "0b8e",
        "timestamp": NOON,
        "action": "update",
        "target_module": "brain",
        "target_id": None,
        "payload": {"text": "two\n"},
        "reasoning": "it follows",
        "path": "Brain/Kevin.md",
        "base": "5" * 64,
        "run": "r-1",
        "causes": ("c-1",),
        "origin": "agent",
    }
    return Suggestion(**{**given, **more})  # type: ignore[arg-type]


def shown(made: Suggestion | None = None, **more: object) -> SuggestionRecord:
    """Its record, with what a person sees."""
    values: dict[str, object] = {"file": "Suggestions/x.md", "diff": "+x"} | more
    return SuggestionRecord(suggestion=made or suggestion(), **values)  # type: ignore[arg-type]
