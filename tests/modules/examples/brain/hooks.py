"""Hooks: what the Brain hears of."""

from __future__ import annotations


async def on_entry_created(module, entry_id: str):
    """Remember which entries there were."""
    await module.state.put("last-entry", entry_id)
