"""Messages on their way into their files: one durable line each, whatever the length of the file.

A session's file is written whole, which takes longer the longer it is. So a message is first put at
the end of this log, and the file follows at once. What a crash left here is written at the next
start.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parachuted.errors import StorageFailedError

from .messages import Message, ToolUse


class AppendLog:
    """Messages by the id of their session, in the order in which they came."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self._open: Counter[str] = Counter()
        self._file: int | None = None

    def load(self) -> dict[str, list[Message]]:
        """What was not written into its file; a last line that was cut short is left out."""
        found: dict[str, list[Message]] = {}
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return found
        for line in lines:
            try:
                said = json.loads(line)
                found.setdefault(said["session"], []).append(_message(said["message"]))
            except (ValueError, KeyError, TypeError):
                continue
        return found

    async def append(self, session_id: str, message: Message) -> None:
        """Returns when it is on the disk. Raises StorageFailedError."""
        line = json.dumps({"session": session_id, "message": asdict(message)}, default=str)
        async with self._lock:
            try:
                await asyncio.to_thread(self._write, line.encode() + b"\n")
            except OSError as error:
                raise StorageFailedError(
                    f"the message could not be kept: {error.strerror}", errno=error.errno
                ) from error
            self._open[session_id] += 1

    async def done(self, session_id: str, count: int) -> None:
        """So many of the session's messages are in its file. Once all are, the log is emptied."""
        async with self._lock:
            self._open[session_id] -= count
            if self._open[session_id] <= 0:
                del self._open[session_id]
            if not self._open:
                await asyncio.to_thread(self.clear)

    def clear(self) -> None:
        """Forget all."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
        else:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

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
