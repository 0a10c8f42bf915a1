"""One program that runs on an event, and what a person is shown of it and of its errors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from parachuted.hooks.names import is_blocking

DEFAULT_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """What to run and when.

    Either `command`, a line for the shell, or `argv`, run without a shell. `event` is our name.
    `files` are the scripts whose content is pinned. `blocks_on_failure` is None where the settings
    do not say, so that the general setting decides.
    """

    id: str
    event: str
    command: str | None = None
    argv: tuple[str, ...] | None = None
    matcher: str | None = None
    condition: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_async: bool = False
    blocks_on_failure: bool | None = None
    order: int = 0
    files: tuple[Path, ...] = ()
    source: Literal["settings", "script"] = "settings"
    description: str | None = None

    @property
    def may_block(self) -> bool:
        """Whether it can stop what is about to happen: nothing waits for an asynchronous one."""
        return is_blocking(self.event) and not self.is_async

    @property
    def shown(self) -> str:
        """What is run, for a person."""
        return self.command if self.command is not None else " ".join(self.argv or ())


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
