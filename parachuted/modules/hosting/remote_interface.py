"""An interface of a module on the other side of a pipe, seen from the daemon or from a module."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from parachuted.modules.hosting.codec import is_large, remote_value
from parachuted.modules.module import is_every_modules
from parachuted.modules.results import to_json


class RemoteInterface:
    """Its methods are coroutines; results are JSON whose objects have attributes."""

    def __init__(self, name: str, ask: Callable[[Mapping[str, object]], Awaitable[object]]) -> None:
        """`ask` sends a call, and returns its answer."""
        self._name, self._ask = name, ask

    def __getattr__(self, method: str) -> Callable[..., Awaitable[object]]:
        if method.startswith("_") or is_every_modules(method):
            raise AttributeError(f"{self._name} has no method {method}")

        async def call(*args: object, **kwargs: object) -> object:
            body = {
                "interface": self._name,
                "method": method,
                "args": to_json(args),
                "kwargs": to_json(kwargs),
            }
            answer = await self._ask(body)
            return (
                await asyncio.to_thread(remote_value, answer)
                if is_large(answer)
                else remote_value(answer)
            )

        return call
