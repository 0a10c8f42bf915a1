"""Messages on their way into their files: one durable line each, whatever the length of the file.

A session's file is written whole, which takes longer the longer it is. So a message is first put at
the end of this log, and the file follows at once. What a crash left here, or the file refused, is
written at the next start.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from parachuted.errors import StorageFailedError

from .messages import Message, ToolUse

_MOST_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A message, and whose text led to it: `bot`, `imported` or `web`; None: no stranger's."""

    message: Message
    origin: str | None = None


class AppendLog:
    """Messages by the id of their session, in the order in which they came."""

    def __init__(self, path: Path, most_bytes: int = _MOST_BYTES) -> None:
        """Of `most_bytes` or more, the file is written again without what is done."""
        self._path, self._most_bytes = path, most_bytes
        self._lock = asyncio.Lock()
        self._open: dict[tuple[str, str], bytes] = {}
        self._file: int | None = None

    def load(self) -> dict[str, list[LoggedMessage]]:
        """What was not written into its file; a last line that was cut short is left out."""
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
                logged = LoggedMessage(message, said.get("origin"))
                found.setdefault(session_id, []).append(logged)
        self._write_again()
        return found

    async def append(self, session_id: str, logged: LoggedMessage) -> None:
        """Returns when it is on the disk. Raises StorageFailedError."""
        said: dict[str, object] = {"session": session_id, "message": asdict(logged.message)}
        if logged.origin is not None:
            said["origin"] = logged.origin
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
        """These need not be kept any more. Once none is, the log is emptied."""
        async with self._lock:
            for one in messages:
                self._open.pop((session_id, one.id), None)
            await asyncio.to_thread(self._shorten)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _shorten(self) -> None:
        if not self._open and self._file is not None:
            os.ftruncate(self._file, 0)
        elif not self._open:
            self._path.unlink(missing_ok=True)
        elif self._file is not None and os.fstat(self._file).st_size > max(
            self._most_bytes, 2 * sum(map(len, self._open.values()))
        ):
            self._write_again()

    def _write_again(self) -> None:
        """The file with what is kept and nothing else, in one step."""
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


def _message(said: dict[str, Any]) -> Message:
    tools = tuple(ToolUse(**one) for one in said.pop("tools"))
    return Message(**said, tools=tools)
