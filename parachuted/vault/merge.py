"""Merge: combines two changes of one text line by line, or reports that they conflict.

Line ends are part of lines, so every byte of the result is one of the texts'. Lines that occur once
in both are paired, which is fast. Not patiencediff (1.0.2): it panics on sixty repeated lines.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import AnyStr, Literal

from merge3 import Merge3

from parachuted.vault.paths import printable

_LARGEST_DIFF = 8 << 10
_LARGEST_TEXT = 4 << 20
_MOST_COMPARED = 4_000_000
_CONTEXT = 2


def diff_of(before: bytes, after: bytes, path: str, *, source: str | None = None) -> str:
    """A unified diff, cut at some thousand characters; `source` is where the file was before."""
    moved = f"rename from {printable(source)}\nrename to {printable(path)}\n" if source else ""
    if before == after:
        return moved
    if max(len(before), len(after)) > _LARGEST_TEXT:
        return f"{moved}(too large to be compared: {len(before)} and {len(after)} bytes)"
    head = f"{moved}--- a/{printable(source or path)}\n+++ b/{printable(path)}\n"
    lines = _hunks(_cut_lines(before), _cut_lines(after))
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
    old, new = _cut_lines(before), _cut_lines(after)
    same = len(same_lines(old, new))
    return len(new) - same, len(old) - same


def same_lines(old: Sequence[AnyStr], new: Sequence[AnyStr]) -> dict[int, int]:
    """The older place of each line that stands in both; of too many, only at the common ends."""
    start = _common(old, new)
    stop = _common(old[start:][::-1], new[start:][::-1])
    same = {place: place for place in range(start)}
    same |= {len(new) - 1 - place: len(old) - 1 - place for place in range(stop)}
    gone, came = old[start : len(old) - stop], new[start : len(new) - stop]
    if len(gone) * len(came) <= _MOST_COMPARED:
        matcher = difflib.SequenceMatcher(None, gone, came, autojunk=False)
        for block in matcher.get_matching_blocks():
            same |= {start + block.b + step: start + block.a + step for step in range(block.size)}
    return same


def _cut_lines(data: bytes) -> list[str]:
    *lines, last = data.decode("utf-8", "replace").split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
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


def _common(one: Sequence[AnyStr], other: Sequence[AnyStr]) -> int:
    return next(
        (number for number, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )


MAX_LINES = 50_000
_SMALL = 64
_DEEPEST = 12
_BUDGET = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """`kept`: the texts of "theirs" that stood where ours clashed with them."""

    data: bytes
    clean: bool
    kept: tuple[str, ...] = ()


def merge_three(
    base: bytes, ours: bytes, theirs: bytes, *, prefer: Literal["none", "theirs", "both"] = "none"
) -> MergeResult:
    """Both changes of `base` in one text.

    Where they clash, all of theirs; with `prefer="theirs"`, theirs just in the places that clash.
    With "both", lines that both add at one place do not clash, unless theirs begin what ours begin.
    Texts that differ in more than 50,000 lines, and files that are not texts, clash as a whole.
    """
    if theirs in (ours, base):
        return MergeResult(data=ours, clean=True)
    if ours == base:
        return MergeResult(data=theirs, clean=True)
    start, stop = _common_ends(base, ours, theirs)
    middles = [text[start : len(text) - stop] for text in (base, ours, theirs)]
    if any(b"\0" in text for text in (base, ours, theirs)) or any(
        middle.count(b"\n") >= MAX_LINES for middle in middles
    ):
        return MergeResult(
            data=theirs, clean=False, kept=(_shown(middles[2]),) if prefer == "theirs" else ()
        )
    merged, kept = _merge_lines(*map(_lines, middles), adds_both=prefer == "both")
    if kept and prefer != "theirs":
        return MergeResult(data=theirs, clean=False)
    data = base[:start] + merged + base[len(base) - stop :]
    return MergeResult(data=data, clean=not kept, kept=tuple(map(_shown, kept)))


def _merge_lines(
    base: Sequence[bytes], ours: Sequence[bytes], theirs: Sequence[bytes], *, adds_both: bool
) -> tuple[bytes, list[bytes]]:
    parts: list[bytes] = []
    kept: list[bytes] = []
    for group in Merge3(base, ours, theirs, sequence_matcher=_Pairing).merge_groups():
        parts += group[-1]
        if group[0] == "conflict":
            if adds_both and not group[1] and _may_follow(group[-1], group[2]):
                parts += group[2]
            else:
                kept.append(b"".join(group[-1]))
    return b"".join(parts), kept


def _may_follow(theirs: Sequence[bytes], ours: Sequence[bytes]) -> bool:
    first = next(filter(bytes.strip, ours), b"")
    return theirs[-1].endswith(b"\n") and first not in theirs


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _lines(text: bytes) -> list[bytes]:
    *whole, rest = text.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def _common_ends(*texts: bytes) -> tuple[int, int]:
    """In bytes, at the start and, beyond that, at the end; both are whole lines."""
    first, *others = texts
    shortest = min(map(len, texts))
    start = min(_agreement(first, other, shortest) for other in others)
    start = first.rfind(b"\n", 0, start) + 1
    limit = shortest - start
    stop = min(_agreement(first[::-1], other[::-1], limit) for other in others)
    tail = first[len(first) - stop :]
    newline = tail.find(b"\n")
    return start, len(tail) - newline - 1 if newline >= 0 else 0


def _agreement(a: bytes, b: bytes, limit: int) -> int:
    """Found by halving, as comparing slices is faster than counting."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low


