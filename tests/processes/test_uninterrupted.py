"""Uninterrupted: who is cancelled waits until the call in its thread has ended."""

from __future__ import annotations

import asyncio
import threading

import pytest

from parachuted.processes.uninterrupted import run_uninterrupted


async def test_the_answer_and_the_error_of_the_call_reach_who_waits():
    assert await run_uninterrupted(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run_uninterrupted(divmod, 7, 0)


async def test_a_caller_that_is_cancelled_goes_only_when_the_call_has_ended():
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        assert may_end.wait(60)
        ended.set()

    caller = asyncio.get_running_loop().create_task(run_uninterrupted(call))
    await asyncio.to_thread(began.wait, 10)
    for _ in range(2):
        caller.cancel()
        await asyncio.wait([caller], timeout=0.05)
        assert not caller.done()

    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()
