"""The log of a module's process: so many lines a second and no more, each of a bounded length."""

from __future__ import annotations

import logging
import time

from parachuted.visible import visible

_MOST_LINES_A_SECOND = 100
_MOST_LINE = 4_000


class CappedLog:
    """What is left out is counted."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._second, self._lines, self._left_out = 0, 0, 0

    def say(self, level: int, text: str) -> None:
        """Log it, unless there were too many in this second."""
        second = int(time.monotonic())
        if second != self._second:
            if self._left_out:
                self._log.warning("%d lines of its log were left out", self._left_out)
            self._second, self._lines, self._left_out = second, 0, 0
        self._lines += 1
        if self._lines > _MOST_LINES_A_SECOND:
            self._left_out += 1
        else:
            self._log.log(level, "%s", visible(_cut(text), keep="\n\t"))


def _cut(text: str) -> str:
    """The text shortened to its beginning and end, since a traceback's error is at the end."""
    return (
        text
        if len(text) <= _MOST_LINE
        else f"{text[: _MOST_LINE // 4]}\n...\n{text[-_MOST_LINE // 4 * 3 :]}"
    )
