"""Worker: runs ready tasks, a few at a time, within the budgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from parachuted.errors import AgentUnavailableError, ParachuteError, StorageFailedError
from parachuted.events import Bus
from parachuted.state import StateStore
from parachuted.tasks.budget import Budget, ExceededLimit
from parachuted.tasks.queue import LONGEST_BACK_OFF_S, Queue, Task
from parachuted.vault import new_id

log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 30.0
_STORAGE_CHECK_S = 5.0
_BACK_OFF_S = (10.0, 60.0, 300.0, 900.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    result: Literal["changed", "unchanged", "suggested", "failed"]
    reason: str


class Worker:
    """`perform` does the work of a running task and returns once its writes are detected."""

    def __init__(
        self,
        *,
        state: StateStore,
        queue: Queue,
        budget: Budget,
        bus: Bus,
        clock: Callable[[], datetime],
        perform: Callable[[Task], Awaitable[RunOutcome]],
        concurrency: int,
        backend: str,
    ) -> None:
        self._state, self._queue, self._budget, self._bus = state, queue, budget, bus
        self._clock = clock
        self._perform, self._concurrency, self._backend = perform, concurrency, backend
        self._control = state.table("control")
        self._wake = asyncio.Event()
        self._active: dict[asyncio.Task[None], Task] = {}
        self._over: ExceededLimit | None = None
        self._stuck = False
        queue.on_change(self._wake.set)

    @property
    def paused(self) -> bool:
        return self._control.get_record("paused") is not None

    @property
    def busy(self) -> bool:
        return bool(self._active)

    def pause(self) -> None:
        """Start no new run until `resume`, also after a restart. Running ones go on."""
        self._control.put("paused", {"at": self._clock().isoformat()})

    def resume(self) -> None:
        self._control.drop("paused")
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; running agents are then cancelled too, their tasks stay queued."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                await self._queue.prepare()
                now = self._clock()
                try:
                    self._begin_ready(group, now)
                except StorageFailedError as error:
                    log.warning("no task could be started", extra={"error": str(error)})
                    self._stuck = True
                await self._rest(now)

    def _begin_ready(self, group: asyncio.TaskGroup, now: datetime) -> None:
        self._stuck = False
        if self.paused:
            return
        over = self._budget.exceeded(self._active.values())
        self._over = self._over if over is not None else None
        for task in self._queue.ready(now):
            if len(self._active) >= self._concurrency:
                break
            if task.run is not None:  # started before, and counted
                self._begin(group, task, task.run, task.causes)
            elif over is not None:
                self._queue.set_reason(task, str(over))
                self._tell_once(over, task)
            elif causes := self._budget.causes_left(task, self._active.values()):
                self._begin(group, task, new_id("r", now), causes)
                over = self._budget.exceeded(self._active.values())
            else:
                self._park(task, self._budget.cause_exceeded())

    def _begin(
        self, group: asyncio.TaskGroup, task: Task, run: str, causes: tuple[str, ...]
    ) -> None:
        with self._state.batch():
            started = self._queue.begin(task, run, causes)
            self._budget.reserve(started)
        self._bus.publish(
            "task.started", task=task.id, watcher=task.watcher, run=run, backend=self._backend
        )
        active = group.create_task(self._work(started), name=f"run {run}")
        self._active[active] = started
        active.add_done_callback(self._ended)

    def _tell_once(self, over: ExceededLimit, task: Task) -> None:
        """Report a budget over time with the first waiting task only, until there is room again."""
        self._stuck = True
        if self._over != over:
            self._over = over
            self._publish(over, task)

    def _park(self, task: Task, over: ExceededLimit) -> None:
        """A cause gets no new budget, so the task waits for another cause."""
        self._queue.set_reason(task, str(over), until_change=True)
        self._publish(over, task)

    def _publish(self, over: ExceededLimit, task: Task) -> None:
        self._bus.publish(
            "budget.exceeded",
            task=task.id,
            watcher=task.watcher,
            budget=over.budget,
            limit=over.limit,
        )

    async def _work(self, task: Task) -> None:
        try:
            outcome = await self._perform(task)
        except AgentUnavailableError as error:
            await self._try_later(task, error.message, error.wait_s or 0.0)
        except (ParachuteError, OSError) as error:
            log.warning("a task could not be done", extra={"task": task.id, "error": str(error)})
            await self._try_later(task, str(error))
        else:
            self._bus.publish(
                "task.finished",
                task=task.id,
                watcher=task.watcher,
                run=task.run,
                outcome=outcome.result,
            )

    async def _try_later(self, task: Task, reason: str, least_s: float = 0.0) -> None:
        """Put it back, for `least_s` at least; while the disk refuses that, it stays running."""
        usual_s = _BACK_OFF_S[min(task.attempts, len(_BACK_OFF_S) - 1)]
        wait = timedelta(seconds=max(usual_s, min(least_s, LONGEST_BACK_OFF_S)))
        while True:
            try:
                with self._state.batch():
                    self._queue.put_back(task, due_at=self._clock() + wait, reason=reason)
            except StorageFailedError as error:
                log.warning(
                    "a task could not be put back yet", extra={"task": task.id, "error": str(error)}
                )
                await asyncio.sleep(_STORAGE_CHECK_S)
            else:
                return

    def _ended(self, active: asyncio.Task[None]) -> None:
        self._budget.give_back(self._active.pop(active))
        self._wake.set()

    async def _rest(self, now: datetime) -> None:
        """Until a task comes, goes or falls due after `now`, or for a while if one is stuck."""
        due = self._queue.next_due(now)
        waits = [(due - self._clock()).total_seconds()] if due is not None else []
        if self._stuck:
            waits.append(_LOOK_AGAIN_S)
        loop = asyncio.get_running_loop()
        waker = loop.call_later(max(0.0, min(waits)) + 0.001, self._wake.set) if waits else None
        await self._wake.wait()
        if waker is not None:
            waker.cancel()
