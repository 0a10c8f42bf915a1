from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from parachuted.agents.active_runs import ActiveRun, ActiveRuns
from parachuted.errors import AgentFailedError, AgentStoppedError

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def working(run: str, **more: object) -> ActiveRun:
    return ActiveRun(run=run, agent="a", entry="cli", since=NOON, **more)


async def endless() -> str:
    await asyncio.Event().wait()
    return "never"


async def test_work_answers_and_raises_as_if_no_one_held_it():
    async def answers() -> str:
        assert [one.run for one in at_work.all()] == ["r-1"]
        return "done"

    async def fails() -> str:
        raise AgentFailedError("it broke")

    at_work = ActiveRuns()
    assert await at_work.perform(working("r-1"), answers()) == "done"
    with pytest.raises(AgentFailedError, match="it broke"):
        await at_work.perform(working("r-2"), fails())
    assert at_work.all() == []


async def test_a_caller_that_is_cancelled_twice_still_waits_for_the_end():
    at_work, left = ActiveRuns(), []
    may_end = asyncio.Event()

    async def work() -> None:
        try:
            await endless()
        finally:
            await may_end.wait()
            left.append("work")

    performed = at_work.perform(working("r-1"), work())
    caller = asyncio.get_running_loop().create_task(performed, name="caller")
    for _ in range(2):
        for _step in range(5):
            await asyncio.sleep(0)
        caller.cancel()
    for _step in range(5):
        await asyncio.sleep(0)
    assert ([one.run for one in at_work.all()], caller.done()) == (["r-1"], False)
    may_end.set()
    await asyncio.wait([caller])
    assert (left, at_work.all(), caller.cancelled()) == (["work"], [], True)


async def test_ending_a_run_ends_its_work_and_tells_who_waits_why():
    at_work, cleaned = ActiveRuns(), []

    async def work() -> str:
        cleaned.append("began")
        try:
            return await endless()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    async with asyncio.TaskGroup() as group:
        waits = group.create_task(outcome(at_work.perform(working("r-1"), work())))
        other = group.create_task(outcome(at_work.perform(working("r-2", module="bot"), endless())))
        while len(at_work.all()) < 2 or not cleaned:
            await asyncio.sleep(0)
        assert await at_work.stop("you said so", lambda one: one.module is None) == ("r-1",)
        assert (await waits, cleaned) == ("you said so", ["began", "up"])
        assert [one.run for one in at_work.all()] == ["r-2"]
        assert await at_work.stop("all of them") == ("r-2",)
        assert await other == "all of them"


async def test_a_run_whose_caller_may_ask_no_more_ends_and_others_go_on():
    at_work, allowed = ActiveRuns(), {"phone"}
    phones = working("r-1", may_go_on=lambda: "phone" in allowed)
    async with asyncio.TaskGroup() as group:
        mine = group.create_task(outcome(at_work.perform(phones, endless())))
        other = group.create_task(outcome(at_work.perform(working("r-2"), endless())))
        await asyncio.sleep(0)
        at_work.recheck()
        await asyncio.sleep(0)
        assert not mine.done()
        allowed.clear()
        at_work.recheck()
        assert "may do so no longer" in await mine
        assert [one.run for one in at_work.all()] == ["r-2"]
        await at_work.stop("the end")
        await other


async def test_work_ends_with_who_waits_for_it_or_fails_if_cancelled_from_within():
    async def cancels() -> str:
        raise asyncio.CancelledError

    at_work = ActiveRuns()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(at_work.perform(working("r-1"), endless()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()
    assert at_work.all() == []
    with pytest.raises(AgentFailedError, match="from within"):
        await at_work.perform(working("r-2"), cancels())


async def test_a_run_that_is_ended_before_it_began_is_ended():
    at_work = ActiveRuns()
    async with asyncio.TaskGroup() as group:
        waits = group.create_task(outcome(at_work.perform(working("r-1"), endless())))
        while not at_work.all():
            await asyncio.sleep(0)
        at_work.end("at once")
        at_work.end("twice")
        assert await waits == "at once"


async def outcome(held) -> str:
    try:
        return str(await held)
    except AgentStoppedError as error:
        return error.message


async def test_what_is_ended_while_a_run_is_put_together_does_not_begin():
    at_work, began = ActiveRuns(), []

    async def work() -> str:
        began.append("it did")
        return "done"

    async def performed(run: str, since: int, **more: object) -> str:
        return await outcome(at_work.perform(working(run, **more), work(), since=since))

    asked = at_work.moment
    at_work.end("you said so", lambda one: one.module == "bot")
    assert await performed("r-1", asked, module="bot") == "you said so"
    assert began == []
    assert await performed("r-2", asked) == "done"
    assert await performed("r-3", at_work.moment, module="bot") == "done"
    assert "no longer" in await performed("r-4", at_work.moment, may_go_on=lambda: False)
    for _ in range(200):
        at_work.end("others", lambda _one: False)
    assert "while it began" in await performed("r-5", asked)
