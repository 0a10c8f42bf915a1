"""Beat: one shared interval for everything that polls, so that the daemon wakes once for all."""

from __future__ import annotations

import asyncio


async def next_beat(every_s: float) -> None:
    """Sleep until the loop's time is next a multiple of `every_s`, in seconds."""
    await asyncio.sleep(every_s - asyncio.get_running_loop().time() % every_s)
