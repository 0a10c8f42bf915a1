"""Own thread: a blocking call outside the pool, which may be full of threads waiting for hooks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

_Result = TypeVar("_Result")


async def in_own_thread(call: Callable[[], _Result]) -> _Result:
    """Call, and wait for its answer or error. A cancelled caller leaves it to end by itself."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Result] = loop.create_future()

    def settle(act: Callable[[], None]) -> None:
        if not answer.done():
            act()

    def run() -> None:
        try:
            act = partial(answer.set_result, call())
        except BaseException as error:  # noqa: BLE001  it is raised where it is waited for
            act = partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nothing waits
            loop.call_soon_threadsafe(settle, act)

    threading.Thread(target=run, name="own", daemon=True).start()
    return await answer
