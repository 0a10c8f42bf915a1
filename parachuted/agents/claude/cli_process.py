"""A CLI on this machine that may serve several runs of one conversation, one after the other, and
those that wait for the next one.

Between two runs it has no authority: its key for the gateway leads nowhere, and it has no tool.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.claude.transport import AgentTransport
from parachuted.agents.job import Job

log = logging.getLogger(__name__)

_CLOSE_S = 5.0


class CliProcess:
    """One CLI and the SDK's client of it.

    `token` is its key for the gateway. `is_used_again`: an earlier run went well in it.
    """

    def __init__(
        self, transport: AgentTransport, options: ClaudeAgentOptions, token: str = ""
    ) -> None:
        self.transport, self.token = transport, token
        self.client = ClaudeSDKClient(options, transport)
        self.is_connected = self.is_used_again = False

    async def connect(self) -> None:
        """Start it, unless it was. Raises what the SDK raises."""
        if not self.is_connected:
            await self.client.connect()
            self.is_connected = True

    async def close(self) -> None:
        """End it, and all that it ever started."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self.client.disconnect()
        except TimeoutError:
            log.warning("the agent's process did not close in time")
        finally:
            await self.transport.close()


@dataclass(eq=False, slots=True, kw_only=True)
class IdleProcess:
    """A process that waits for the next run of `session`; only one that would be started with the
    same may use it.
    """

    process: CliProcess
    toolbox: Toolbox
    session: str
    started_with: object
    forget: Callable[[], None]
    timer: asyncio.TimerHandle


class IdleProcesses:
    """So many at most, each for so many seconds; beyond that the one that waited longest ends."""

    def __init__(self, most: int, keep_s: float) -> None:
        self._most, self._keep_s = most, keep_s
        self._idle: OrderedDict[str, IdleProcess] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def pop(self, session: str | None, started_with: object) -> IdleProcess | None:
        """The process that waits for such a run of that session. One that waits for another kind of
        run has ended when this returns.
        """
        found = self._idle.get(session) if session is not None else None
        if found is None:
            return None
        self._remove(found)
        if found.started_with == started_with and found.process.transport.is_ready():
            found.process.transport.allow_grace(0.0)
            return found
        await found.process.close()
        return None

    def takes(self, job: Job) -> bool:
        """Whether the process of such a run is kept."""
        return self._most > 0 and job.hold is not None

    def put(
        self, process: CliProcess, toolbox: Toolbox, session: str, started_with: object, job: Job
    ) -> None:
        """Keep it for the next run, and end it where the run that it served would be ended."""
        if job.hold is None:
            raise ValueError("nothing of this run may outlast it")
        toolbox.stop_serving()
        process.is_used_again = True
        self._end(session)
        idle = IdleProcess(
            process=process,
            toolbox=toolbox,
            session=session,
            started_with=started_with,
            forget=job.hold(partial(self._end, session)),
            timer=asyncio.get_running_loop().call_later(self._keep_s, self._end, session),
        )
        self._idle[session] = idle
        while len(self._idle) > self._most:
            self._end(next(iter(self._idle)))

    async def close(self) -> None:
        """End all, and wait for that."""
        for session in [*self._idle]:
            self._end(session)
        await asyncio.gather(*self._closing)

    def _end(self, session: str) -> None:
        idle = self._idle.get(session)
        if idle is not None:
            self._remove(idle)
            self._close(idle.process)

    def _remove(self, idle: IdleProcess) -> None:
        del self._idle[idle.session]
        idle.timer.cancel()
        idle.forget()

    def _close(self, process: CliProcess) -> None:
        task = asyncio.get_running_loop().create_task(
            process.close(), name="the end of an idle CLI"
        )
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
