"""An interface that a module in a process of its own provides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from parachuted.access.authority import Authority
from parachuted.modules.hosting.codec import is_large, told
from parachuted.modules.hosting.running_module import CALL_LIMIT_S
from parachuted.modules.module import is_every_modules
from parachuted.modules.results import to_json


class RemoteInterface:
    """Its methods are coroutines; results are JSON whose objects have attributes."""

    def __init__(
        self,
        name: str,
        ask: Callable[[str, Mapping[str, object], float, Authority], Awaitable[object]],
        authority: Authority,
    ) -> None:
        self._name, self._ask, self._authority = name, ask, authority

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
            answer = await self._ask("interface", body, CALL_LIMIT_S, self._authority)
            return await asyncio.to_thread(told, answer) if is_large(answer) else told(answer)

        return call
