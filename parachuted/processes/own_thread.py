"""Own thread: a blocking call in a thread of its own.

The loop's pool of threads may be full of those who wait for hooks; what a hook's end depends on
must not wait for one of them to be free.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

_Result = TypeVar("_Result")


async def in_own_thread(call: Callable[[], _Result]) -> _Result:
    """Call, and wait for what it answers or raises.

    Who is cancelled meanwhile leaves it to end by itself.
    """
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
