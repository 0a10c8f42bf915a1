"""Life: a running daemon as tests see it, and the notes they save."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.daemon import Daemon
from parachuted.events import Event


@dataclass
class Life:
    """A running daemon and what it told so far."""

    daemon: Daemon
    vault: Path
    events: list[Event] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.daemon.port}"

    def told(self, kind: str) -> list[dict[str, object]]:
        """The data of the events of that kind (or of a room: `file.`)."""
        return [
            dict(event.data)
            for event in self.events
            if event.event == kind or (kind.endswith(".") and event.event.startswith(kind))
        ]

    async def until(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Wait for a condition, at most so long."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"did not happen in {seconds} s; told: "
                    f"{[(e.event, dict(e.data)) for e in self.events][-12:]}"
                )
            await asyncio.sleep(0.005)

    async def settled(self, seconds: float = 30) -> None:
        """Wait until everything on the disk is noticed and every task is done, and a look
        afterwards finds no more to do.
        """
        daemon = self.daemon

        def is_busy() -> bool:
            return bool(daemon.noticer.busy or daemon.queue.all() or daemon.worker.busy)

        await daemon.noticer.rescan()
        while is_busy():
            await self.until(lambda: not is_busy(), seconds)
            await daemon.noticer.rescan()  # what the last run wrote may not have been heard of yet


Live = Callable[..., contextlib.AbstractAsyncContextManager[Life]]


def note(title: str, *, watch: list[str] | None = None, focus: str = "- nothing yet") -> str:
    """A context file."""
    lines = ["---", "watch:", *(f'  - "{pattern}"' for pattern in watch), "---"] if watch else []
    return "\n".join(
        [
            *lines,
            f"# {title}",
            "",
            f"> About {title}.",
            "",
            "## Current Focus",
            focus,
            "",
            "## History",
            "",
        ]
    )


def save(path: Path, text: str) -> None:
    """Save as most editors do: a temporary file, then a rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.save")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)
