"""Conflicts: notes that a sync program or git could not merge.

A person has to decide about them, so the loop leaves them alone until then.

A conflict copy lies beside the note, under a name that its program gives it; a note with conflict
markers holds both texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from parachuted.vault.blocks import MarkdownRefusedError, read_blocks

_COPY = re.compile(
    r"""
    \.sync-conflict-\d{8}-\d{6}                                     # Syncthing
  | \((?:[^()]*[ ])?(?:conflicted[ ]copy|case[ ]conflict)\b[^()]*\) # Dropbox, Nextcloud, Obsidian Sync, parachuted
  | [ ]\(SFConflict[ ][^()]*\)                                      # Seafile
  | _conflict-\d{8}-\d{6}                                           # ownCloud
  | _[A-Za-z]{3}-\d{2}-\d{4,6}-\d{4}_[A-Za-z]*Conflict              # Synology Drive
    """,  # noqa: E501
    re.VERBOSE | re.IGNORECASE,
)
_MARKER = re.compile(
    rb"^(?:(<{7})(?:[ ][^\r\n]*)?|(={7})|(>{7})(?:[ ][^\r\n]*)?)\r?$", re.MULTILINE
)


def is_conflict_copy(path: str) -> bool:
    """Whether a file's name is one that a sync program gives to the other text of a conflict."""
    name = path.rpartition("/")[2]
    return "onflict" in name.lower() and _COPY.search(name) is not None


def conflict_line(data: bytes) -> int | None:
    """The line (from 1) of the first conflict marker; None where there is none, but for an example
    in a code fence.
    """
    if b"<<<<<<<" not in data:
        return None
    fences: list[tuple[int, int]] | None = None
    for start, stop in _conflicts(data):
        fences = _fences(data) if fences is None else fences
        if not any(first <= start and stop <= last for first, last in fences):
            return data.count(b"\n", 0, start) + 1
    return None


def _conflicts(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each three markers in their order begin and end."""
    start, is_divided = -1, False
    for marker in _MARKER.finditer(data):
        if marker[1]:
            start, is_divided = marker.start(), False
        elif marker[2]:
            is_divided = start >= 0
        elif is_divided:
            yield start, marker.end()
            start, is_divided = -1, False


def _fences(data: bytes) -> list[tuple[int, int]]:
    try:
        return [
            (block.start, block.stop)
            for block in read_blocks(data, 0, len(data))
            if block.kind == "Fenced"
        ]
    except MarkdownRefusedError:
        return []
