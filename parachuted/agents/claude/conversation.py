"""One run's exchange of messages with the CLI, and what a person says meanwhile."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    Message,
    ResultMessage,
)

from parachuted.agents.claude.transport import AgentTransport
from parachuted.agents.conversation import ConversationInput
from parachuted.agents.job import PromptFile
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
        self._unread: set[str] = set()

    async def __aenter__(self) -> Self:
        # A timer, since the deadline also holds while the reader of our messages is busy with one.
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

    async def begin(self, prompt: str, files: tuple[PromptFile, ...] = ()) -> None:
        """Start the process and hand it the prompt; raises AgentUnavailableError."""
        try:
            await self._bound(self._client.connect())
            await self._bound(self._say(prompt, files))
        except AgentFailedError as error:
            raise AgentUnavailableError(
                f"the agent could not begin: {error.message}"
            ) from error.__cause__

    async def messages(self, said: ConversationInput | None = None) -> AsyncIterator[Message]:
        """Yield what comes back, the result last; raises AgentFailedError.

        What is `said` meanwhile is passed on, and the result is that of the last of it.
        """
        passing = None
        if said is not None:
            passing = asyncio.get_running_loop().create_task(
                self._pass_on(said), name="what a person says to an agent"
            )
        stream = aiter(self._client.receive_messages())
        try:
            while (message := await self._bound(anext(stream, None))) is not None:
                if not isinstance(message, ResultMessage):
                    yield message
                elif said is None or not self._goes_on(message, said):
                    yield message
                    return
        finally:
            if passing is not None:
                passing.cancel()

    def _goes_on(self, result: ResultMessage, said: ConversationInput) -> bool:
        """Whether the CLI answers something more after this; if not, nothing more is taken."""
        taken = result.user_message_uuids
        self._unread = set() if taken is None else self._unread.difference(taken)
        if not result.is_error and (self._unread or said.has_text):
            return True
        said.close()
        return False

    async def _pass_on(self, said: ConversationInput) -> None:
        while True:
            text = await said.next_text()
            try:
                await self._say(text)
            except CLIConnectionError:  # it has ended, as the reader of its messages sees too
                return

    async def _say(self, text: str, files: tuple[PromptFile, ...] = ()) -> None:
        """Hand the CLI a message of the person's, by a name that its result repeats."""
        name = str(uuid4())
        self._unread.add(name)
        message = {
            "type": "user",
            "message": {"role": "user", "content": _content(text, files)},
            "parent_tool_use_id": None,
            "uuid": name,
        }

        async def messages() -> AsyncIterator[dict[str, Any]]:
            yield message

        await self._client.query(messages())

    async def _bound(self, answer: Awaitable[_Answer]) -> _Answer:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await answer
        except Exception as error:  # the SDK also raises bare ones
            if asyncio.get_running_loop().time() >= self._deadline:
                raise AgentFailedError("the agent ran out of time and was ended") from error
            raise AgentFailedError(f"the agent's process failed: {error}") from error


def _content(text: str, files: tuple[PromptFile, ...]) -> str | list[dict[str, Any]]:
    """The message as the Messages API has it."""
    if not files:
        return text
    blocks: list[dict[str, Any]] = [
        {
            "type": "image" if file.media_type.startswith("image/") else "document",
            "source": {
                "type": "base64",
                "media_type": file.media_type,
                "data": base64.b64encode(file.data).decode(),
            },
        }
        for file in files
    ]
    return [*blocks, {"type": "text", "text": text}]
