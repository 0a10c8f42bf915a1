"""Uninterrupted: a blocking call in a thread that ends before its caller may leave."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


async def run_uninterrupted(
    call: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result:
    """Call in a thread. A caller that is cancelled leaves only when the call has ended: nothing may
    write after the store has closed.
    """
    running = asyncio.get_running_loop().run_in_executor(
        None, functools.partial(contextvars.copy_context().run, call, *args, **kwargs)
    )
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():  # it may be cancelled once more
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        running.exception()
        raise
