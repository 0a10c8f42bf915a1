"""Two ends that ask each other, with no process between them."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from parachuted.errors import ModuleFailedError, NotFoundError
from parachuted.modules.hosting.framing import (
    AnswerFrame,
    AskFrame,
    EndedFrame,
    LogFrame,
    RefusalFrame,
    Unpacker,
    WireError,
)
from parachuted.modules.hosting.rpc import MOST_ASKED, RpcConnection


class RpcPair:
    """Two ends; what either says reaches the other in the loop's next round."""

    def __init__(self, group, ours, theirs, **more):
        self.said = []
        self.ours = RpcConnection(
            lambda data: self.carry(data, self.theirs), ours, group, say=self.said.append, **more
        )
        self.theirs = RpcConnection(lambda data: self.carry(data, self.ours), theirs, group)

    def carry(self, data, to):
        for frame in Unpacker().feed(data):
            asyncio.get_running_loop().call_soon(to.take, frame)


@contextlib.asynccontextmanager
async def ends(theirs, ours=None, **more):
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        yield RpcPair(group, ours or theirs, theirs, **more)


async def echo(ask: AskFrame) -> object:
    return ask.body


async def test_an_ask_is_answered():
    async with ends(echo) as both:
        assert await both.ours.ask("echo", {"a": 1}) == {"a": 1}


async def test_many_asks_are_answered_each_with_its_own():
    async def in_reverse(ask):
        await asyncio.sleep((50 - ask.body["n"]) / 10_000)
        return ask.body["n"]

    async with ends(in_reverse) as both:
        asked = [both.ours.ask("n", {"n": n}) for n in range(50)]
        assert await asyncio.gather(*asked) == list(range(50))


async def test_what_the_other_end_raises_is_raised_here():
    async def fail(_ask):
        raise NotFoundError("no such note")

    async with ends(fail) as both:
        with pytest.raises(NotFoundError, match="no such note"):
            await both.ours.ask("x", {})


async def test_an_answer_too_long_to_send_is_an_error_and_the_talk_goes_on():
    async def long(ask):
        return "x" * ask.body["n"]

    async with ends(long) as both:
        with pytest.raises(ModuleFailedError, match="more than"):
            await both.ours.ask("x", {"n": 20_000_000})
        assert await both.ours.ask("x", {"n": 2}) == "xx"


async def test_who_is_cancelled_cancels_the_work():
    ended = asyncio.Event()

    async def forever(_ask):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with ends(forever) as both:
        with pytest.raises(TimeoutError):
            await both.ours.ask("x", {}, timeout_s=0.05)
        await ended.wait()


async def test_a_waiting_caller_hears_when_the_other_end_is_gone():
    async def forever(_ask):
        await asyncio.Event().wait()

    async with ends(forever) as both:
        loop = asyncio.get_running_loop()
        loop.call_later(0.02, both.ours.end, ModuleFailedError("it died"))
        loop.call_later(0.02, both.theirs.end, ModuleFailedError("it died"))
        with pytest.raises(ModuleFailedError, match="it died"):
            await both.ours.ask("x", {})
        with pytest.raises(ModuleFailedError, match="it died"):
            await both.ours.ask("x", {})


async def test_an_ask_names_the_one_that_it_is_made_for_and_hears_when_nothing_more_is_done_for_it():  # noqa: E501
    opened, ended = [], []

    async def ask_back(ask):
        return await both.theirs.ask("of", {}, of=ask.id)

    async def tell_of(ask):
        return ask.of

    async with ends(ask_back, tell_of, ended=ended.append) as both:
        assert await both.ours.ask("x", {}, opened=opened.append) == opened[0]
        both.ours.take(EndedFrame(id=opened[0]))

    assert ended == opened


@pytest.mark.parametrize("number", [0, -1, 2, 10**12])
@pytest.mark.parametrize(
    "make",
    [
        lambda number: AnswerFrame(id=number),
        lambda number: RefusalFrame(id=number, error="x", message="x"),
        lambda number: EndedFrame(id=number),
    ],
)
async def test_an_answer_to_what_was_never_asked_breaks_the_rules(number, make):
    async with ends(echo) as both:
        await both.ours.ask("x", {})
        with pytest.raises(WireError, match="was ever asked"):
            both.ours.take(make(number))
        both.ours.take(AnswerFrame(id=1, value="late"))  # who asked waits no longer


async def test_two_asks_of_one_number_break_the_rules():
    async def forever(_ask):
        await asyncio.Event().wait()

    async with ends(forever) as both:
        both.ours.take(AskFrame(id=1, verb="x", body={}))
        with pytest.raises(WireError, match="the number 1"):
            both.ours.take(AskFrame(id=1, verb="x", body={}))
        both.ours.end(ModuleFailedError())


async def test_more_asks_than_an_honest_end_makes_break_the_rules():
    async def forever(_ask):
        await asyncio.Event().wait()

    async with ends(forever, most_served=3) as both:
        for number in range(3):
            both.ours.take(AskFrame(id=number, verb="x", body={}))
        with pytest.raises(WireError, match="more than 3"):
            both.ours.take(AskFrame(id=3, verb="x", body={}))
        both.ours.end(ModuleFailedError())


async def test_waiting_for_a_place_is_not_held_against_the_other_end():
    async def forever(_ask):
        await asyncio.Event().wait()

    async with ends(forever) as both, asyncio.TaskGroup() as group:
        waiting = [group.create_task(both.ours.ask("x", {})) for _ in range(MOST_ASKED)]
        await asyncio.sleep(0)
        with pytest.raises(ModuleFailedError, match="try again later"):
            await both.ours.ask("x", {}, timeout_s=0.02)
        for task in waiting:
            task.cancel()


async def test_a_line_for_the_log_is_passed_on():
    async with ends(echo) as both:
        both.ours.take(LogFrame(level=20, text="hello"))

    assert both.said == [LogFrame(level=20, text="hello")]
