"""Saves overlong hook output to a file; the reader gets the beginning and the file's path."""

from __future__ import annotations

import hashlib
from pathlib import Path

from parachuted.private import replace_private

MOST_CHARACTERS = 10_000  # as Claude Code counts them: units of UTF-16
_PREVIEW = 2_000
_KEPT = 50


class LongTexts:
    """The folder of such files; the oldest go when there are too many."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

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
