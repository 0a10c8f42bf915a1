"""The parts of the change detector on a real vault, with a watcher that is moved by hand."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.events import Bus, Change, ChangeListeners, Problems, load_ignore
from parachuted.events.change_detector import ChangeDetector
from parachuted.events.changes import ChangeCommitter
from parachuted.events.disk_scan import DiskScan
from parachuted.events.watcher import ChangeHints, DebounceTimes
from parachuted.vault import IndexSnapshot, Scanner, VaultIndex, VaultRoot, WriteJournal


@dataclass
class ManualWatcher:
    """Tells what the test tells it to; `at_poll` happens while a turn looks.

    `refusal`: what it answers to each folder.
    """

    tell: Callable[[ChangeHints], None] = lambda _hints: None
    at_poll: list[Callable[[], None]] = field(default_factory=list)
    refusal: OSError | None = None
    entered: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def start(self, tell: Callable[[ChangeHints], None]) -> None:
        self.tell = tell

    def enter(self, folder: str) -> None:
        self.entered.append(folder)
        if self.refusal is not None:
            raise self.refusal

    def leave(self, folder: str) -> None:
        self.left.append(folder)

    def poll(self) -> None:
        while self.at_poll:
            self.at_poll.pop()()

    def close(self) -> None:
        pass


@dataclass
class EventsRig:
    """The events room of one vault. `steps`: what the listeners were asked for, in order."""

    vault: Path
    home: Path
    watcher: ManualWatcher
    bus: Bus = field(default_factory=lambda: Bus(lambda: datetime.now(UTC)))
    index: VaultIndex = field(default_factory=VaultIndex)
    changes: list[Change] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    refusal: Exception | None = None

    def __post_init__(self) -> None:
        self.root = VaultRoot(self.vault)
        self.snapshot = IndexSnapshot(self.home)
        self.history = WriteJournal(self.home / "history.db")
        weakref.finalize(self, self.history.close)
        self.problems = Problems(self.bus)
        self.committer = ChangeCommitter(
            self.index, self.snapshot, self.history, self.listeners, lambda: datetime.now(UTC)
        )
        self.disk_scan = DiskScan(
            self.root, Scanner(self.root, self.index, load_ignore(self.root)), self.watcher
        )

    async def listeners(self) -> ChangeListeners:
        return ChangeListeners(record=self.record, tell=self.tell)

    async def record(self, changes: list[Change]) -> Callable[[], None]:
        if self.refusal is not None:
            raise self.refusal
        self.steps.append(f"record {len(changes)}, {len(self.index)} known")
        return lambda: self.steps.append("tell what follows")

    def tell(self, changes: Sequence[Change]) -> None:
        self.steps += [f"tell {change.path}" for change in changes]
        self.changes += changes

    def reported(self) -> list[tuple[str, str]]:
        return [(change.kind, change.path) for change in self.changes]

    def moves(self) -> list[tuple[str | None, str]]:
        """From where to where; nothing else may have been reported."""
        assert {change.kind for change in self.changes} <= {"moved"}
        return [(change.source, change.path) for change in self.changes]

    @contextlib.asynccontextmanager
    async def detector(self, **pace: float) -> AsyncIterator[ChangeDetector]:
        """A change detector at work, after its first scan, which is not in `changes`."""
        detector = ChangeDetector(
            disk_scan=self.disk_scan,
            committer=self.committer,
            watcher=self.watcher,
            problems=self.problems,
            full_every_s=600,
            pace=DebounceTimes(**{"heartbeat": 0.05, **pace}),
        )
        await detector.first_scan()
        self.changes.clear()
        self.steps.clear()
        work = asyncio.get_running_loop().create_task(detector.run(), name="noticer")
        yield detector
        work.cancel()
        await asyncio.wait([work])
        assert work.cancelled(), work.exception()
        await detector.close()

    def hear(self, *folders: str, missed: bool = False, **paths: str) -> None:
        """Let the watcher tell; names are given with `__` for the dot before `md`."""
        self.watcher.tell(
            ChangeHints(
                paths={path.replace("__", "."): heard for path, heard in paths.items()},
                folders=set(folders),
                missed=missed,
            )
        )

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, (self.reported(), self.problems.open)
            await asyncio.sleep(0.002)


@pytest.fixture
def rig(vault: Path, home: Path):
    made = EventsRig(vault=vault, home=home, watcher=ManualWatcher())
    yield made
    made.history.close()


_TREE = "it watches the whole tree, and no folder is entered or left"
INOTIFY_ALONE = {
    "test_touching_and_reading_are_not_heard": "it reports what befell a file's metadata too",
    "test_a_folder_that_was_left_is_not_heard": _TREE,
    "test_a_folder_that_is_removed_leaves_nothing_behind": _TREE,
    "test_a_renamed_folder_is_heard_under_its_new_name_once_it_is_entered": _TREE,
    "test_a_folder_in_anothers_place_is_heard_and_the_other_is_not": (
        "it misses what is written at once into a new folder, which the detector walks"
    ),
    "test_names_that_are_no_utf8_are_heard": "it fails, begins again, and all is looked at",
    "test_a_long_queue_is_reported_in_pieces": "it reports all that there is at once",
    "test_a_queue_that_overflowed_is_heard": "it swallows that, and the next full scan finds all",
    "test_when_events_stop_coming_that_is_said_and_walks_find_changes": (
        "its queue cannot be replaced by an empty one"
    ),
    "test_where_the_system_does_not_watch_it_wakes_after_the_shortest_time": _TREE,
}
"""The tests that do not run with watchfiles, and what it does instead."""


@pytest.fixture(params=["auto", "watchfiles"])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine that can be chosen; on Linux `auto` is inotify."""
    if request.param == "auto" and sys.platform != "linux":
        pytest.skip("inotify is Linux's")
    if request.param == "watchfiles" and request.function.__name__ in INOTIFY_ALONE:
        pytest.skip(INOTIFY_ALONE[request.function.__name__])
    return str(request.param)
