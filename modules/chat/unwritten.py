"""Messages that are kept and do not stand in their files yet.

What a file refuses (a hook, a permission, the disk, a file that has to be mended first) waits here
and in the log, and is tried again when the file changes, with the next message of its session, and
at the next start. It is dropped only when its session is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.modules import Finding, Module

from .append_log import AppendLog, LoggedMessage
from .messages import Message
from .session_files import SessionFiles
from .session_writer import SessionWriter


@dataclass(slots=True)
class _Waiting:
    messages: list[LoggedMessage] = field(default_factory=list)
    error: ParachuteError | None = None


class UnwrittenMessages:
    """By session. `write` and `drop` are called inside the session's lock."""

    def __init__(
        self, module: Module, files: SessionFiles, writer: SessionWriter, log: AppendLog
    ) -> None:
        self._module, self._files, self._writer, self._log = module, files, writer, log
        self._waiting: dict[str, _Waiting] = {}

    async def load(self) -> None:
        """Write what the log has; what is refused stays there."""
        for session_id, messages in (await asyncio.to_thread(self._log.load)).items():
            async with self._files.lock(session_id):
                await self.write(session_id, messages)
                waiting = self._waiting.get(session_id)
                if waiting is not None and isinstance(waiting.error, NotFoundError):
                    self._module.log.info("a message's session is gone", extra={"id": session_id})
                    await self.drop(session_id)

    async def retry(self, session_id: str) -> None:
        """Try again what waits for a session."""
        async with self._files.lock(session_id):
            if session_id in self._waiting:
                await self.write(session_id, ())

    async def write(self, session_id: str, messages: Sequence[LoggedMessage]) -> None:
        """Put messages into the file, after those that waited. Those that are refused wait."""
        waiting = self._waiting.setdefault(session_id, _Waiting())
        waiting.messages += messages
        try:
            await self._writer.append(
                session_id,
                [one.message for one in waiting.messages],
                origin=self._strangers(waiting.messages),
            )
        except ParachuteError as error:
            waiting.error = error
            self._module.log.warning(
                "messages wait for their file", extra={"id": session_id, "why": error.message}
            )
            return
        await self.drop(session_id)

    async def drop(self, session_id: str, only: Message | None = None) -> None:
        """Forget what waits for a session, or one message of it."""
        waiting = self._waiting.get(session_id)
        if waiting is None:
            return
        messages = [one.message for one in waiting.messages]
        if only is not None:
            waiting.messages = [one for one in waiting.messages if one.message is not only]
        if only is None or not waiting.messages:
            del self._waiting[session_id]
        await self._log.done(session_id, messages if only is None else [only])

    def error_of(self, session_id: str, message: Message) -> ParachuteError | None:
        """Why that message waits; None: it does not."""
        waiting = self._waiting.get(session_id)
        if waiting is None or all(one.message is not message for one in waiting.messages):
            return None
        return waiting.error

    def last(self, session_id: str) -> Message | None:
        """The last message that waits for a session."""
        waiting = self._waiting.get(session_id)
        return waiting.messages[-1].message if waiting and waiting.messages else None

    def findings(self, paths: Mapping[str, Iterable[str]]) -> list[Finding]:
        """What waits, of the sessions that have these files."""
        return [
            Finding(
                problem=f"{_count(waiting.messages)} not in this file: "
                f"{waiting.error.message if waiting.error else 'they are being written'}",
                path=path,
                advice="they are kept; mend the file, or allow Chat to write it, and they are "
                "written when the file changes, with the next message of the conversation, or when "
                "the daemon starts",
            )
            for session_id, waiting in self._waiting.items()
            for path in paths.get(session_id, ())
        ]

    def sessions(self) -> list[str]:
        """The ids of sessions for which messages wait."""
        return list(self._waiting)

    def _strangers(self, messages: Iterable[LoggedMessage]) -> str | None:
        """The origin to mark the file with: where a stranger's words led to a message, and what is
        written now does not count as theirs by itself.
        """
        origin = next((one.origin for one in messages if one.origin), None)
        return None if origin is None or self._module.current_call.is_strangers else origin


def _count(messages: Sequence[LoggedMessage]) -> str:
    return "1 message is" if len(messages) == 1 else f"{len(messages)} messages are"
