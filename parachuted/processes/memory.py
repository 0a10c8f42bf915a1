"""Memory: returns what this process no longer uses to the operating system, where glibc is used."""

from __future__ import annotations

import asyncio
import ctypes

_M_ARENA_MAX, _HEAPS = -8, 2
_TRIM_AFTER_S = 2.0


def trim_memory() -> None:
    """Return freed memory, which glibc keeps until it is asked (malloc_trim(3)). Blocks."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def limit_heaps() -> None:
    """Let threads share two heaps (mallopt(3)); glibc would make up to eight a core, half empty."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _HEAPS)


class MemoryTrimmer:
    """Trims in a thread, once for all requests of the same two seconds."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def trim_soon(self) -> None:
        """Return at once. Call it on the event loop."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_TRIM_AFTER_S, self._trim, loop)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _trim(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        loop.run_in_executor(None, trim_memory)
