"""Saves overlong hook output to a file; the reader gets the beginning and the file's path."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from pathlib import Path

from parachuted.hooks.decision import HookAnswer
from parachuted.private import replace_private

log = logging.getLogger(__name__)

MOST_CHARACTERS = 10_000  # as Claude Code counts them: units of UTF-16
_PREVIEW = 2_000
_KEPT = 50


class LongTexts:
    """The folder of such files; the oldest go when there are too many."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def shorten(self, answer: HookAnswer) -> HookAnswer:
        """The answer with context that is too long for a model put into a file.

        Reasons arrive whole, as from Claude Code.
        """
        try:
            return replace(answer, context=tuple(map(self.short, answer.context)))
        except OSError as error:
            log.warning(
                "a hook's long text could not be kept",
                extra={"hook": answer.hook, "error": error.strerror},
            )
            return answer

    def short(self, text: str) -> str:
        """The text itself, or its beginning and where all of it is.

        OSError when the disk refuses.
        """
        if len(text.encode("utf-16-le", "surrogatepass")) // 2 <= MOST_CHARACTERS:
            return text
        data = text.encode("utf-8", "replace")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{hashlib.sha256(data).hexdigest()[:16]}.txt"
        replace_private(path, data)
        self._prune()
        return (
            f"[{len(text):,} characters, of which these are the first {_PREVIEW:,}; all of "
            f"them are in {path}]\n{text[:_PREVIEW]}"
        )

    def _prune(self) -> None:
        files = sorted(self._folder.glob("*.txt"), key=lambda path: path.stat().st_mtime_ns)
        for path in files[:-_KEPT]:
            path.unlink(missing_ok=True)
