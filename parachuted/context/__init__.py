"""Context: what an agent knows about the place where it works."""

from parachuted.context.chain import (
    LARGEST_FILE,
    LEGACY_FOLDER,
    Chain,
    ChainFile,
    ContextFolder,
    ContextSelection,
    chain_of,
    choice_of,
    context_folders,
    names_in,
)
from parachuted.context.prompt import (
    DEFAULT_TOKENS,
    ContextAssembly,
    PromptPreview,
    tokens_of_text,
)
from parachuted.context.sessions import MOST_CHOSEN, SessionContext, SessionContexts

__all__ = [
    "DEFAULT_TOKENS",
    "LARGEST_FILE",
    "LEGACY_FOLDER",
    "MOST_CHOSEN",
    "Chain",
    "ChainFile",
    "ContextAssembly",
    "ContextFolder",
    "ContextSelection",
    "PromptPreview",
    "SessionContext",
    "SessionContexts",
    "chain_of",
    "choice_of",
    "context_folders",
    "names_in",
    "tokens_of_text",
]
