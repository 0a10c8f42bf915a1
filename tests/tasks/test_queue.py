"""Queue: one task a watcher, when it may begin, and what a restart finds."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from parachuted.errors import NotFoundError, StorageFailedError
from parachuted.state import StateStore
from parachuted.tasks import Causes, Queue, Task
from tests.tasks.conftest import FixedOrder, at


def add(
    queue: Queue,
    watcher: str,
    *causes: str,
    seconds: float = 0,
    wait: bool = False,
    parents: tuple[str, ...] = (),
) -> Task:
    return queue.add(watcher, causes=causes or ("c1",), parents=parents, at=at(seconds), wait=wait)[
        0
    ]


def ready(queue: Queue, seconds: float = 0) -> list[str]:
    return [task.watcher for task in queue.ready(at(seconds))]


def test_a_task_waits_for_quiet_after_a_persons_change(queue: Queue):
    add(queue, "x", wait=True)

    assert (ready(queue, 1.9), ready(queue, 2.0)) == ([], ["x"])


def test_each_further_change_begins_the_quiet_again_but_not_for_ever(queue: Queue):
    for second in range(70):
        add(queue, "x", seconds=second, wait=True)

    assert queue.all()[0].due_at == at(60)
    assert ready(queue, 60) == ["x"]


def test_a_second_change_joins_the_task_that_waits(queue: Queue):
    first, is_new = queue.add("x", causes=["c1"], parents=[], at=at(0), wait=True)
    second, is_new_again = queue.add("x", causes=["c2", "c1"], parents=["r1"], at=at(1), wait=True)

    assert (is_new, is_new_again, second.id) == (True, False, first.id)
    assert (second.causes, second.parents) == (("c1", "c2"), ("r1",))
    assert (second.first_at, second.last_at) == (at(0), at(1))


def test_a_change_during_the_work_is_a_task_of_its_own_that_waits_for_it(queue: Queue):
    running = queue.begin(add(queue, "x"), "r1", ["c1"])
    later = add(queue, "x", "c2")

    assert later.id != running.id
    assert queue.waits_for(later) == "x"
    assert ready(queue) == []
    queue.finish(running)
    assert ready(queue) == ["x"]


def test_those_downstream_wait_while_the_same_cause_is_at_work_upstream(
    queue: Queue, order: FixedOrder
):
    order.edges = {"a": ["b"], "b": ["c"]}
    for watcher in ("c", "a"):
        add(queue, watcher)

    assert ready(queue) == ["a"]
    running = queue.begin(queue.all()[0], "r1", ["c1"])
    assert queue.waits_for(queue.all()[1]) == "a"
    queue.finish(running)
    assert ready(queue) == ["c"]


def test_another_cause_upstream_is_not_waited_for_unless_at_work(queue: Queue, order: FixedOrder):
    order.edges = {"a": ["b"], "b": ["c"]}
    upper = add(queue, "a", "c1")
    add(queue, "b", "c2")
    add(queue, "c", "c3")

    assert ready(queue) == ["a", "b", "c"]
    queue.begin(upper, "r1", ["c1"])
    assert ready(queue) == ["c"]


def test_ready_tasks_are_asked_for_one_by_one(queue: Queue, order: FixedOrder):
    order.edges = {"a": ["b"]}
    add(queue, "a", "c1")
    add(queue, "b", "c2")
    started = []
    for task in queue.ready(at(0)):
        started.append(queue.begin(task, f"r{len(started)}", task.causes).watcher)

    assert started == ["a"]


def test_ties_are_settled_by_name(queue: Queue):
    for watcher in ("b", "c", "a"):
        add(queue, watcher, f"c-{watcher}")

    assert ready(queue) == ["a", "b", "c"]


def test_a_task_that_begins_keeps_its_causes_from_waking_its_watcher_again(
    queue: Queue, causes: Causes
):
    queue.begin(add(queue, "x", "c1", "c2"), "r1", ["c1"])

    assert causes.that_may_wake("x", ["c1", "c2"]) == ("c2",)


def test_a_task_put_back_keeps_its_run_and_waits(queue: Queue):
    running = queue.begin(add(queue, "x"), "r1", ["c1"])
    queue.put_back(running, due_at=at(10), reason="no agent")

    (task,) = queue.all()
    assert (task.run, task.attempts, task.state, task.reason) == ("r1", 1, "queued", "no agent")
    assert (ready(queue, 9), ready(queue, 10)) == ([], ["x"])


def test_what_comes_meanwhile_or_later_joins_the_task_that_is_put_back(queue: Queue):
    running = queue.begin(add(queue, "x"), "r1", ["c1"])
    add(queue, "x", "c2", seconds=5, parents=("r9",))
    back = queue.put_back(running, due_at=at(10), reason="no agent")

    assert queue.all() == [back]
    assert (back.run, back.causes, back.parents) == ("r1", ("c1", "c2"), ("r9",))
    task = add(queue, "x", "c3", seconds=1)
    assert (task.run, task.attempts, task.due_at, task.reason) == ("r1", 1, at(10), "no agent")


def test_a_task_is_withdrawn_unless_its_run_has_started(queue: Queue):
    task = add(queue, "x")
    assert queue.withdraw("x") == task
    assert queue.all() == []
    assert queue.withdraw("x") is None

    running = queue.begin(add(queue, "x"), "r1", ["c1"])
    assert queue.withdraw("x") is None
    queue.put_back(running, due_at=at(0), reason=None)
    assert queue.withdraw("x") is None
    assert len(queue.all()) == 1


def test_a_task_follows_its_watcher_and_joins_the_task_there(queue: Queue):
    task = add(queue, "x", "c1", parents=("r1",))
    queue.rename("x", "z")
    assert (queue.queued("x"), queue.queued("z").id) == (None, task.id)

    other = add(queue, "y", "c2")
    queue.rename("z", "y")
    (task,) = queue.all()
    assert (task.id, task.causes, task.parents) == (other.id, ("c2", "c1"), ("r1",))


def test_a_parked_task_waits_until_something_comes_for_it_and_holds_no_one(
    queue: Queue, order: FixedOrder
):
    order.edges = {"a": ["b"]}
    task = add(queue, "a")
    add(queue, "b", "c1", "c2")
    queue.set_reason(task, "no budget", until_change=True)

    assert queue.get(task.id).reason == "no budget"
    assert ready(queue) == ["b"]
    add(queue, "a", "c3")
    assert queue.get(task.id).reason is None
    assert ready(queue) == ["a"]


def test_what_a_clock_set_far_ahead_is_done_when_the_clock_is_put_right(queue: Queue):
    add(queue, "x", seconds=timedelta(days=4000).total_seconds(), wait=True)

    assert ready(queue) == ["x"]
    assert queue.next_due(at(0)) is None


def test_the_next_moment_is_that_of_the_first_task_that_is_not_due(queue: Queue):
    add(queue, "x", seconds=-5)
    add(queue, "y", seconds=1, wait=True)
    add(queue, "z", seconds=9, wait=True)

    assert queue.next_due(at(0)) == at(3)


def test_a_restart_finds_every_task_as_it_was(queue: Queue, reopened: Callable[[], Queue]):
    queue.begin(add(queue, "x", "c1"), "r1", ["c1"])
    add(queue, "y", "c2", wait=True)
    before = queue.all()

    again = reopened()

    assert again.all() == before
    assert [task.run for task in again.running()] == ["r1"]
    assert again.queued("y") == before[-1]


def test_a_task_that_is_gone_cannot_be_finished(queue: Queue):
    task = add(queue, "x")
    queue.finish(task)

    with pytest.raises(NotFoundError, match="there is no task"):
        queue.finish(task)


def test_a_batch_that_is_undone_leaves_the_queue_as_it_was(queue: Queue, state: StateStore):
    task = add(queue, "x")

    def fail() -> None:
        with state.batch():
            queue.begin(task, "r1", ["c1"])
            add(queue, "y")
            queue.rename("x", "z")
            raise StorageFailedError

    with pytest.raises(StorageFailedError):
        fail()
    assert queue.all() == [task]
    assert ready(queue) == ["x"]


def test_a_thousand_tasks_of_one_cause_are_ordered_in_one_pass(queue: Queue, state: StateStore):
    """Asked one by one, each against each, this takes half a minute."""
    with state.batch():
        for number in range(1000):
            add(queue, f"w{number:04}")
    began = time.perf_counter()
    for _ in range(20):
        task = next(queue.ready(at(0)))
        queue.finish(queue.begin(task, "r1", ["c1"]))
        assert len(list(queue.ready(at(0)))) == len(queue.all())
        add(queue, task.watcher)
    took = time.perf_counter() - began

    assert took < 20


def test_every_cause_of_every_task_and_each_change_is_reported(queue: Queue):
    reported: list[str] = []
    queue.on_change(lambda: reported.append("changed"))
    add(queue, "x", "c1", "c2")
    running = queue.begin(add(queue, "y", "c3"), "r1", ["c3"])
    assert queue.causes() == {"c1", "c2", "c3"}
    queue.finish(running)
    assert len(reported) == 4


def test_thousands_that_come_at_one_moment_are_thousands(queue: Queue, state: StateStore):
    with state.batch():
        for number in range(3000):
            add(queue, f"w{number}")

    assert len(queue.all()) == 3000
