"""Power: shows how the daemon is, stops it or restarts it, as an app's supervisor page asks.

Its own supervisor, if it has one, sees neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Literal

from typing_extensions import TypedDict

from parachuted import __version__
from parachuted.api.http.decorators import get, post
from parachuted.api.routes import polled_documents as told
from parachuted.events import Problems


class PowerResponse(TypedDict):
    """What the daemon does next."""

    status: Literal["running", "stopping", "restarting"]


class SupervisorRoutes:
    """The routes of an app's supervisor page. Where it ends, the answer goes out before the end."""

    def __init__(
        self,
        *,
        problems: Problems,
        started: datetime,
        clock: Callable[[], datetime],
        port: Callable[[], int],
        end: Callable[[bool], None],
    ) -> None:
        """`end` takes whether the daemon restarts."""
        self._problems, self._started, self._clock = problems, started, clock
        self._port, self._end = port, end

    @get("/supervisor/status", "system", "admin", reach="beyond")
    async def supervisor(self) -> told.SupervisorResponse:
        """The daemon's state, for the app's supervisor page.

        The real supervisor is systemd or launchd.
        """
        uptime = max(0, int((self._clock() - self._started).total_seconds()))
        return {
            "supervisor_uptime_seconds": uptime,
            "supervisor_version": __version__,
            "main_server_healthy": not self._problems.all(),
            "main_server_status": "running",
            "config_loaded": True,
            "main_server_uptime_seconds": uptime,
            "main_server_version": __version__,
            "main_server_port": self._port(),
        }

    @post("/supervisor/server/start", "system", "admin", reach="beyond")
    async def start(self) -> PowerResponse:
        """Does nothing: the daemon is already running."""
        return PowerResponse(status="running")

    @post("/supervisor/server/stop", "system", "admin", reach="beyond")
    async def stop(self) -> PowerResponse:
        """Stop the daemon; only its machine can start it again."""
        asyncio.get_running_loop().call_soon(self._end, False)  # noqa: FBT003  whether it restarts
        return PowerResponse(status="stopping")

    @post("/supervisor/server/restart", "system", "admin", reach="beyond")
    async def restart(self) -> PowerResponse:
        """Restart the daemon with the current settings."""
        asyncio.get_running_loop().call_soon(self._end, True)  # noqa: FBT003
        return PowerResponse(status="restarting")
