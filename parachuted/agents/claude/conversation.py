"""One prompt and its answers through the SDK, within a deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from types import TracebackType
from typing import Self, TypeVar

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Message

from parachuted.agents.claude.transport import AgentTransport
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)

_CLOSE_S = 5.0
_Answer = TypeVar("_Answer")


class Conversation:
    """An async context manager: however it is left, nothing of the process is left behind.

    `deadline` is the loop's time.
    """

    def __init__(
        self, process: AgentTransport, options: ClaudeAgentOptions, deadline: float
    ) -> None:
        self._process = process
        self._client = ClaudeSDKClient(options, process)
        self._deadline = deadline

    async def __aenter__(self) -> Self:
        # A timer, since the deadline also holds while whoever reads our messages is busy with one.
        self._timer = asyncio.get_running_loop().call_at(self._deadline, self._process.kill)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._client.disconnect()
        except TimeoutError:
            log.warning("the agent's process did not close in time")
        finally:
            await self._process.close()

    async def begin(self, prompt: str) -> None:
        """Start the process and hand it the prompt; raises AgentUnavailableError."""
        try:
            await self._bound(self._client.connect())
            await self._bound(self._client.query(prompt))
        except AgentFailedError as error:
            raise AgentUnavailableError(
                f"the agent could not begin: {error.message}"
            ) from error.__cause__

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what comes back, the result last; raises AgentFailedError."""
        stream = aiter(self._client.receive_response())
        while (message := await self._bound(anext(stream, None))) is not None:
            yield message

    async def _bound(self, answer: Awaitable[_Answer]) -> _Answer:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await answer
        except Exception as error:  # the SDK also raises bare ones
            if asyncio.get_running_loop().time() >= self._deadline:
                raise AgentFailedError("the agent ran out of time and was ended") from error
            raise AgentFailedError(f"the agent's process failed: {error}") from error
