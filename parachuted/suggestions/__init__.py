"""Proposed changes, as files that a person can tick."""

from parachuted.suggestions.payload import SuggestingRun as SuggestingRun
from parachuted.suggestions.payload import suggestion_tool as suggestion_tool
from parachuted.suggestions.suggestion import Proposal as Proposal
from parachuted.suggestions.suggestion import Status as Status
from parachuted.suggestions.suggestion import Suggestion as Suggestion
from parachuted.suggestions.suggestions import Suggestions as Suggestions
