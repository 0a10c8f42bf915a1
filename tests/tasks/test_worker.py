"""Worker: what it begins and when, and that nothing a run does brings it down."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from parachuted.errors import AgentUnavailableError, NotFoundError, StorageFailedError
from parachuted.events import Bus, Event
from parachuted.state import JournalDisk, StateStore, open_state
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
from parachuted.vault import History
from tests.tasks.conftest import NOON, ByHand, at

DONE = RunOutcome(result="changed", reason="done")
PLENTY = RunCountLimits(runs_per_hour=100, runs_per_day=100, runs_per_cause=100)
Perform = Callable[[Task], Awaitable[RunOutcome]]


@dataclass
class Shop:
    """A worker at work, with a clock that stands until it is set."""

    state: StateStore
    history: History
    now: datetime = NOON
    order: ByHand = field(default_factory=ByHand)
    events: list[Event] = field(default_factory=list)
    started: list[Task] = field(default_factory=list)
    limits: RunCountLimits = PLENTY

    def __post_init__(self) -> None:
        self.queue = Queue(
            self.state, Causes(self.state), QuietWindow(quiet_s=2.0, longest_s=60.0), self.order
        )
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

    def told(self, event: str) -> list[dict[str, object]]:
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


@pytest.fixture
def shop(state: StateStore, tmp_path: Path) -> Shop:
    return Shop(state=state, history=History(tmp_path / "history.db"))


async def test_a_ready_task_is_done_and_told(shop: Shop):
    async with shop.open():
        task = shop.add("x")
        await shop.until(lambda: shop.told("task.finished"))

    (run,) = [started.run for started in shop.started]
    assert shop.told("task.started") == [
        {"task": task.id, "watcher": "x", "run": run, "backend": "scripted"}
    ]
    assert shop.told("task.finished") == [
        {"task": task.id, "watcher": "x", "run": run, "outcome": "changed"}
    ]
    assert shop.queue.all() == []


async def test_no_more_run_at_once_than_may(shop: Shop):
    gate = asyncio.Event()

    async def wait(task: Task) -> RunOutcome:
        await gate.wait()
        return await shop.finish(task)

    async with shop.open(wait, concurrency=2):
        for name in "abcde":
            shop.add(name, f"c-{name}")
        await shop.until(lambda: len(shop.started) == 2)
        await asyncio.sleep(0)
        assert [task.watcher for task in shop.started] == ["a", "b"]
        assert shop.worker.busy
        gate.set()
        await shop.until(lambda: not shop.queue.all())

    assert len(shop.started) == 5


async def test_a_task_that_falls_due_while_the_worker_looks_is_not_forgotten(shop: Shop):
    """A clock that goes on between any two looks at it."""
    ticks = itertools.count()
    task = shop.add("x", wait=True)
    shop.clock = lambda: task.due_at + timedelta(seconds=next(ticks) - 1)  # type: ignore[method-assign]
    async with shop.open():
        await shop.until(lambda: shop.told("task.finished"))


async def test_a_pause_lets_nothing_begin_and_outlasts_a_restart(shop: Shop):
    async with shop.open() as worker:
        worker.pause()
    async with shop.open() as worker:
        shop.add("x")
        await asyncio.sleep(0)
        assert worker.paused
        assert shop.started == []
        worker.resume()
        await shop.until(lambda: shop.told("task.finished"))
        assert not worker.paused


async def test_an_unavailable_agent_is_asked_again_for_the_same_run_after_longer_and_longer_waits(
    shop: Shop,
):
    async def refuse(task: Task) -> RunOutcome:
        if len(shop.started) < 6:
            raise AgentUnavailableError("no login")
        return await shop.finish(task)

    waits = []
    async with shop.open(refuse):
        shop.add("x")
        for number in range(1, 6):
            await shop.until(
                lambda count=number: (
                    len(shop.started) == count and shop.queue.queued("x") is not None
                )
            )
            task = shop.queue.queued("x")
            assert (task.reason, task.attempts) == ("no login", number)
            waits.append((task.due_at - shop.now).total_seconds())
            shop.now = task.due_at
            shop.worker.resume()
        await shop.until(lambda: shop.told("task.finished"))

    assert waits == [10, 60, 300, 900, 900]
    assert len({task.run for task in shop.started}) == 1


async def test_a_pause_that_the_model_asks_for_is_kept_up_to_an_hour(shop: Shop):
    pauses = [1.0, 400.0, 90_000.0, 0.0]

    async def refuse(_task: Task) -> RunOutcome:
        raise AgentUnavailableError("limited", wait_s=pauses[len(shop.started) - 1])

    waits = []
    async with shop.open(refuse):
        shop.add("x")
        for number in (1, 2, 3):
            await shop.until(
                lambda count=number: (
                    len(shop.started) == count and shop.queue.queued("x") is not None
                )
            )
            task = shop.queue.queued("x")
            waits.append((task.due_at - shop.now).total_seconds())
            shop.now = task.due_at
            shop.worker.resume()

    assert waits == [10, 400, 3600]


@pytest.mark.parametrize(
    "error",
    [NotFoundError("gone"), StorageFailedError("full"), OSError(errno.EIO, os.strerror(errno.EIO))],
)
async def test_a_task_that_cannot_be_done_is_tried_again_later(shop: Shop, error: Exception):
    async def fail(_task: Task) -> RunOutcome:
        raise error

    async with shop.open(fail):
        shop.add("x")
        await shop.until(lambda: shop.started and shop.queue.queued("x") is not None)

        assert shop.queue.queued("x").reason == str(error)


async def test_a_task_that_the_disk_does_not_let_be_put_back_is_put_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(worker_module, "_STORAGE_CHECK_S", 0.001)
    refusals = itertools.count()
    refusing = False

    def write(descriptor: int, data: bytes) -> int:
        if refusing and next(refusals) < 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data)

    shop = Shop(
        state=open_state(tmp_path / "s.journal", disk=JournalDisk(write=write)),
        history=History(tmp_path / "history.db"),
    )

    async def fail(_task: Task) -> RunOutcome:
        nonlocal refusing
        refusing = True
        raise StorageFailedError("full")

    async with shop.open(fail):
        shop.add("x")
        await shop.until(lambda: shop.started and shop.queue.queued("x") is not None)

    assert next(refusals) > 5


async def test_a_disk_that_is_full_when_a_task_would_begin_costs_no_more_than_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(worker_module, "_LOOK_AGAIN_S", 0.001)
    refusals = itertools.count()
    refusing = False

    def write(descriptor: int, data: bytes) -> int:
        if refusing and next(refusals) < 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data)

    shop = Shop(
        state=open_state(tmp_path / "s.journal", disk=JournalDisk(write=write)),
        history=History(tmp_path / "history.db"),
    )
    shop.add("x")
    refusing = True
    async with shop.open():
        await shop.until(lambda: shop.told("task.finished"))

    assert [task.watcher for task in shop.started] == ["x"]
    assert len(shop.told("task.started")) == 1


async def test_over_budget_tasks_wait_and_that_is_reported_once(shop: Shop):
    shop.limits = RunCountLimits(runs_per_hour=2, runs_per_day=100, runs_per_cause=100)
    async with shop.open(concurrency=8):
        for name in "abcd":
            shop.add(name, f"c-{name}")
        await shop.until(lambda: len(shop.told("task.finished")) == 2)
        await shop.until(lambda: all(task.reason for task in shop.queue.all()))

        assert [task.watcher for task in shop.started] == ["a", "b"]
        assert [task.reason for task in shop.queue.all()] == [
            "the budget of 2 runs per hour is used up"
        ] * 2
        assert [(one["budget"], one["limit"]) for one in shop.told("budget.exceeded")] == [
            ("runs_per_hour", 2)
        ]

        shop.now = at(3601)
        shop.worker.resume()
        await shop.until(lambda: not shop.queue.all())
        shop.add("e", "c-e")
        await shop.until(lambda: len(shop.told("budget.exceeded")) == 2)


async def test_a_budget_is_not_overrun_by_runs_that_begin_together(shop: Shop):
    gate = asyncio.Event()

    async def record_late(task: Task) -> RunOutcome:
        await gate.wait()
        return await shop.finish(task)

    shop.limits = RunCountLimits(runs_per_hour=3, runs_per_day=100, runs_per_cause=2)
    async with shop.open(record_late, concurrency=8):
        for name in "abcd":
            shop.add(name, "c1")
        await shop.until(lambda: shop.told("budget.exceeded"))
        gate.set()
        await shop.until(lambda: len(shop.told("task.finished")) == 2)

        assert len(shop.started) == 2
        assert {task.reason for task in shop.queue.all()} == {
            "the budget of 2 runs per cause is used up"
        }


async def test_a_task_over_the_budget_of_its_cause_goes_on_when_another_cause_comes(shop: Shop):
    shop.limits = RunCountLimits(runs_per_hour=100, runs_per_day=100, runs_per_cause=1)
    shop.order.edges = {"b": ["c"]}
    async with shop.open():
        for name in "abc":
            shop.add(name, "c1")
        await shop.until(lambda: len(shop.told("budget.exceeded")) == 2)
        shop.add("c", "c2")
        await shop.until(lambda: len(shop.started) == 2)

        assert [(task.watcher, task.causes) for task in shop.started] == [
            ("a", ("c1",)),
            ("c", ("c2",)),
        ]


async def test_a_run_that_is_tried_again_needs_no_room_in_the_budget(shop: Shop):
    shop.limits = RunCountLimits(runs_per_hour=1, runs_per_day=1, runs_per_cause=1)

    async def refuse_once(task: Task) -> RunOutcome:
        shop.record(task)
        if len(shop.started) == 1:
            raise AgentUnavailableError("busy")
        return await shop.finish(task)

    async with shop.open(refuse_once):
        shop.add("x")
        await shop.until(lambda: shop.started and shop.queue.queued("x") is not None)
        shop.now = at(10)
        shop.worker.resume()
        await shop.until(lambda: shop.told("task.finished"))

    assert shop.told("budget.exceeded") == []


async def test_a_worker_that_is_stopped_leaves_its_tasks_to_the_next_one(shop: Shop):
    async def go_on_for_ever(_task: Task) -> RunOutcome:
        await asyncio.Event().wait()
        return DONE

    async with shop.open(go_on_for_ever):
        shop.add("x")
        await shop.until(lambda: shop.started)

    assert [task.watcher for task in shop.queue.running()] == ["x"]


async def test_the_order_is_worked_out_before_anything_begins(shop: Shop):
    shop.add("x")
    async with shop.open():
        await shop.until(lambda: shop.started)

    assert shop.order.prepared >= 1
