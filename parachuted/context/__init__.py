"""Context: what an agent is told about where it works."""

from parachuted.context.chain import LARGEST_FILE, Chain, ChainFile, Choice, chain_of
from parachuted.context.folders import ContextFolder, context_folder, context_folders, tokens_in
from parachuted.context.legacy import LEGACY_FOLDER, choice_of, names_in
from parachuted.context.migration import Move, added_to, plan_moves
from parachuted.context.prompt import DEFAULT_TOKENS, Preview, Prompts, Wanted, tokens_of_text
from parachuted.context.sessions import MOST_CHOSEN, SessionContexts

__all__ = [
    "DEFAULT_TOKENS",
    "LARGEST_FILE",
    "LEGACY_FOLDER",
    "MOST_CHOSEN",
    "Chain",
    "ChainFile",
    "Choice",
    "ContextFolder",
    "Move",
    "Preview",
    "Prompts",
    "SessionContexts",
    "Wanted",
    "added_to",
    "chain_of",
    "choice_of",
    "context_folder",
    "context_folders",
    "names_in",
    "plan_moves",
    "tokens_in",
    "tokens_of_text",
]
