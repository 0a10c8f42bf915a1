"""Context listing: the context folders as they are shown, each made once and kept until its context
file comes, goes or grows.
"""

from __future__ import annotations

from collections.abc import Callable

from parachuted.api.http.answers import json_answer
from parachuted.context import ContextFolder, context_folder
from parachuted.vault import CONTEXT_NAMES, VaultIndex, VaultPath, printable

_Sizes = tuple[int | None, ...]
_Told = dict[str, object]


class ContextListing:
    """Its cost depends on what changed, and not on what is there."""

    def __init__(self, index: VaultIndex) -> None:
        self._index = index
        self._version = -1
        self._folders: dict[str, tuple[_Sizes, VaultPath, _Told]] = {}
        self._body = b""

    def body(self) -> bytes:
        """The whole listing as JSON."""
        self._follow()
        if not self._body:
            answer = json_answer(_listing([told for _sizes, _path, told in self._folders.values()]))
            self._body = answer.body if isinstance(answer.body, bytes) else b""
        return self._body

    def seen(self, sees: Callable[[str], bool]) -> _Told:
        """The part of it that a caller may see."""
        self._follow()
        return _listing([told for _sizes, path, told in self._folders.values() if sees(path)])

    def _follow(self) -> None:
        if self._version == self._index.contexts_version:
            return
        self._version, self._body = self._index.contexts_version, b""
        before, self._folders = self._folders, {}
        for folder in self._index.context_folders():
            files = self._index.entries(folder)
            sizes = tuple(files[name].size if name in files else None for name in CONTEXT_NAMES)
            known = before.get(folder)
            if known is not None and known[0] == sizes:
                self._folders[folder] = known
            elif (found := context_folder(folder, self._index)) is not None:
                self._folders[folder] = (sizes, found.context_file, _told(found))


def _listing(folders: list[_Told]) -> _Told:
    return {"folders": folders, "count": len(folders)}


def _told(folder: ContextFolder) -> _Told:
    return {
        "path": printable(folder.path),
        "context_file": printable(folder.context_file),
        "has_agents_md": folder.has_agents_md,
        "has_claude_md": folder.has_claude_md,
        "display_name": printable(folder.display_name),
        "tokens": folder.tokens,
    }
