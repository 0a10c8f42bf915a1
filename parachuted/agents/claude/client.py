"""One Claude Code and the SDK's client of it, which can be ended at any time."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextvars import Context
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

from parachuted.agents.job import ConversationInput, PromptFile
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)

_CLOSE_S = 12.0  # the SDK ends its process after 5, and kills it after 10
_LOOK_S = 0.1
_Answer = TypeVar("_Answer")


class AgentClient:
    """From `begin` to `rest` it serves one run, and after a `rest` another one; `close` it in any
    case.

    `end` ends the process, or the container, with all that it ever started. `token` is its key for
    the gateway; its `prompt_file` is removed with it.
    """

    def __init__(
        self,
        options: ClaudeAgentOptions,
        end: Callable[[], Awaitable[None]],
        *,
        transport: Transport | None = None,
        token: str = "",
        prompt_file: Path | None = None,
    ) -> None:
        self.end, self.token, self._prompt_file = end, token, prompt_file
        self.is_reused = False
        self._sdk = ClaudeSDKClient(options, transport)
        self._is_connected = False
        self._is_of_this_run = True
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._unread: set[str] = set()

    async def begin(self, prompt: str, files: tuple[PromptFile, ...], deadline: float) -> None:
        """Start it, where it does not run yet, and hand it the prompt.

        `deadline` is the loop's time. Raises AgentUnavailableError.
        """
        self._deadline = deadline
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
        """Yield what comes back, without end, and pass on what is `said` meanwhile; raises
        AgentFailedError.
        """
        passing = None
        if said is not None:
            passing = asyncio.get_running_loop().create_task(
                self._pass_on(said), name="what a person says to an agent"
            )
        stream = aiter(self._sdk.receive_messages())
        try:
            while (message := await self._in_time(anext(stream, None))) is not None:
                if isinstance(message, ResultMessage) or getattr(message, "subtype", "") == "init":
                    self._is_of_this_run = True
                if self._is_of_this_run:
                    yield message
            raise AgentFailedError(
                "the agent's process failed: it ended in the middle of its work"
            ) from CLIConnectionError("the agent has ended")
        finally:
            if passing is not None:
                passing.cancel()

    def goes_on(self, result: ResultMessage, said: ConversationInput | None) -> bool:
        """Whether more answers follow this one; if not, nothing more is taken of what is `said`."""
        if said is None:
            return False
        taken = result.user_message_uuids
        self._unread = set() if taken is None else self._unread.difference(taken)
        if not result.is_error and (self._unread or said.has_text):
            return True
        said.close()
        return False

    def rest(self) -> None:
        """The run is over, and the client is kept for another one."""
        self._stop_timer()
        self.is_reused, self._is_of_this_run = True, False

    async def close(self, *, is_done: bool = False) -> None:
        """Leave nothing of it. Where the run `is_done`, it may first write down its session."""
        self._stop_timer()
        try:
            if not is_done:
                await self.end()
            async with asyncio.timeout(_CLOSE_S):
                await self._sdk.disconnect()
        except TimeoutError:
            log.warning("the agent's process did not close in time")
        finally:
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
                await asyncio.wait([connecting], timeout=_LOOK_S)
            raise

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end_soon(self) -> None:
        async def end() -> None:
            await self.end()

        self._ending = asyncio.get_running_loop().create_task(
            end(),
            name="the end of an agent that ran out of time",
            context=Context(),  # it goes on when the module that began the run has ended
        )

    async def _pass_on(self, said: ConversationInput) -> None:
        while True:
            text = await said.next_text()
            try:
                await self._say(text)
            except CLIConnectionError:  # it has ended, as the reader of its messages sees too
                return

    async def _say(self, text: str, files: tuple[PromptFile, ...] = ()) -> None:
        """Hand it a message of the person's, by an id that its result repeats."""
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
