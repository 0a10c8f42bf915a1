"""Measures at intervals what a run has written to disk, and ends a run that wrote too much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from parachuted.agents.sandbox.sandbox_spec import SandboxSlot
from parachuted.agents.sandbox.slots import MOST_BYTES, too_much

_EVERY_S = 1.0
_SHARE = 20  # looking takes at most a twentieth of the time


class DiskWatch:
    """Measures one slot, in threads, between `start` and `stop`; calls `end` with the reason when
    it is too large.
    """

    def __init__(
        self,
        slot: SandboxSlot,
        end: Callable[[str], None],
        *,
        most_bytes: int = MOST_BYTES,
        every_s: float = _EVERY_S,
    ) -> None:
        self._look = partial(too_much, slot, most_bytes=most_bytes)
        self._end, self._every_s = end, every_s
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Look in a moment, and then again and again."""
        self._wait(self._every_s)

    def stop(self) -> None:
        """Look no more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        begun = time.monotonic()
        looking = asyncio.get_running_loop().run_in_executor(None, self._look)
        looking.add_done_callback(lambda looked: self._looked(looked, time.monotonic() - begun))

    def _looked(self, looked: asyncio.Future[str | None], took_s: float) -> None:
        if self._is_stopped or looked.cancelled():
            return
        error = looked.exception()
        problem = (
            f"what it put on the disk cannot be looked at ({error})"
            if error is not None
            else looked.result()
        )
        if problem is not None:
            self._end(problem)
            return
        self._wait(max(self._every_s, took_s * _SHARE))
