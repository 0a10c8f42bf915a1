"""Pruning: applies the retention limits to the history once a day, and soon after the start."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime, timedelta

from parachuted.errors import ParachuteError
from parachuted.history.retention import HistorySize, Pruned, Retention

log = logging.getLogger(__name__)

_SOON_S = 20.0
_LOOK_EVERY_S = 1800.0
_DAILY = timedelta(days=1)
_KNOWN_S = 60.0
_TIMES_ITS_COST = 20


class HistoryPruning:
    """Prunes in the background.

    `wanted` gives the digests of texts that must stay; `report` is called with problems for a
    person.
    """

    def __init__(
        self,
        retention: Retention,
        *,
        wanted: Callable[[], Awaitable[set[str]]],
        clock: Callable[[], datetime],
        report: Callable[[str, str | None], None],
        soon_s: float = _SOON_S,
    ) -> None:
        self._retention, self._wanted, self._clock, self._report, self._soon_s = (
            retention,
            wanted,
            clock,
            report,
            soon_s,
        )
        self._size: tuple[float, HistorySize] | None = (
            None  # until when it counts, by the loop's clock
        )

    async def run(self) -> None:
        """Until cancelled. Days follow the clock, since a laptop sleeps."""
        await asyncio.sleep(self._soon_s)
        last: datetime | None = None
        while True:
            now = self._clock()
            if last is None or abs(now - last) >= _DAILY:
                last = now
                await self.prune()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def prune(self) -> Pruned | None:
        """One pass now; None when the disk refused, which is reported.

        A cancelled caller returns when the pass has ended, soon.
        """
        wanted = await self._wanted()
        running = asyncio.get_running_loop().run_in_executor(None, self._retention.prune, wanted)
        try:
            pruned = await asyncio.shield(running)
        except asyncio.CancelledError:
            self._retention.stop()
            await asyncio.wait([running])
            running.exception()
            raise
        except (ParachuteError, OSError) as error:
            self._report(
                "history size",
                "the history could not be brought to its size, and is tried again tomorrow: "
                f"{error}",
            )
            return None
        self._report("history size", None)
        self._size = None
        with contextlib.suppress(ParachuteError, OSError):  # told by the next pass, if it lasts
            await self.size()
        if pruned.writes or pruned.runs or pruned.texts:
            log.info("the history was pruned", extra=asdict(pruned))
        return pruned

    @property
    def known(self) -> HistorySize | None:
        """The size of the history when it was last measured; None before the first time."""
        return self._size[1] if self._size is not None else None

    async def size(self) -> HistorySize:
        """The size of the history: up to a minute old where measuring takes long, else current.

        Raises StorageFailedError, OSError.
        """
        loop = asyncio.get_running_loop()
        if self._size is None or loop.time() > self._size[0]:
            started = loop.time()
            size = await asyncio.to_thread(self._retention.size)
            self._size = (
                loop.time() + min(_KNOWN_S, _TIMES_ITS_COST * (loop.time() - started)),
                size,
            )
        return self._size[1]
