"""Desk: a reconciler with all that it needs and a vault in memory, whose changes are handed to it
one look at a time.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from parachuted.bubbling import (
    PendingChange,
    PendingChanges,
    Reconciler,
    WatchedTexts,
    WatchRegistry,
)
from parachuted.events import Bus, Change, Event
from parachuted.state import open_state
from parachuted.tasks import Causes, Queue, QuietWindow, Task
from parachuted.vault import (
    Author,
    IndexEntry,
    ObjectStore,
    VaultIndex,
    VaultPath,
    VaultRoot,
    declared_watch,
    digest_of,
)
from tests.state.full_disk import fill_disk

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


@dataclass
class ReconcilerRig:
    """`look` takes in what people and runs did to the files of `vault`."""

    folder: Path
    is_full: Callable[[], bool] = lambda: False
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vault = self.folder / "vault"
        self.vault.mkdir(exist_ok=True)
        self.now = NOON
        self.index = VaultIndex()
        self._numbers = itertools.count(1)
        self._causes = itertools.count(1)
        self._looked: dict[str, list[PendingChange]] = {}
        self.objects = ObjectStore(self.folder / "objects")
        weakref.finalize(self, self.objects.close)
        self.open()

    def open(self) -> None:
        """As the daemon builds it at its start."""
        self.state = fill_disk(open_state(self.folder / "state.db"), self.is_full)
        self.watches = WatchRegistry(self.state, self.index, self.clock)
        self.reviews, self.causes = PendingChanges(self.state), Causes(self.state)
        self.queue = Queue(
            self.state, self.causes, QuietWindow(quiet_s=2.0, longest_s=60.0), self.watches
        )
        bus = Bus(self.clock)
        bus.subscribe(self.events.append)
        self.watched_texts = WatchedTexts(
            root=VaultRoot(self.vault), objects=self.objects, index=self.index, watches=self.watches
        )
        self.bus = bus
        self.reconciler = Reconciler(
            self.watched_texts,
            self.reviews,
            self.causes,
            self.queue,
            state=self.state,
            bus=bus,
            clock=self.clock,
        )

    def clock(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def begin_with(self, **texts: str) -> None:
        """First contact with these notes, named without their suffix, `_` for a folder."""
        changes = [self.change(path, text) for path, text in texts.items()]
        self.reconciler.baseline(changes)
        for change in changes:
            self.index.set(change.path, change.new)
            self.objects.see([(change.new.digest, change.data or b"")])

    def person(self) -> Author:
        """A person, with the cause that the next look is."""
        return Author(by="person", causes=(f"c{next(self._causes)}",))

    def change(
        self, name: str, text: str | None, *, by: Author | None = None, source: str | None = None
    ) -> Change:
        """What a look finds at a path; text None: nothing any more; `source`: where it was
        before.
        """
        path = VaultPath(_path(name))
        old = self.index.get(_path(source) if source else path)
        author = by or self.person()
        if text is None:
            (self.vault / path).unlink(missing_ok=True)
            return Change(kind="deleted", path=path, old=old, new=None, author=author)
        data = text.encode()
        (self.vault / path).parent.mkdir(parents=True, exist_ok=True)
        (self.vault / path).write_bytes(data)
        number = next(self._numbers)
        new = IndexEntry(number, number, len(data), number, digest_of(data))
        return Change(
            kind="moved" if source else "modified" if old else "created",
            path=path,
            old=old,
            new=new,
            author=author,
            source=VaultPath(_path(source)) if source else None,
            data=data,
            watch=declared_watch(data)[0],
        )

    async def look(self, *changes: Change) -> None:
        """Take changes in as the keeper does."""
        tell = await self.reconciler.record(changes)
        for change in changes:
            if change.source is not None:
                self.index.set(change.source, None)
            self.index.set(change.path, change.new)
        tell()

    async def save(
        self, name: str, text: str | None, *, by: Author | None = None, source: str | None = None
    ) -> Author:
        change = self.change(name, text, by=by, source=source)
        await self.look(change)
        return change.author

    def begin(self, watcher: str) -> Task:
        """An agent begins on the watcher's task and looks at what is open."""
        task = self.queue.queued(_path(watcher))
        assert task is not None, f"there is no task for {watcher}"
        running = self.queue.begin(task, f"r{next(self._numbers)}", task.causes)
        self._looked[running.id] = [
            self.reviews.look_at(one, self.digest(one.path))
            for one in self.reviews.of(_path(watcher))
        ]
        return running

    def finish(self, task: Task) -> None:
        for review in self._looked.pop(task.id):
            self.reviews.saw(review, self.digest(review.path), self.now)
        self.queue.finish(task)

    def writes(self, task: Task) -> Author:
        return Author(by="curator", run=task.run, causes=task.causes)

    def digest(self, path: str) -> str | None:
        entry = self.index.get(path)
        return entry.digest if entry else None

    def waiting(self) -> list[str]:
        """Whom tasks wait for, by name."""
        return sorted(_name(task.watcher) for task in self.queue.all() if task.state == "queued")

    def open_differences(self, watcher: str) -> list[str]:
        return [_name(review.path) for review in self.reviews.of(_path(watcher))]

    def reported(self, event: str) -> list[dict[str, object]]:
        return [dict(one.data) for one in self.events if one.event == event]


def watching(*patterns: str, text: str = "# W\n") -> str:
    lines = "\n".join(f'  - "{pattern}"' for pattern in patterns)
    return f"---\nwatch:\n{lines}\n---\n{text}"


def _path(name: str) -> str:
    return name if name.endswith(".md") else f"{name.replace('_', '/')}.md"


def _name(path: str) -> str:
    return path.removesuffix(".md").replace("/", "_")
