"""Ownership: each task of the loop is the daemon's or one module's."""

from __future__ import annotations

import asyncio
import gc

import pytest

from parachuted.access.authority import Authority
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.task_owner import OverdueError, TaskOwner, claim_tasks, traceback_of
from tests.modules.small_modules import until

OWN = Authority()


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
async def owner(failures: list[str]) -> TaskOwner:
    claim_tasks(asyncio.get_running_loop())
    return TaskOwner("daily", failures.append, most_tasks=10)


def begin(work, name: str = "begun") -> asyncio.Task:
    """As a module's author writes it."""
    return asyncio.get_running_loop().create_task(work, name=name)


async def test_what_the_work_returns_and_raises_reaches_who_waits(owner):
    async def fail() -> None:
        raise KeyError("it")

    assert await owner.run(asyncio.sleep(0, "done"), 1, OWN) == "done"
    with pytest.raises(KeyError):
        await owner.run(fail(), 1, OWN)
    assert owner.count == 0


async def test_work_that_waits_for_nothing_is_done_within_the_turn_of_the_loop_that_asked(owner):
    turns: list[str] = []

    async def work() -> str:
        begin(asyncio.sleep(0))  # and what it begins is the owner's
        return "done"

    asyncio.get_running_loop().call_soon(turns.append, "the next")

    assert await owner.run(work(), 1, OWN) == "done"
    assert (turns, owner.count) == ([], 1)
    await until(lambda: owner.count == 0)


async def test_work_is_one_task_before_and_after_it_first_waits(owner):
    caller = asyncio.current_task()

    async def work() -> list[object]:
        seen = [asyncio.current_task()]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        return [*seen, asyncio.current_task()]

    first, second = await owner.run(work(), 5, OWN)

    assert first is second is not caller
    assert asyncio.current_task() is caller


async def test_work_that_cancels_itself_ends_itself_alone(owner):
    async def cancel() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    async def raise_it() -> None:
        raise asyncio.CancelledError

    async def cancel_and_wait() -> None:
        await cancel()
        await asyncio.sleep(60)

    for work in (cancel, raise_it, cancel_and_wait):
        with pytest.raises(ModuleFailedError, match="cancelled itself"):
            await owner.run(work(), 1, OWN)
    assert owner.count == 0
    await asyncio.sleep(0)  # the caller goes on


async def test_work_that_takes_too_long_is_cancelled(owner):
    with pytest.raises(OverdueError):
        await owner.run(asyncio.sleep(60), 0.01, OWN)

    assert owner.count == 0


async def test_tasks_of_tasks_are_the_owners_and_others_are_not(owner):
    async def outer() -> None:
        begin(inner())

    async def inner() -> None:
        begin(asyncio.sleep(60))
        await asyncio.sleep(60)

    await owner.run(outer(), 1, OWN)
    await until(lambda: owner.count == 2)
    async with asyncio.TaskGroup() as group:
        mine = group.create_task(asyncio.sleep(0.01, "mine"))

    assert await owner.end() == []
    assert (owner.count, mine.result()) == (0, "mine")


async def test_two_owners_end_apart(owner, failures):
    other = TaskOwner("brain", failures.append)

    async def leave() -> None:
        begin(asyncio.sleep(60))

    await owner.run(leave(), 1, OWN)
    await other.run(leave(), 1, OWN)

    await owner.end()

    assert (owner.count, other.count) == (0, 1)
    await other.end()


async def test_what_begins_after_the_end_does_not_go_on(owner):
    async def later() -> None:
        asyncio.get_running_loop().call_later(0.02, lambda: tasks.append(begin(asyncio.sleep(60))))

    tasks: list[asyncio.Task] = []
    await owner.run(later(), 1, OWN)
    await owner.end()

    await until(lambda: tasks and tasks[0].done())

    assert tasks[0].cancelled()
    with pytest.raises(ModuleFailedError, match="not running"):
        await owner.run(asyncio.sleep(0), 1, OWN)


async def test_what_refuses_to_end_is_named(owner):
    enough = asyncio.Event()

    async def stubborn() -> None:
        while not enough.is_set():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    async def start() -> None:
        begin(stubborn(), "the stubborn one")
        await asyncio.sleep(0)

    await owner.run(start(), 1, OWN)

    assert await owner.end() == ["the stubborn one"]
    enough.set()
    assert await owner.end() == []


async def test_a_failure_at_which_no_one_looks_is_reported_once(owner, failures):
    async def fail() -> None:
        raise ValueError("unseen")

    async def start() -> None:
        begin(fail())
        await asyncio.sleep(0.01)

    await owner.run(start(), 1, OWN)
    gc.collect()

    assert [failure.splitlines()[-1] for failure in failures] == ["ValueError: unseen"]


async def test_the_daemons_own_unseen_failures_go_where_they_went_before():
    seen: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: seen.append(context["message"]))
    claim_tasks(loop)
    claim_tasks(loop)

    loop.call_exception_handler({"message": "the daemon's"})

    assert seen == ["the daemon's"]


async def test_a_very_long_traceback_is_reported_by_its_end():
    text = traceback_of(ValueError("x" * 50_000 + "end"))

    assert len(text) < 21_000
    assert text.endswith("end")
