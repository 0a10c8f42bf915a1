"""Client: one Claude Code and the SDK's client of it, kept open between turns of a conversation.

Between turns it has no authority: its key for the gateway is not valid, and it has no tool.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    Message,
    ResultMessage,
    Transport,
)

from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.job import ConversationInput, Job, PromptFile
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)
# It logs as fatal that a process has ended, also one that we end; to us the same error is raised.
logging.getLogger("claude_agent_sdk._internal.query").addFilter(
    lambda record: not record.getMessage().startswith("Fatal error in message reader")
)

_CLOSE_S = 12.0  # the SDK ends its process after 5, and kills it after 10
_CONNECTING_LOOK_S = 0.1
_MOST_OPEN = 2  # some 190 MB each
_LEAST_MEMORY = 512 << 20
_OPEN_LOOK_S = 5.0
_Answer = TypeVar("_Answer")


class AgentClient:
    """From `begin` to `rest` it serves one run, and then perhaps another; `close` it in any case.

    `end` ends the process, or the container, with all that it ever started. `session` is the id
    where we choose it. `is_done`: the last answer of its run was read; `is_reused`: it has served
    one before; `is_kept`: it waits for another run until `kept_until`, of a job as the one that it
    was `started_with`; `forget` undoes what that job held.
    """

    def __init__(
        self,
        options: ClaudeAgentOptions,
        toolbox: Toolbox,
        end: Callable[[], Coroutine[None, None, None]],
        *,
        transport: Transport | None = None,
        session: str | None = None,
        token: str = "",
        prompt_file: Path | None = None,
    ) -> None:
        self.toolbox, self.end, self.session, self.token = toolbox, end, session, token
        self.is_done = self.is_kept = self.is_reused = self._is_connected = False
        self.started_with: tuple[object, ...] = ()
        self.kept_until, self.forget = 0.0, _nothing
        self._has_container = transport is not None
        self._prompt_file = prompt_file
        self._sdk = ClaudeSDKClient(options, transport)
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._unread: set[str] = set()

    async def begin(self, prompt: str, files: tuple[PromptFile, ...], deadline: float) -> None:
        """`deadline` is the loop's time. Raises AgentUnavailableError."""
        self._deadline, self.is_done, self.is_reused = deadline, False, self._is_connected
        # a timer, since the deadline also holds while the reader of our messages is busy with one
        self._timer = asyncio.get_running_loop().call_at(deadline, self._end_soon)
        try:
            if not self._is_connected:
                await self._in_time(self._connect())
                self._is_connected = True
            await self._in_time(self._say(prompt, files))
        except AgentFailedError as error:
            raise AgentUnavailableError(
                f"the agent could not begin: {error.message}"
            ) from error.__cause__

    async def messages(self, said: ConversationInput | None) -> AsyncGenerator[Message, None]:
        """Until the last answer; what is `said` is passed on. Raises AgentFailedError."""
        passing, is_of_this_run = None, not self.is_reused
        if said is not None:
            passing = asyncio.get_running_loop().create_task(
                self._pass_on(said), name="what a person says to an agent"
            )
        stream = aiter(self._sdk.receive_messages())
        try:
            while (message := await self._in_time(anext(stream, None))) is not None:
                is_of_this_run |= getattr(message, "subtype", "") == "init"
                if isinstance(message, ResultMessage):
                    self.is_done = not self._goes_on(message, said)
                    if self.is_done:
                        yield message
                        return
                elif is_of_this_run:
                    yield message
            raise AgentFailedError(
                "the agent's process failed: it ended in the middle of its work"
            ) from CLIConnectionError("the agent has ended")
        finally:
            if passing is not None:
                passing.cancel()

    def _goes_on(self, result: ResultMessage, conversation_input: ConversationInput | None) -> bool:
        """Whether more answers follow; if not, nothing more is taken of what is `said`."""
        if conversation_input is None:
            return False
        taken = result.user_message_uuids
        self._unread = set() if taken is None else self._unread.difference(taken)
        if not result.is_error and (self._unread or conversation_input.has_text):
            return True
        conversation_input.close()
        return False

    def rest(self) -> None:
        self._stop_timer()
        self.toolbox.stop_serving()
        self.is_kept = True

    async def close_unless_kept(self) -> None:
        if not self.is_kept:
            await self.close()

    async def close(self) -> None:
        """Leave nothing of it. Where its run was done, it may first write down its session."""
        self._stop_timer()
        try:
            if not self.is_done:
                await self.end()
            async with asyncio.timeout(_CLOSE_S):
                await self._sdk.disconnect()
        except TimeoutError:
            log.warning("the agent's process did not close in time")
        finally:
            if not self._has_container:  # whose files are read yet
                await self.end()
            if self._ending is not None:
                await self._ending
            if self._prompt_file is not None:
                self._prompt_file.unlink(missing_ok=True)

    async def _connect(self) -> None:
        connecting = asyncio.get_running_loop().create_task(
            self._sdk.connect(), name="the start of an agent"
        )
        try:
            await asyncio.shield(connecting)
        except BaseException:
            connecting.cancel()
            while not connecting.done():  # the SDK waits for seconds, unless its process is gone
                await self.end()
                await asyncio.wait([connecting], timeout=_CONNECTING_LOOK_S)
            raise

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end_soon(self) -> None:
        self._ending = asyncio.get_running_loop().create_task(
            self.end(),
            name="the end of an agent that ran out of time",
            context=Context(),  # it goes on when the module that began the run has ended
        )

    async def _pass_on(self, conversation_input: ConversationInput) -> None:
        while True:
            text = await conversation_input.next_text()
            try:
                await self._say(text)
            except CLIConnectionError:  # it has ended, as the reader of its messages sees too
                return

    async def _say(self, text: str, files: tuple[PromptFile, ...] = ()) -> None:
        """By an id that its result repeats."""
        message_id = str(uuid4())
        self._unread.add(message_id)
        message = {
            "type": "user",
            "message": {"role": "user", "content": _content(text, files)},
            "parent_tool_use_id": None,
            "uuid": message_id,
        }

        async def messages() -> AsyncIterator[dict[str, Any]]:
            yield message

        await self._sdk.query(messages())

    async def _in_time(self, answer: Awaitable[_Answer]) -> _Answer:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await answer
        except Exception as error:  # the SDK also raises bare ones
            if asyncio.get_running_loop().time() >= self._deadline:
                raise AgentFailedError("the agent ran out of time and was ended") from error
            raise AgentFailedError(f"the agent's process failed: {error}") from error


