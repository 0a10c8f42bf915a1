"""What of a text is private, for modules that show texts to agents.

The policy reads notes as the vault does, which a module's process has no need of until a text names
something private.
"""

from __future__ import annotations

from parachuted.heavy import load_heavy_here

_NAMED = "private"


def visible_to_agents(text: str) -> str:
    """The text of a note without what is private, which is for no prompt and no index."""
    if _NAMED not in text.lower():
        return text
    return str(load_heavy_here("private").visible_to_agents(text))


def is_shortened(text: str) -> bool:
    """Whether a private part was left out of the text that was read."""
    return _NAMED in text and bool(load_heavy_here("private").is_shortened(text))
