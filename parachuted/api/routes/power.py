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
        """Does nothing: the daemon is already running."""
        return PowerResponse(status="running")

    @post("/supervisor/server/stop", "system", "admin", reach="beyond")
    async def stop(self) -> PowerResponse:
        """Stop the daemon; only its machine can start it again."""
        asyncio.get_running_loop().call_soon(self._parts.end, False)  # noqa: FBT003  whether it begins again
        return PowerResponse(status="stopping")

    @post("/supervisor/server/restart", "system", "admin", reach="beyond")
    async def restart(self) -> PowerResponse:
        """Restart the daemon with the current settings."""
        asyncio.get_running_loop().call_soon(self._parts.end, True)  # noqa: FBT003
        return PowerResponse(status="restarting")
