"""Power: ends the daemon, or has it begin again, as an app's supervisor page asks.

Its own supervisor, if it has one, sees neither.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from typing_extensions import TypedDict

from parachuted.api.http.decorators import post
from parachuted.api.http.parts import ApiParts


class PowerResponse(TypedDict):
    """What the daemon does next."""

    status: Literal["running", "stopping", "restarting"]


class PowerRoutes:
    """The three routes. The answer goes out before the end."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts

    @post("/supervisor/server/start", "system", "admin", reach="beyond")
    async def start(self) -> PowerResponse:
        """Nothing: who answers is running."""
        return PowerResponse(status="running")

    @post("/supervisor/server/stop", "system", "admin", reach="beyond")
    async def stop(self) -> PowerResponse:
        """End the daemon; only a person or its supervisor on its machine begins it again."""
        asyncio.get_running_loop().call_soon(self._parts.end, False)  # noqa: FBT003  whether it begins again
        return PowerResponse(status="stopping")

    @post("/supervisor/server/restart", "system", "admin", reach="beyond")
    async def restart(self) -> PowerResponse:
        """End the daemon and begin it again, with the settings as they are then."""
        asyncio.get_running_loop().call_soon(self._parts.end, True)  # noqa: FBT003
        return PowerResponse(status="restarting")
