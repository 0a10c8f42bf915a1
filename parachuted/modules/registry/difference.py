"""The difference of two file trees as unified text, with every hidden character spelled out.

Pure. Nothing is left out, since a person approves by it: a text too long to compare line by line is
shown old and new.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from parachuted.modules.registry.module_tree import ModuleTree, TreeFile
from parachuted.visible import visible

LARGEST = 1_000_000
_MOST_LINES = 4_000


def tree_difference(
    old: ModuleTree | None,
    new: ModuleTree | None,
    old_bytes: Mapping[str, bytes],
    new_bytes: Mapping[str, bytes],
) -> str:
    """What changed from the old files to the new.

    Bytes of a file may be missing where it is too large to show; it is named then.
    """
    before = {file.path: file for file in old.files} if old else {}
    after = {file.path: file for file in new.files} if new else {}
    found: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        was, now = before.get(path), after.get(path)
        if was != now:
            found += _file(path, was, now, old_bytes.get(path), new_bytes.get(path))
    return "".join(f"{line}\n" for line in found)


def _file(
    path: str, was: TreeFile | None, now: TreeFile | None, old: bytes | None, new: bytes | None
) -> Iterator[str]:
    if was and now and was.mode != now.mode:
        yield f"mode of {visible(path)}: {was.mode:o} -> {now.mode:o}"
    if was and now and was.digest == now.digest:
        return
    before, after = _lines(was, old), _lines(now, new)
    if before is None or after is None:
        yield f"binary {visible(path)}: {_told(was)} -> {_told(now)}"
        return
    yield f"--- {visible(path) if was else '/dev/null'}"
    yield f"+++ {visible(path) if now else '/dev/null'}"
    yield from _compared(before, after) or ["(empty)"]


def _compared(before: Sequence[str], after: Sequence[str]) -> list[str]:
    if len(before) + len(after) > _MOST_LINES:
        return [
            f"@@ -1,{len(before)} +1,{len(after)} @@",
            *(f"-{line}" for line in before),
            *(f"+{line}" for line in after),
        ]
    return [
        line.rstrip("\n") for line in list(difflib.unified_diff(before, after, lineterm=""))[2:]
    ]


def _lines(file: TreeFile | None, data: bytes | None) -> list[str] | None:
    """The lines as they may be shown; None: it is no text, or too large."""
    if file is None:
        return []
    if data is None or b"\0" in data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    *lines, last = text.split("\n")
    return [visible(line, keep="\t") for line in lines] + (
        [f"{visible(last, keep=chr(9))} (no end of line)"] if last else []
    )


def _told(file: TreeFile | None) -> str:
    return f"{file.size:,} bytes sha256:{file.digest}" if file else "none"
