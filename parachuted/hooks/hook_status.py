"""What a person is shown of a hook and of its errors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from parachuted.hooks.hook import Hook


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStatus:
    """A hook's state: `problem` is why it does not run, `claude` is Claude Code's name for its
    event; the times are since the daemon started.
    """

    hook: Hook
    claude: str | None
    blocking: bool
    problem: str | None = None
    runs: int = 0
    failures: int = 0
    last_ms: float | None = None
    slowest_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookError:
    """An error of a hook on that event."""

    hook: str
    message: str
    timestamp: datetime
    event: str = ""


@dataclass(slots=True, kw_only=True)
class HookCounts:
    """How often a hook has run, and how long it took."""

    runs: int = 0
    failures: int = 0
    last_ms: float | None = None
    slowest_ms: float | None = None

    def count(self, took_ms: float, *, is_failure: bool) -> None:
        """One more run."""
        self.runs += 1
        self.failures += is_failure
        self.last_ms = took_ms
        self.slowest_ms = max(took_ms, self.slowest_ms or 0.0)
