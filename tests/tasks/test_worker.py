"""Worker: what it begins and when, and that nothing a run does brings it down."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from parachuted.errors import AgentUnavailableError, NotFoundError, StorageFailedError
from parachuted.events import Bus, Event
from parachuted.state import StateStore, open_state
from parachuted.tasks import (
    Budget,
    Causes,
    Queue,
    QuietWindow,
    RunCountLimits,
    RunOutcome,
    Task,
    Worker,
)
from parachuted.tasks import worker as worker_module
from parachuted.vault import WriteJournal
from tests.state.full_disk import fill_disk
from tests.tasks.conftest import NOON, FixedOrder, at

DONE = RunOutcome(result="changed", reason="done")
PLENTY = RunCountLimits(runs_per_hour=100, runs_per_day=100, runs_per_cause=100)
Perform = Callable[[Task], Awaitable[RunOutcome]]


@dataclass
class WorkerRig:
    state: StateStore
    history: WriteJournal
    now: datetime = NOON
    order: FixedOrder = field(default_factory=FixedOrder)
    events: list[Event] = field(default_factory=list)
    started: list[Task] = field(default_factory=list)
    limits: RunCountLimits = PLENTY

    def __post_init__(self) -> None:
        self.queue = Queue(
            self.state, Causes(self.state), QuietWindow(quiet_s=2.0, longest_s=60.0), self.order
        )
        weakref.finalize(self, self.history.close)
        self.bus = Bus(self.clock)
        self.bus.subscribe(self.events.append)

    def clock(self) -> datetime:
        return self.now

    @contextlib.asynccontextmanager
    async def open(
        self, perform: Perform | None = None, *, concurrency: int = 2
    ) -> AsyncIterator[Worker]:
        budget = Budget(self.limits, self.history, self.state, self.clock)
        self.worker = Worker(
            state=self.state,
            queue=self.queue,
            budget=budget,
            bus=self.bus,
            clock=self.clock,
            perform=self._counted(perform or self.finish),
            concurrency=concurrency,
            backend="scripted",
        )
        running = asyncio.get_running_loop().create_task(self.worker.run(), name="worker")
        try:
            yield self.worker
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    async def finish(self, task: Task) -> RunOutcome:
        """As the curator does it: recorded, then done."""
        self.record(task)
        self.queue.finish(task)
        return DONE

    def record(self, task: Task) -> None:
        run = str(task.run)
        self.history.save_run(
            run,
            started=self.now,
            watcher=task.watcher,
            outcome="changed",
            causes=task.causes,
            document={"id": run},
        )

    def add(self, watcher: str, *causes: str, wait: bool = False) -> Task:
        return self.queue.add(
            watcher, causes=causes or ("c1",), parents=(), at=self.now, wait=wait
        )[0]

    def reported(self, event: str) -> list[dict[str, object]]:
        return [dict(one.data) for one in self.events if one.event == event]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.001)

    def _counted(self, perform: Perform) -> Perform:
        async def counted(task: Task) -> RunOutcome:
            self.started.append(task)
            return await perform(task)

        return counted


class FullDisk:
    """Refuses five writes once it is full."""

    is_full, refusals = False, 0

    def refuses(self) -> bool:
        if not self.is_full or self.refusals == 5:
            return False
        self.refusals += 1
        return True


@pytest.fixture
def rig(state: StateStore, tmp_path: Path) -> WorkerRig:
    return WorkerRig(state=state, history=WriteJournal(tmp_path / "history.db"))


async def test_a_ready_task_is_done_and_reported(rig: WorkerRig):
    async with rig.open():
        task = rig.add("x")
        await rig.until(lambda: rig.reported("task.finished"))

    (run,) = [started.run for started in rig.started]
    of_task = {"task": task.id, "watcher": "x", "run": run}
    assert rig.reported("task.started") == [{**of_task, "backend": "scripted"}]
    assert rig.reported("task.finished") == [{**of_task, "outcome": "changed"}]
    assert rig.queue.all() == []
    assert rig.order.prepared >= 1


async def test_no_more_run_at_once_than_may(rig: WorkerRig):
    gate = asyncio.Event()

    async def wait(task: Task) -> RunOutcome:
        await gate.wait()
        return await rig.finish(task)

    async with rig.open(wait, concurrency=2):
        for name in "abcde":
            rig.add(name, f"c-{name}")
        await rig.until(lambda: len(rig.started) == 2)
        await asyncio.sleep(0)
        assert [task.watcher for task in rig.started] == ["a", "b"]
        assert rig.worker.busy
        gate.set()
        await rig.until(lambda: not rig.queue.all())

    assert len(rig.started) == 5


async def test_a_task_that_falls_due_while_the_worker_looks_is_not_forgotten(rig: WorkerRig):
    """A clock that goes on between any two looks at it."""
    ticks = itertools.count()
    task = rig.add("x", wait=True)
    rig.clock = lambda: task.due_at + timedelta(seconds=next(ticks) - 1)  # type: ignore[method-assign]
    async with rig.open():
        await rig.until(lambda: rig.reported("task.finished"))


async def test_a_pause_lets_nothing_begin_and_outlasts_a_restart(rig: WorkerRig):
    async with rig.open() as worker:
        worker.pause()
    async with rig.open() as worker:
        rig.add("x")
        await asyncio.sleep(0)
        assert worker.paused
        assert rig.started == []
        worker.resume()
        await rig.until(lambda: rig.reported("task.finished"))
        assert not worker.paused


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        ([None] * 5, [10, 60, 300, 900, 900]),
        ([1.0, 400.0, 90_000.0], [10, 400, 3600]),  # the model asks for pauses of its own
    ],
    ids=["longer and longer", "as asked, up to an hour"],
)
async def test_an_unavailable_agent_is_asked_again_after_longer_waits(
    rig: WorkerRig, asked: list[float | None], waits: list[int]
):
    async def refuse(task: Task) -> RunOutcome:
        attempt = len(rig.started)
        if attempt > len(asked):
            return await rig.finish(task)
        raise AgentUnavailableError("no login", wait_s=asked[attempt - 1])

    found = []
    async with rig.open(refuse):
        rig.add("x")
        for number in range(1, len(asked) + 1):
            await rig.until(
                lambda count=number: len(rig.started) == count and rig.queue.queued("x") is not None
            )
            task = rig.queue.queued("x")
            assert (task.reason, task.attempts) == ("no login", number)
            found.append((task.due_at - rig.now).total_seconds())
            rig.now = task.due_at
            rig.worker.resume()
        await rig.until(lambda: rig.reported("task.finished"))

    assert found == waits
    assert len({task.run for task in rig.started}) == 1


@pytest.mark.parametrize(
    "error",
    [NotFoundError("gone"), StorageFailedError("full"), OSError(errno.EIO, os.strerror(errno.EIO))],
)
async def test_a_task_that_cannot_be_done_is_tried_again_later(rig: WorkerRig, error: Exception):
    async def fail(_task: Task) -> RunOutcome:
        raise error

    async with rig.open(fail):
        rig.add("x")
        await rig.until(lambda: rig.started and rig.queue.queued("x") is not None)

        assert rig.queue.queued("x").reason == str(error)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    for name in ("_STORAGE_CHECK_S", "_LOOK_AGAIN_S"):
        monkeypatch.setattr(worker_module, name, 0.001)
    return FullDisk()


@pytest.fixture
def on_disk(disk: FullDisk, tmp_path: Path) -> WorkerRig:
    """A worker whose state is on that disk."""
    state = fill_disk(open_state(tmp_path / "state.db"), disk.refuses)
    return WorkerRig(state=state, history=WriteJournal(tmp_path / "history.db"))


async def test_a_task_that_the_disk_does_not_let_be_put_back_is_put_back_later(
    on_disk: WorkerRig, disk: FullDisk
):
    async def fail(_task: Task) -> RunOutcome:
        disk.is_full = True
        raise StorageFailedError("full")

    async with on_disk.open(fail):
        on_disk.add("x")
        await on_disk.until(lambda: on_disk.started and on_disk.queue.queued("x") is not None)

    assert disk.refusals == 5


async def test_a_disk_that_is_full_when_a_task_would_begin_costs_a_wait(
    on_disk: WorkerRig, disk: FullDisk
):
    on_disk.add("x")
    disk.is_full = True
    async with on_disk.open():
        await on_disk.until(lambda: on_disk.reported("task.finished"))

    assert [task.watcher for task in on_disk.started] == ["x"]
    assert len(on_disk.reported("task.started")) == 1


async def test_over_budget_tasks_wait_and_that_is_reported_once(rig: WorkerRig):
    rig.limits = RunCountLimits(runs_per_hour=2, runs_per_day=100, runs_per_cause=100)
    async with rig.open(concurrency=8):
        for name in "abcd":
            rig.add(name, f"c-{name}")
        await rig.until(lambda: len(rig.reported("task.finished")) == 2)
        await rig.until(lambda: all(task.reason for task in rig.queue.all()))

        assert [task.watcher for task in rig.started] == ["a", "b"]
        assert [task.reason for task in rig.queue.all()] == [
            "the budget of 2 runs per hour is used up"
        ] * 2
        assert [(one["budget"], one["limit"]) for one in rig.reported("budget.exceeded")] == [
            ("runs_per_hour", 2)
        ]

        rig.now = at(3601)
        rig.worker.resume()
        await rig.until(lambda: not rig.queue.all())
        rig.add("e", "c-e")
        await rig.until(lambda: len(rig.reported("budget.exceeded")) == 2)


async def test_a_budget_is_not_overrun_by_runs_that_begin_together(rig: WorkerRig):
    gate = asyncio.Event()

    async def record_late(task: Task) -> RunOutcome:
        await gate.wait()
        return await rig.finish(task)

    rig.limits = RunCountLimits(runs_per_hour=3, runs_per_day=100, runs_per_cause=2)
    async with rig.open(record_late, concurrency=8):
        for name in "abcd":
            rig.add(name, "c1")
        await rig.until(lambda: rig.reported("budget.exceeded"))
        gate.set()
        await rig.until(lambda: len(rig.reported("task.finished")) == 2)

        assert len(rig.started) == 2
        assert {task.reason for task in rig.queue.all()} == {
            "the budget of 2 runs per cause is used up"
        }


async def test_a_task_over_the_budget_of_its_cause_goes_on_for_another(rig: WorkerRig):
    rig.limits = RunCountLimits(runs_per_hour=100, runs_per_day=100, runs_per_cause=1)
    rig.order.edges = {"b": ["c"]}
    async with rig.open():
        for name in "abc":
            rig.add(name, "c1")
        await rig.until(lambda: len(rig.reported("budget.exceeded")) == 2)
        rig.add("c", "c2")
        await rig.until(lambda: len(rig.started) == 2)

        assert [(task.watcher, task.causes) for task in rig.started] == [
            ("a", ("c1",)),
            ("c", ("c2",)),
        ]


async def test_a_run_that_is_tried_again_needs_no_room_in_the_budget(rig: WorkerRig):
    rig.limits = RunCountLimits(runs_per_hour=1, runs_per_day=1, runs_per_cause=1)

    async def refuse_once(task: Task) -> RunOutcome:
        rig.record(task)
        if len(rig.started) == 1:
            raise AgentUnavailableError("busy")
        return await rig.finish(task)

    async with rig.open(refuse_once):
        rig.add("x")
        await rig.until(lambda: rig.started and rig.queue.queued("x") is not None)
        rig.now = at(10)
        rig.worker.resume()
        await rig.until(lambda: rig.reported("task.finished"))

    assert rig.reported("budget.exceeded") == []


async def test_a_worker_that_is_stopped_leaves_its_tasks_to_the_next_one(rig: WorkerRig):
    async def go_on_for_ever(_task: Task) -> RunOutcome:
        await asyncio.Event().wait()
        return DONE

    async with rig.open(go_on_for_ever):
        rig.add("x")
        await rig.until(lambda: rig.started)

    assert [task.watcher for task in rig.queue.running()] == ["x"]
