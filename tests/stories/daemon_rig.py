"""DaemonRig: a running daemon as tests see it, and the notes they save."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from parachuted.agents.choice import BackendChoice
from parachuted.agents.job import Backend
from parachuted.agents.offline import OfflineBackend
from parachuted.config import Settings, load_settings
from parachuted.daemon import Daemon
from parachuted.events import Event
from parachuted.texts.times import utc_now
from tests.modules.container_rig import ProcessSandboxes


@dataclass
class DaemonRig:
    """A running daemon and what it told so far."""

    daemon: Daemon
    vault: Path
    events: list[Event] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.daemon.port}"

    def reported(self, kind: str) -> list[dict[str, object]]:
        """The data of the events of that kind (or of a room: `file.`)."""
        return [
            dict(event.data)
            for event in self.events
            if event.event == kind or (kind.endswith(".") and event.event.startswith(kind))
        ]

    async def until(self, condition: Callable[[], object], seconds: float = 120) -> None:
        """Wait for a condition, at most so long."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"did not happen in {seconds} s; told: "
                    f"{[(e.event, dict(e.data)) for e in self.events][-12:]}"
                )
            await asyncio.sleep(0.005)

    async def indexed(self, notes: int = 0) -> None:
        """Wait until all that is known can be found, and these are so many notes at least."""
        search = self.daemon.vault.search
        await self.until(lambda: not search.is_behind and search.count() >= notes)

    async def settled(self, seconds: float = 120) -> None:
        """Wait until everything on the disk is noticed and every task is done, and a look
        afterwards finds no more to do.
        """
        daemon = self.daemon

        def is_busy() -> bool:
            return bool(
                daemon.watched.detector.busy or daemon.loop.queue.all() or daemon.agents.worker.busy
            )

        await daemon.watched.detector.rescan()
        while is_busy():
            await self.until(lambda: not is_busy(), seconds)
            # what the last run wrote may not have been heard of yet
            await daemon.watched.detector.rescan()


class Clock:
    """Goes with the world's, and ahead of it by as much as it was put forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return utc_now() + self.ahead

    def forward(self, daemon_rig: DaemonRig, **by: float) -> None:
        """Put it forward, and let the daemon look at it."""
        self.ahead += timedelta(**by)
        daemon_rig.daemon.agents.worker.resume()


def settings_of(home: Path, vault: Path, flags: Mapping[str, object]) -> Settings:
    """Those of a daemon of the tests; dotted ones are given with `__`."""
    usual = {"vault": str(vault), "port": 0, "bubble.quiet_s": 0.05}
    return load_settings(
        home, {}, usual | {key.replace("__", "."): value for key, value in flags.items()}
    )


@contextlib.asynccontextmanager
async def at_work(daemon: Daemon, vault: Path) -> AsyncIterator[DaemonRig]:
    """That daemon from its start to its end."""
    daemon_rig, ready = DaemonRig(daemon=daemon, vault=vault), asyncio.Event()
    daemon.watched.bus.subscribe(daemon_rig.events.append)
    async with asyncio.TaskGroup() as group:
        group.create_task(daemon.run(ready.set), name="daemon")
        await asyncio.wait_for(ready.wait(), 120)
        try:
            yield daemon_rig
        finally:
            daemon.stop()


@contextlib.asynccontextmanager
async def running_daemon(
    vault: Path,
    home: Path,
    backend: Backend | None = None,
    *,
    clock: Callable[[], datetime] = utc_now,
    choose: Callable[[Settings], BackendChoice] | None = None,
    **flags: object,
) -> AsyncIterator[DaemonRig]:
    """A daemon with that agent, the offline one if none is named."""
    usual = BackendChoice(backend=backend or OfflineBackend(), reason="for a test", model=None)
    settings = settings_of(home, vault, flags)
    daemon = Daemon(settings, home, choose(settings) if choose else usual, clock=clock)
    daemon.modules.containers.sandboxes = ProcessSandboxes()  # real ones: tests/modules/hosting
    async with at_work(daemon, vault) as daemon_rig:
        yield daemon_rig


@contextlib.asynccontextmanager
async def shared_daemon(folder: Path) -> AsyncIterator[DaemonRig]:
    """The daemon of a file's tests, with an empty vault and home below that folder."""
    vault, home = folder / "vault", folder / "home"
    vault.mkdir()
    home.mkdir(mode=0o700)
    async with running_daemon(vault, home) as daemon_rig:
        yield daemon_rig


Live = Callable[..., contextlib.AbstractAsyncContextManager[DaemonRig]]


def seeded() -> tuple[int, random.Random]:
    """A seed to be told, and the chance that it makes."""
    seed = random.randrange(1 << 32)  # noqa: S311  nothing secret
    return seed, random.Random(seed)  # noqa: S311


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
