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
    CLIConnectionError,
    Message,
    ResultMessage,
)

from parachuted.agents.claude.cli_process import CliProcess
from parachuted.agents.conversation import ConversationInput
from parachuted.agents.job import PromptFile
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")


class Conversation:
    """An async context manager: however it is left, nothing of the process is left behind, unless
    it is kept.

    `deadline` is the loop's time.
    """

    def __init__(self, process: CliProcess, deadline: float) -> None:
        self._process, self._client = process, process.client
        self._deadline = deadline
        self._unread: set[str] = set()
        self._is_kept = False
        self._has_begun = not process.is_used_again

    async def __aenter__(self) -> Self:
        # A timer, since the deadline also holds while the reader of our messages is busy with one.
        self._timer = asyncio.get_running_loop().call_at(
            self._deadline, self._process.transport.kill
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if not self._is_kept:
            await self._process.close()

    def keep_process(self) -> None:
        """It went well: the process stays for another run."""
        self._is_kept = True

    async def begin(self, prompt: str, files: tuple[PromptFile, ...] = ()) -> None:
        """Start the process and hand it the prompt; raises AgentUnavailableError."""
        try:
            await self._bound(self._process.connect())
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
                if self._is_of_earlier(message):
                    continue
                if not isinstance(message, ResultMessage):
                    yield message
                elif said is None or not self._goes_on(message, said):
                    yield message
                    return
        finally:
            if passing is not None:
                passing.cancel()

    def _is_of_earlier(self, message: Message) -> bool:
        """Whether a process that is used again still prints what belongs to the run before."""
        if isinstance(message, ResultMessage) or getattr(message, "subtype", "") == "init":
            self._has_begun = True
        return not self._has_begun

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
