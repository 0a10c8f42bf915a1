"""Messages that are kept and do not stand in their files yet.

What a crash left in the log, and what a file refuses, is tried again when the file changes, with
the next message of its session, and at the next start. It is dropped only when its session is
deleted.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from parachuted.errors import NotFoundError, ParachuteError, StorageFailedError
from parachuted.modules import Finding, Module

from .messages import Message, ToolUse
from .session_files import SessionFiles
from .session_writer import SessionWriter

_MOST_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    message: Message
    is_strangers: bool = False


class AppendLog:
    """One durable line a message, whatever the length of its file, which is written whole.

    Of 4 MB or more, the log is written again without what is done.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self._open: dict[tuple[str, str], bytes] = {}
        self._file: int | None = None

    def load(self) -> dict[str, list[LoggedMessage]]:
        """What is not in its file; a last line that was cut short is left out."""
        found: dict[str, list[LoggedMessage]] = {}
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return found
        for line in lines:
            try:
                said = json.loads(line)
                session_id, message = said["session"], _message(said["message"])
            except (ValueError, KeyError, TypeError):
                continue
            key = (session_id, message.id)
            if key not in self._open:
                self._open[key] = line + b"\n"
                logged = LoggedMessage(message, bool(said.get("origin")))
                found.setdefault(session_id, []).append(logged)
        self._write_again()
        return found

    async def append(self, session_id: str, logged: LoggedMessage) -> None:
        """It is on the disk when this returns. StorageFailedError."""
        said: dict[str, object] = {"session": session_id, "message": asdict(logged.message)}
        if logged.is_strangers:
            said["origin"] = "stranger"
        line = json.dumps(said, default=str).encode() + b"\n"
        async with self._lock:
            try:
                await asyncio.to_thread(self._write, line)
            except OSError as error:
                raise StorageFailedError(
                    f"the message could not be kept: {error.strerror}", errno=error.errno
                ) from error
            self._open[session_id, logged.message.id] = line

    async def done(self, session_id: str, messages: Iterable[Message]) -> None:
        async with self._lock:
            for one in messages:
                self._open.pop((session_id, one.id), None)
            await asyncio.to_thread(self._shorten)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _shorten(self) -> None:
        if not self._open and self._file is not None:
            os.ftruncate(self._file, 0)
        elif not self._open:
            self._path.unlink(missing_ok=True)
        elif self._file is not None and os.fstat(self._file).st_size > max(
            _MOST_BYTES, 2 * sum(map(len, self._open.values()))
        ):
            self._write_again()

    def _write_again(self) -> None:
        self.close()
        if not self._open:
            self._path.unlink(missing_ok=True)
            return
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("wb") as file:
            file.writelines(self._open.values())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)

    def _write(self, line: bytes) -> None:
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        at = os.fstat(self._file).st_size
        try:
            left = line
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, at)  # no half line before the next
            raise


@dataclass(slots=True)
class _Waiting:
    messages: list[LoggedMessage] = field(default_factory=list)
    error: ParachuteError | None = None


class UnwrittenMessages:
    """`write` and `drop` are called inside the session's lock."""

    def __init__(self, module: Module, files: SessionFiles, writer: SessionWriter) -> None:
        self._module, self._files, self._writer = module, files, writer
        self.log = AppendLog(module.data_folder / "appends.jsonl")
        self._waiting: dict[str, _Waiting] = {}

    async def load(self) -> None:
        for session_id, messages in (await asyncio.to_thread(self.log.load)).items():
            async with self._files.lock(session_id):
                await self.write(session_id, messages)
                waiting = self._waiting.get(session_id)
                if waiting is not None and isinstance(waiting.error, NotFoundError):
                    self._module.log.info("a message's session is gone", extra={"id": session_id})
                    await self.drop(session_id)

    async def retry(self, session_id: str) -> None:
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
                is_strangers=any(one.is_strangers for one in waiting.messages),
            )
        except ParachuteError as error:
            waiting.error = error
            self._module.log.warning(
                "messages wait for their file", extra={"id": session_id, "why": error.message}
            )
            return
        await self.drop(session_id)

    async def drop(self, session_id: str, only: Message | None = None) -> None:
        waiting = self._waiting.get(session_id)
        if waiting is None:
            return
        messages = [one.message for one in waiting.messages]
        if only is not None:
            waiting.messages = [one for one in waiting.messages if one.message is not only]
        if only is None or not waiting.messages:
            del self._waiting[session_id]
        await self.log.done(session_id, messages if only is None else [only])

    def error_of(self, session_id: str, message: Message) -> ParachuteError | None:
        """Why that message waits; None: it does not."""
        waiting = self._waiting.get(session_id)
        if waiting is None or all(one.message is not message for one in waiting.messages):
            return None
        return waiting.error

    def last(self, session_id: str) -> Message | None:
        waiting = self._waiting.get(session_id)
        return waiting.messages[-1].message if waiting and waiting.messages else None

    def findings(self, paths: Collection[str]) -> list[Finding]:
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
            for path in self._files.index.paths_of(session_id)
            if path in paths
        ]


def _count(messages: Sequence[LoggedMessage]) -> str:
    return "1 message is" if len(messages) == 1 else f"{len(messages)} messages are"


def _message(said: dict[str, Any]) -> Message:
    tools = tuple(ToolUse(**one) for one in said.pop("tools"))
    return Message(**said, tools=tools)