class _Pairing:
    """What Merge3 asks of a matcher: which runs of lines of two texts are the same."""

    def __init__(
        self,
        isjunk: object,  # noqa: ARG002
        a: Sequence[bytes],
        b: Sequence[bytes],
        autojunk: bool = True,  # noqa: ARG002, FBT001, FBT002
    ) -> None:
        self._a = a
        self._b = b
        self._budget = _BUDGET

    def get_matching_blocks(self) -> list[tuple[int, int, int]]:
        blocks: list[tuple[int, int, int]] = []
        for i, j in self._pairs(0, len(self._a), 0, len(self._b), 0):
            if blocks and (sum(blocks[-1][::2]), blocks[-1][1] + blocks[-1][2]) == (i, j):
                blocks[-1] = (*blocks[-1][:2], blocks[-1][2] + 1)
            else:
                blocks.append((i, j, 1))
        return [*blocks, (len(self._a), len(self._b), 0)]

    def _pairs(
        self, i: int, i_stop: int, j: int, j_stop: int, depth: int
    ) -> Iterator[tuple[int, int]]:
        a, b = self._a, self._b
        while i < i_stop and j < j_stop and a[i] == b[j]:
            yield i, j
            i, j = i + 1, j + 1
        tail = 0
        while (
            i < i_stop - tail and j < j_stop - tail and a[i_stop - tail - 1] == b[j_stop - tail - 1]
        ):
            tail += 1
        i_stop, j_stop = i_stop - tail, j_stop - tail
        if i < i_stop and j < j_stop:
            yield from self._inner_pairs(i, i_stop, j, j_stop, depth)
        for back in range(tail):
            yield i_stop + back, j_stop + back

    def _inner_pairs(
        self, i: int, i_stop: int, j: int, j_stop: int, depth: int
    ) -> Iterator[tuple[int, int]]:
        anchors = self._anchors(i, i_stop, j, j_stop) if depth < _DEEPEST else []
        if not anchors:
            yield from self._small_pairs(i, i_stop, j, j_stop)
            return
        for i_anchor, j_anchor in [*anchors, (i_stop, j_stop)]:
            yield from self._pairs(i, i_anchor, j, j_anchor, depth + 1)
            if i_anchor < i_stop:
                yield i_anchor, j_anchor
            i, j = i_anchor + 1, j_anchor + 1

    def _anchors(self, i: int, i_stop: int, j: int, j_stop: int) -> list[tuple[int, int]]:
        """Lines that occur once on each side, as many as stand in the same order on both."""
        in_b = {line: place for place, line in enumerate(self._b[j:j_stop], j)}
        counts_a, counts_b = Counter(self._a[i:i_stop]), Counter(self._b[j:j_stop])
        pairs = [
            (place, in_b[line])
            for place, line in enumerate(self._a[i:i_stop], i)
            if counts_a[line] == 1 and counts_b.get(line) == 1
        ]
        return _longest_rising(pairs)

    def _small_pairs(self, i: int, i_stop: int, j: int, j_stop: int) -> Iterator[tuple[int, int]]:
        """Lines that all repeat: what difflib makes of few; many are left unpaired, to be fast."""
        lengths = i_stop - i, j_stop - j
        self._budget -= lengths[0] * lengths[1] * min(lengths)
        if max(lengths) > _SMALL or self._budget < 0:
            return
        matcher = difflib.SequenceMatcher(
            None, self._a[i:i_stop], self._b[j:j_stop], autojunk=False
        )
        for a_start, b_start, size in matcher.get_matching_blocks():
            yield from ((i + a_start + step, j + b_start + step) for step in range(size))


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, in their order, whose second parts rise."""
    tops: list[int] = []
    piles: list[int] = []
    below: list[int] = []
    for index, (_, place) in enumerate(pairs):
        pile = bisect_left(tops, place)
        below.append(piles[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [place]
        piles[pile : pile + 1] = [index]
    run: list[tuple[int, int]] = []
    index = piles[-1] if piles else -1
    while index >= 0:
        run.append(pairs[index])
        index = below[index]
    return run[::-1]