def _content(text: str, files: tuple[PromptFile, ...]) -> str | list[dict[str, Any]]:
    if not files:
        return text
    blocks: list[dict[str, Any]] = []
    for file in files:
        data = base64.b64encode(file.data).decode()
        blocks.append(
            {
                "type": "image" if file.media_type.startswith("image/") else "document",
                "source": {"type": "base64", "media_type": file.media_type, "data": data},
            }
        )
    return [*blocks, {"type": "text", "text": text}]


def _nothing() -> None: ...


class OpenClients:
    """Two at most, each for `idle_s` seconds, and none while memory is short."""

    def __init__(self, idle_s: float, available_memory: Callable[[], int | None]) -> None:
        self._idle_s, self._available_memory = idle_s, available_memory
        self._clients: dict[str, AgentClient] = {}  # the one that has waited longest is first
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def pop(self, job: Job, session: str) -> AgentClient | None:
        """One that waits for another kind of turn is closed: it has the transcript open."""
        client = self._pop(session)
        if client is None:
            return None
        if client.started_with != _started_with(job):
            await client.close()
            return None
        client.is_kept = False
        return client

    def put(self, client: AgentClient, session: str | None, job: Job) -> None:
        """Keep it for the next turn, if it can be."""
        if session is None or job.hold is None or self._is_closed:
            return
        self._close(session)
        client.rest()
        client.started_with = _started_with(job)
        client.kept_until = asyncio.get_running_loop().time() + self._idle_s
        client.forget = job.hold(partial(self._close, session))
        self._clients[session] = client
        self._look()

    async def close(self) -> None:
        self._is_closed = True
        for session in [*self._clients]:
            self._close(session)
        await asyncio.gather(*self._closing)

    def _look(self) -> None:
        loop, available = asyncio.get_running_loop(), self._available_memory()
        is_short = available is not None and available < _LEAST_MEMORY
        for session, client in [*self._clients.items()]:
            if is_short or len(self._clients) > _MOST_OPEN or client.kept_until <= loop.time():
                self._close(session)
        if self._timer is not None:
            self._timer.cancel()
        if self._clients:
            self._timer = loop.call_later(min(_OPEN_LOOK_S, self._idle_s), self._look)

    def _pop(self, session: str) -> AgentClient | None:
        client = self._clients.pop(session, None)
        if client is not None:
            client.forget()
        return client

    def _close(self, session: str) -> None:
        client = self._pop(session)
        if client is None:
            return
        task = asyncio.get_running_loop().create_task(
            client.close(),
            name="the end of an idle agent",
            context=Context(),  # not that of the module whose call ends it, and its tasks
        )
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _started_with(job: Job) -> tuple[object, ...]:
    """A turn that differs in any of it gets another client."""
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
