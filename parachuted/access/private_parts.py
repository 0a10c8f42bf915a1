"""Which parts of a note are private. Pure.

`#private`, or a tag below it, makes private the section that it stands in; above the first heading
the whole note, as `private` or the tag in the frontmatter does. Where readers of markdown may
disagree, more is private rather than less.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from parachuted.vault import ParsedNote
from parachuted.vault.bounded_yaml import YamlValue
from parachuted.vault.frontmatter import BOM

_NAMED = b"private"
_FALSE = frozenset({"", "false", "no", "off", "n", "0", "null", "~"})
_KEY = re.compile(
    rb"^[\"']?private[\"']?[ \t]*:(?P<value>[^\r\n]*)(?P<below>\r?\n(?:[ \t]+\S|-[ \t]))?",
    re.IGNORECASE | re.MULTILINE,
)
_LONE_CR = re.compile(rb"\r(?!\n)")
_COMMENT = re.compile(rb"(?:^|\s)#.*")
_TAG_KEYS = frozenset({"tag", "tags"})
_NAME = re.compile(r"#?private(?:/.*)?", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"[^\s,;]+")
# what is not ASCII may be a space or a quotation mark before it, whose letters are more than a byte
_TAG = re.compile(rb"(?<![^\s({|*_~\"'>,;:\x80-\xff])(?<!\]\()#private(?![\w-])", re.IGNORECASE)
# Where one of these stands, what looks like the end of a fence may be the beginning of another.
_DOUBTFUL_FENCE = re.compile(
    rb"[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)+(?:`{3}|~{3})"
    rb"|[ \t]*<(?:[!?]|(?:pre|script|style|textarea)\b)",
    re.IGNORECASE,
)
_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})([^\r\n]*)")


class PrivatePart(NamedTuple):
    """Bytes of a note, and the level of the heading that they begin with; 0: the whole note."""

    start: int
    stop: int
    level: int = 0


def may_be_private(data: bytes) -> bool:
    """A quick look for the word."""
    return _NAMED in data.lower()


def private_parts(note: ParsedNote) -> Sequence[PrivatePart]:
    """In their order; none overlaps another."""
    data = note.data
    if not may_be_private(data):
        return ()
    whole = (PrivatePart(0, len(data)),)
    if _is_whole(note):
        return whole
    tags = [found.start() for found in _TAG.finditer(data, note.body.start)]
    if not tags:
        return ()
    if not note.outline.complete:
        return whole
    return tuple(_sections(note, tags))


def _is_whole(note: ParsedNote) -> bool:
    """Whether the frontmatter says it; one that never ends, or is not YAML, by its lines."""
    data = note.data
    if note.frontmatter is None and not data.removeprefix(BOM).startswith(b"---"):
        return False
    front = data[: note.body.start] if note.frontmatter else data
    if not may_be_private(front):
        return False
    if any(map(_is_set, _KEY.finditer(_LONE_CR.sub(b"\n", front)))):
        return True
    return note.frontmatter is not None and (
        _TAG.search(front) is not None
        or any(_says_private(key.strip().casefold(), of) for key, of in note.values.items())
    )


def _is_set(found: re.Match[bytes]) -> bool:
    value = _COMMENT.sub(b"", found["value"]).decode("utf-8", "replace")
    return found["below"] is not None or not _is_false(value)


def _says_private(key: str, value: YamlValue) -> bool:
    if key in _TAG_KEYS:
        return any(_NAME.fullmatch(word) for text in _texts(value) for word in _WORD.findall(text))
    return key == "private" and not (isinstance(value, str) and _is_false(value))


def _texts(value: YamlValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    else:
        inner = (*value, *value.values()) if isinstance(value, Mapping) else value
        for one in inner:
            yield from _texts(one)


def _is_false(value: str) -> bool:
    return value.strip(" \t\"'").casefold() in _FALSE


def _sections(note: ParsedNote, tags: Iterable[int]) -> Iterator[PrivatePart]:
    """The section that each of these tags stands in, in their order; none overlaps another."""
    headings, end = note.outline.headings, len(note.data)
    lines = note.data[note.body.start :].splitlines(keepends=True)
    starts = list(accumulate(map(len, lines), initial=note.body.start))
    fenced = _lines_in_fences(lines)
    stop = 0
    for tag in tags:
        above = bisect_right(headings, tag, key=lambda heading: heading.start) - 1
        is_in_heading = above >= 0 and tag < headings[above].stop
        if tag < stop or (bisect_right(starts, tag) - 1 in fenced and not is_in_heading):
            continue
        if above < 0:
            yield PrivatePart(0, end)
            return
        start, level = headings[above].start, headings[above].level
        stop = next((one.start for one in headings[above + 1 :] if one.level <= level), end)
        yield PrivatePart(start, stop, level)


def _margin(line: bytes) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip(b" "))


def _lines_in_fences(lines: Sequence[bytes]) -> frozenset[int]:
    """The lines of code fences that surely end.

    None where a list item begins with a fence or HTML may hold one, and none of a fence whose lines
    leave the item that it stands in.
    """
    found: list[int] = []
    opened, mark = 0, b""
    for at, line in enumerate(lines):
        if not mark and _DOUBTFUL_FENCE.match(line):
            return frozenset()
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if not mark:
            is_opening = fence[1][:1] == b"~" or b"`" not in fence[2]
            opened, mark = at, fence[1] if is_opening else b""
        elif fence[1].startswith(mark) and not fence[2].strip():
            inside = range(opened, at + 1)
            least = _margin(lines[opened])
            if all(_margin(lines[one]) >= least or not lines[one].strip() for one in inside):
                found += inside
            mark = b""
    return frozenset(found)
