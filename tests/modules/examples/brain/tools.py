"""Tools: what agents may ask of the Brain."""

from __future__ import annotations


async def brain_search(module, query: str):
    """Search entities by keyword."""
    return await module.search(query)


async def brain_resolve(module, text: str):
    """The surest entity of a text, or nothing."""
    found = await module.suggest(text)
    return max(found, key=lambda mention: mention["confidence"], default=None)
