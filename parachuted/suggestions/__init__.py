"""Proposed changes, as files that a person can tick."""

from parachuted.suggestions.payload import SuggestingRun, suggestion_tool
from parachuted.suggestions.suggestion import Proposal, Status, Suggestion
from parachuted.suggestions.suggestions import Suggestions

__all__ = [
    "Proposal",
    "Status",
    "SuggestingRun",
    "Suggestion",
    "Suggestions",
    "suggestion_tool",
]
