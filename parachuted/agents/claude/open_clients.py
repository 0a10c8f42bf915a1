"""The clients of conversations that are talked with, kept open between two turns.

Between turns a client has no authority: its key for the gateway is not valid, and it has no tool.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial

from parachuted.agents.claude.client import AgentClient
from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.job import Job

_MOST = 2  # some 190 MB each
_LEAST_MEMORY = 512 << 20
_LOOK_S = 5.0


@dataclass(eq=False, slots=True, kw_only=True)
class OpenClient:
    """A client that waits for the next turn of `session`, which has to be `started_with` the same.

    `until` is the loop's time; `forget` undoes the job's `hold`.
    """

    client: AgentClient
    toolbox: Toolbox
    session: str
    started_with: tuple[object, ...]
    until: float
    forget: Callable[[], None]


class OpenClients:
    """Two at most, each for `idle_s` seconds, and none while memory is short; the one that has
    waited longest is closed first.
    """

    def __init__(self, idle_s: float, available_memory: Callable[[], int | None]) -> None:
        self._idle_s, self._available_memory = idle_s, available_memory
        self._clients: dict[str, OpenClient] = {}  # the one that has waited longest is first
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def pop(self, job: Job, session: str) -> OpenClient | None:
        """The client that waits for such a turn. One that waits for another kind of turn has been
        closed when this returns, since it has the session's transcript open.
        """
        found = self._pop(session)
        if found is None or found.started_with == started_with(job):
            return found
        await found.client.close(is_done=True)
        return None

    def put(self, client: AgentClient, toolbox: Toolbox, session: str | None, job: Job) -> bool:
        """Keep it for the next turn, and close it where the run that it served would be ended.

        False: it is not kept.
        """
        if session is None or job.hold is None or self._is_closed:
            return False
        toolbox.stop_serving()
        client.rest()
        self._close(session)
        self._clients[session] = OpenClient(
            client=client,
            toolbox=toolbox,
            session=session,
            started_with=started_with(job),
            until=asyncio.get_running_loop().time() + self._idle_s,
            forget=job.hold(partial(self._close, session)),
        )
        self._look()
        return True

    async def close_unless_kept(self, client: AgentClient) -> None:
        if all(opened.client is not client for opened in self._clients.values()):
            await client.close()

    async def close(self) -> None:
        self._is_closed = True
        for session in [*self._clients]:
            self._close(session)
        await asyncio.gather(*self._closing)

    def _look(self) -> None:
        """Close those that are too many, or too old, or that take memory which is short."""
        loop = asyncio.get_running_loop()
        available = self._available_memory()
        is_short = available is not None and available < _LEAST_MEMORY
        for opened in [*self._clients.values()]:
            if is_short or len(self._clients) > _MOST or opened.until <= loop.time():
                self._close(opened.session)
        if self._timer is not None:
            self._timer.cancel()
        if self._clients:
            self._timer = loop.call_later(min(_LOOK_S, self._idle_s), self._look)

    def _pop(self, session: str) -> OpenClient | None:
        found = self._clients.pop(session, None)
        if found is not None:
            found.forget()
        return found

    def _close(self, session: str) -> None:
        found = self._pop(session)
        if found is None:
            return
        task = asyncio.get_running_loop().create_task(
            found.client.close(is_done=True),
            name="the end of an idle agent",
            context=Context(),  # not that of the module whose call ends it, and its tasks
        )
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def started_with(job: Job) -> tuple[object, ...]:
    """All that a client is started with, and what its run was granted: a turn that differs in any
    of it gets another client.
    """
    tools = [(tool.full_name, tool.description, tool.schema) for tool in job.tools]
    return (
        job.agent,
        job.model,
        job.system_prompt,
        json.dumps(tools, sort_keys=True),
        job.limits,
        job.grant,
        job.pool,
    )
