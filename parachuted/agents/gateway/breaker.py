"""A circuit breaker for a server that fails repeatedly. Pure: the caller passes a monotonic
time.
"""

from __future__ import annotations

_FAILURES = 5
_FIRST_S = 15.0
_LONGEST_S = 300.0


class Breaker:
    """Closed: all requests pass.

    Open: none. Half-open, once the wait is over: one passes, and its result decides.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._wait_s = _FIRST_S
        self._until: float | None = None
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        """Whether it opened, and nothing went well since."""
        return self._until is not None

    def admits(self, now: float) -> bool:
        """Whether a request may go.

        One that may must be followed by `succeeded`, `failed` or `left`.
        """
        if self._until is None:
            return True
        if now < self._until or self._is_probed:
            return False
        self._is_probed = True
        return True

    def seconds_left(self, now: float) -> float:
        """Seconds until a request may pass."""
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def succeeded(self) -> None:
        """The server answered."""
        self._failures, self._wait_s, self._until, self._is_probed = 0, _FIRST_S, None, False

    def failed(self, now: float) -> None:
        """It did not. Those that were on their way when it opened do not make the wait longer."""
        self._failures += 1
        if self._is_probed:
            self._wait_s = min(self._wait_s * 2, _LONGEST_S)
        elif self._until is not None or self._failures < _FAILURES:
            return
        self._until, self._is_probed = now + self._wait_s, False

    def left(self) -> None:
        """Whoever asked went away before there was an answer: the next may try."""
        self._is_probed = False
