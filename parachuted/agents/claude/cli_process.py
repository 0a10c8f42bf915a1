"""One CLI and a run's exchange of messages with it, and the CLIs that wait for the next run of
their conversation.

Between two runs it has no authority: its key for the gateway leads nowhere, and it has no tool.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
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

from parachuted.agents.claude.toolbox import Toolbox
from parachuted.agents.claude.transport import AgentTransport
from parachuted.agents.job import ConversationInput, Job, PromptFile
from parachuted.errors import AgentFailedError, AgentUnavailableError

log = logging.getLogger(__name__)

_CLOSE_S = 5.0
_Answer = TypeVar("_Answer")


class CliProcess:
    """One CLI and the SDK's client of it.

    `token` is its key for the gateway. `is_used_again`: it has waited for its run, after an earlier
    one or as a spare. Its `prompt_file` goes with it.
    """

    def __init__(
        self,
        transport: AgentTransport,
        options: ClaudeAgentOptions,
        token: str = "",
        prompt_file: Path | None = None,
    ) -> None:
        self.transport, self.token, self._prompt_file = transport, token, prompt_file
        self.client = ClaudeSDKClient(options, transport)
        self.is_connected = self.is_used_again = False

    async def connect(self) -> None:
        """Start it, unless it was. Raises what the SDK raises."""
        if not self.is_connected:
            await self.client.connect()
            self.is_connected = True

    async def close(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self.client.disconnect()
        except TimeoutError:
            log.warning("the agent's process did not close in time")
        finally:
            await self.transport.close()
            if self._prompt_file is not None:
                self._prompt_file.unlink(missing_ok=True)


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


@dataclass(eq=False, slots=True, kw_only=True)
class IdleProcess:
    """A process that waits for the next run of `session`, or without one for a new session; only
    a run that would be started with the same may use it.
    """

    process: CliProcess
    toolbox: Toolbox
    session: str | None
    started_with: object
    forget: Callable[[], None]
    timer: asyncio.TimerHandle


class IdleProcesses:
    """So many at most, each for so many seconds; beyond that the one that waited longest ends.

    Besides, where `has_spare`, one for a new session.
    """

    def __init__(self, most: int, keep_s: float, *, has_spare: bool = False) -> None:
        self._most, self._keep_s, self._has_spare = most, keep_s, has_spare
        self._idle: OrderedDict[str | None, IdleProcess] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def pop(self, session: str | None, started_with: object) -> IdleProcess | None:
        """The process that waits for such a run of that session. One that waits for another kind of
        run has ended when this returns.
        """
        found = self._idle.get(session)
        if found is None:
            return None
        self._remove(found)
        if found.started_with == started_with and found.process.transport.is_ready():
            found.process.transport.allow_grace(0.0)
            return found
        if session is None:
            self._close(found.process)
        else:
            await found.process.close()  # it has the session's transcript open
        return None

    def takes(self, job: Job) -> bool:
        """Whether the process of such a run is kept."""
        return self._most > 0 and job.hold is not None and not self._is_closed

    def takes_spare(self, job: Job) -> bool:
        """Whether one is to be started for the next new session like that of the job."""
        return self._has_spare and self.takes(job) and None not in self._idle

    def put(
        self,
        process: CliProcess,
        toolbox: Toolbox,
        session: str | None,
        started_with: object,
        job: Job,
    ) -> None:
        """Keep it for the next run, and end it where the run that it served would be ended; without
        a session it is the spare one.
        """
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
        kept = [one for one in self._idle if one is not None]
        for one in kept[: max(0, len(kept) - self._most)]:
            self._end(one)

    async def close_unless_kept(self, process: CliProcess) -> None:
        """End one that was popped, unless it waits for another run."""
        if all(idle.process is not process for idle in self._idle.values()):
            await process.close()

    async def close(self) -> None:
        self._is_closed = True
        for session in [*self._idle]:
            self._end(session)
        await asyncio.gather(*self._closing)

    def _end(self, session: str | None) -> None:
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
            process.close(),
            name="the end of an idle CLI",
            context=Context(),  # not the module's whose call ends it: it would be cancelled with it
        )
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
