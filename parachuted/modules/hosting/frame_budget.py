"""How fast a module host may send; one that floods its pipe delays only itself.

Each frame has a cost, by the work that it causes, taken from a budget that refills steadily. When
it is used up, the pipe is not read until there is enough again, so the process blocks at its next
write.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from parachuted.modules.hosting.framing import AskFrame, Frame

PER_SECOND = 2_000.0
MOST_SAVED = 20_000.0
_PER_PARSING_SECOND = (
    8_000.0  # so that a process has at most a quarter of one processor's time read its frames
)
_BY_VERB: Mapping[str, float] = MappingProxyType(
    {"publish": 20.0}
)  # everyone who hears of it does something


def cost_of(frame: Frame, parsed_s: float) -> float:
    """What a frame costs. `parsed_s`: the processor's time that parsing it took, in seconds."""
    return (
        _BY_VERB.get(frame.verb, 1.0) if isinstance(frame, AskFrame) else 1.0
    ) + parsed_s * _PER_PARSING_SECOND


class FrameBudget:
    """The budget of one process. Times are seconds of a monotonic clock."""

    def __init__(
        self, now: float, *, per_second: float = PER_SECOND, most_saved: float = MOST_SAVED
    ) -> None:
        self._per_second, self._most_saved = per_second, most_saved
        self._saved, self._at = most_saved, now

    def spend(self, cost: float, now: float) -> float:
        """Take that much; how many seconds to wait until it was there."""
        self._saved = (
            min(self._saved + max(now - self._at, 0.0) * self._per_second, self._most_saved) - cost
        )
        self._at = now
        return max(-self._saved / self._per_second, 0.0)
