"""Diff: how two texts of a file differ, as people and programs read it.

Pure, and bounded in time and size.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from parachuted.vault.paths import printable

_LARGEST_DIFF = 8 << 10
_LARGEST_TEXT = 4 << 20
_MOST_COMPARED = 4_000_000
_CONTEXT = 2


def diff_of(before: bytes, after: bytes, path: str, *, source: str | None = None) -> str:
    """A unified diff of two texts, cut at some thousand characters; `source` is where the file was
    before.
    """
    moved = f"rename from {printable(source)}\nrename to {printable(path)}\n" if source else ""
    if before == after:
        return moved
    if max(len(before), len(after)) > _LARGEST_TEXT:
        return f"{moved}(too large to be compared: {len(before)} and {len(after)} bytes)"
    head = f"{moved}--- a/{printable(source or path)}\n+++ b/{printable(path)}\n"
    lines = _hunks(_lines(before), _lines(after))
    text = head + "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return (
        text
        if len(text) <= _LARGEST_DIFF
        else f"{text[:_LARGEST_DIFF]}\n(cut: the difference is longer)"
    )


def count_changed(before: bytes, after: bytes) -> tuple[int, int] | None:
    """How many lines came and how many went; None where the texts are too large to be compared."""
    if max(len(before), len(after)) > _LARGEST_TEXT:
        return None
    old, new = _lines(before), _lines(after)
    start = _common(old, new)
    stop = _common(old[start:][::-1], new[start:][::-1])
    gone, came = old[start : len(old) - stop], new[start : len(new) - stop]
    if len(gone) * len(came) > _MOST_COMPARED:
        return len(came), len(gone)
    matcher = difflib.SequenceMatcher(None, gone, came, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return len(came) - same, len(gone) - same


def _lines(data: bytes) -> list[str]:
    *lines, last = data.decode("utf-8", "replace").split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """What stands between the common ends, compared; where comparing would take minutes, as one
    piece gone and one come.
    """
    start = max(0, _common(old, new) - _CONTEXT)
    stop = max(0, _common(old[start + _CONTEXT :][::-1], new[start + _CONTEXT :][::-1]) - _CONTEXT)
    gone, came = old[start : len(old) - stop], new[start : len(new) - stop]
    for group in _groups(gone, came):
        yield (
            f"@@ -{_range(group[0][1], group[-1][2], start)} "
            f"+{_range(group[0][3], group[-1][4], start)} @@\n"
        )
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in gone[i1:i2])
            else:
                yield from (f"-{line}" for line in gone[i1:i2])
                yield from (f"+{line}" for line in came[j1:j2])


def _groups(
    gone: Sequence[str], came: Sequence[str]
) -> Iterable[list[tuple[str, int, int, int, int]]]:
    if len(gone) * len(came) > _MOST_COMPARED:
        return [[("replace", 0, len(gone), 0, len(came))]]
    return difflib.SequenceMatcher(None, gone, came, autojunk=False).get_grouped_opcodes(_CONTEXT)


def _range(first: int, last: int, offset: int) -> str:
    """As unified diffs count: from 1, and an empty range after the line before it."""
    length = last - first
    return f"{first + offset + (length > 0)},{length}"


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (number for number, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )
