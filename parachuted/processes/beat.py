"""Beat: one clock for all that looks at something now and then, so that they wake the daemon in one
turn and not in a turn each.
"""

from __future__ import annotations

import asyncio


async def next_beat(every_s: float) -> None:
    """Sleep until the loop's time is next a multiple of `every_s`, in seconds."""
    await asyncio.sleep(every_s - asyncio.get_running_loop().time() % every_s)
