"""Power: ends the daemon, or has it begin again, as an app's supervisor page asks.

Its own supervisor, if it has one, sees neither.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from aiohttp import web
from typing_extensions import TypedDict

from parachuted.api.http.answers import json_answer
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.route import ApiCall, Route


class PowerResponse(TypedDict):
    """What the daemon does next."""

    status: Literal["running", "stopping", "restarting"]


class PowerRoutes:
    """The three routes. The answer goes out before the end."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route(
                method="POST",
                path="/supervisor/server/start",
                module="system",
                capability="admin",
                reach="beyond",
                handle=self.start,
                summary="Nothing: who answers is running.",
                answers={200: PowerResponse},
            ),
            Route(
                method="POST",
                path="/supervisor/server/stop",
                module="system",
                capability="admin",
                reach="beyond",
                handle=self.stop,
                summary="End the daemon; only a person or its supervisor on its machine begins it "
                "again.",
                answers={200: PowerResponse},
            ),
            Route(
                method="POST",
                path="/supervisor/server/restart",
                module="system",
                capability="admin",
                reach="beyond",
                handle=self.restart,
                summary="End the daemon and begin it again, with the settings as they are then.",
                answers={200: PowerResponse},
            ),
        ]

    async def start(self, _call: ApiCall) -> web.Response:
        """`POST /supervisor/server/start`."""
        return json_answer(PowerResponse(status="running"))

    async def stop(self, _call: ApiCall) -> web.Response:
        """`POST /supervisor/server/stop`."""
        asyncio.get_running_loop().call_soon(self._parts.end, False)  # noqa: FBT003  whether it begins again
        return json_answer(PowerResponse(status="stopping"))

    async def restart(self, _call: ApiCall) -> web.Response:
        """`POST /supervisor/server/restart`."""
        asyncio.get_running_loop().call_soon(self._parts.end, True)  # noqa: FBT003
        return json_answer(PowerResponse(status="restarting"))
