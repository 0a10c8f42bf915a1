"""One program that runs on an event."""

from __future__ import annotations

from dataclasses import dataclass
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
