"""Own thread: a call that needs no thread of the pool."""

from __future__ import annotations

import asyncio
import threading

import pytest

from parachuted.processes.own_thread import in_own_thread


async def test_it_answers_and_raises_what_the_call_does():
    assert await in_own_thread(lambda: threading.current_thread() is not threading.main_thread())
    with pytest.raises(ZeroDivisionError):
        await in_own_thread(lambda: 1 / 0)


async def test_it_waits_for_no_thread_of_the_pool():
    let_go = threading.Event()
    loop = asyncio.get_running_loop()
    full = [loop.run_in_executor(None, let_go.wait, 20) for _ in range(64)]
    try:
        async with asyncio.timeout(30):
            assert await in_own_thread(lambda: 7) == 7
    finally:
        let_go.set()
        await asyncio.gather(*full)


async def test_who_is_cancelled_does_not_wait_for_it():
    let_go, ended = threading.Event(), threading.Event()

    def call() -> None:
        let_go.wait(20)
        ended.set()

    waiting = asyncio.get_running_loop().create_task(in_own_thread(call))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    let_go.set()
    assert ended.wait(60)
