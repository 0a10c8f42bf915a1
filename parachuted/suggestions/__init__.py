"""Suggestions: changes that were proposed, as files that a person can tick."""

from parachuted.suggestions.suggestion import Action, Proposal, Status, Suggestion
from parachuted.suggestions.suggestions import SuggestionParts, Suggestions
from parachuted.suggestions.tool import SuggestingRun, suggestion_tool

__all__ = ["Action", "Proposal", "Status", "SuggestingRun", "Suggestion", "SuggestionParts", "Suggestions", "suggestion_tool"]
