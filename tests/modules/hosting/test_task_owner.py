"""Ownership: each task of the loop is the daemon's or one module's. What that means for a module is
told by the tests of its host.
"""

from __future__ import annotations

import asyncio

from parachuted.access.authority import Authority
from parachuted.modules.hosting.task_owner import TaskOwner, claim_tasks, traceback_of

OWN = Authority()


async def leave(name: str) -> None:
    """Begin a task as a module's author does, which begins another."""

    async def outer() -> None:
        asyncio.get_running_loop().create_task(asyncio.sleep(60), name=f"{name} inner")
        await asyncio.sleep(60)

    asyncio.get_running_loop().create_task(outer(), name=f"{name} outer")
    await asyncio.sleep(0.01)


def alive(name: str) -> int:
    return len([task for task in asyncio.all_tasks() if task.get_name().startswith(name)])


async def test_the_tasks_of_two_modules_end_apart():
    claim_tasks(asyncio.get_running_loop())
    daily, brain = TaskOwner("daily", print), TaskOwner("brain", print)
    await daily.run(leave("daily"), 1, OWN)
    await brain.run(leave("brain"), 1, OWN)

    assert (alive("daily"), alive("brain")) == (2, 2)
    assert await daily.end() == []
    assert (alive("daily"), alive("brain")) == (0, 2)
    await brain.end()


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
