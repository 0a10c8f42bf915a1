"""Which parts of a note are private. Pure.

`#private`, or a tag below it such as `#private/health`, makes private the section in whose heading
it stands; on a line of tags alone, the section around it, or the whole note above the first
heading; elsewhere the paragraph, the quote, or the list item with what is below it. `private` or
the tag in the frontmatter makes the whole note private. Where readers of markdown may disagree,
more is private rather than less.
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
_HEADING = re.compile(rb" {0,3}(#{1,6})(?=[ \t\r\n]|\Z)")
_TAG_WORD = re.compile(r"#[^\s#]+")
_MARKUP = "*_~\u200b\ufeff"  # around a tag: emphasis, and what is not seen
# Where one of these stands, what looks like the end of a fence may be the beginning of another.
_DOUBTFUL_FENCE = re.compile(
    rb"[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)+(?:`{3}|~{3})"
    rb"|[ \t]*<(?:[!?]|(?:pre|script|style|textarea)\b)",
    re.IGNORECASE,
)
_QUOTE = re.compile(rb"[ \t]*>")
_ITEM = re.compile(rb"[ \t]*(?:[-+*]|\d{1,9}[.)])(?=[ \t\r\n]|\Z)")
_FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})([^\r\n]*)")
_FARTHEST_ITEM = 200  # lines above a paragraph


class PrivatePart(NamedTuple):
    """Bytes of a note, and the level of the heading that they begin with; 0: they have none."""

    start: int
    stop: int
    level: int = 0


def may_be_private(data: bytes) -> bool:
    """Whether the word stands in it at all, which is soon known."""
    return _NAMED in data.lower()


def private_parts(note: ParsedNote) -> Sequence[PrivatePart]:
    """The private parts in their order; none overlaps another."""
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
    return _joined(_Body(note).parts(tags))


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
    """All texts of a value, however deep."""
    if isinstance(value, str):
        yield value
    else:
        inner = (*value, *value.values()) if isinstance(value, Mapping) else value
        for one in inner:
            yield from _texts(one)


def _is_false(value: str) -> bool:
    return value.strip(" \t\"'").casefold() in _FALSE


class _Body:
    """The lines of a note below its frontmatter; `_starts` are their offsets, with the end."""

    def __init__(self, note: ParsedNote) -> None:
        self._headings = note.outline.headings
        self._lines = note.data[note.body.start :].splitlines(keepends=True)
        self._starts = list(accumulate(map(len, self._lines), initial=note.body.start))
        self._fenced = _lines_in_fences(self._lines)

    def parts(self, tags: Iterable[int]) -> Iterator[PrivatePart]:
        """What each of these tags makes private."""
        stop = 0
        for tag in tags:
            part = self._part(tag) if tag >= stop else None
            if part is not None:
                stop = part.stop
                yield part

    def _part(self, tag: int) -> PrivatePart | None:
        at = bisect_right(self._starts, tag) - 1
        line = self._lines[at]
        above = bisect_right(self._headings, tag, key=lambda one: one.start) - 1
        heading = self._headings[above] if above >= 0 else None
        if heading is not None and tag < heading.stop:
            return self._section(heading.start, heading.level)
        if (found := _HEADING.match(line)) is not None:
            return self._section(self._starts[at], len(found[1]))
        if at in self._fenced:
            return None
        is_beside = at == 0 or _is_gap(self._lines[at - 1]) or _margin(line) == 0
        if is_beside and _is_tags_alone(line):
            if heading is None:
                return PrivatePart(0, self._starts[-1])
            return self._section(heading.start, heading.level)
        first, stop = _block(self._lines, at)
        return PrivatePart(self._starts[first], self._starts[stop])

    def _section(self, start: int, level: int) -> PrivatePart:
        later = (one.start for one in self._headings if one.start > start and one.level <= level)
        return PrivatePart(start, next(later, self._starts[-1]), level)


def _joined(parts: Iterable[PrivatePart]) -> Sequence[PrivatePart]:
    joined: list[PrivatePart] = []
    for part in sorted(parts, key=lambda one: (one.start, -one.stop)):
        if joined and part.start < joined[-1].stop:
            joined[-1] = joined[-1]._replace(stop=max(part.stop, joined[-1].stop))
        else:
            joined.append(part)
    return joined


def _is_tags_alone(line: bytes) -> bool:
    words = re.split(r"[\s,;]+", line.decode("utf-8", "replace"))
    bare = filter(None, (word.strip(_MARKUP) for word in words))
    return all(_TAG_WORD.fullmatch(word) for word in bare)


def _is_gap(line: bytes) -> bool:
    return not line.strip() or _HEADING.match(line) is not None


def _block(lines: Sequence[bytes], at: int) -> tuple[int, int]:
    """The first line of the list item, quote or paragraph around that line, and where it ends."""
    first = at
    while not (_ITEM.match(lines[first]) or _QUOTE.match(lines[first])):
        if first == 0 or _is_gap(lines[first - 1]):
            break
        first -= 1
    item = first if _ITEM.match(lines[first]) else _item_above(lines, first)
    if item is not None:
        return item, max(_after_item(lines, item), at + 1)
    while first > 0 and not _is_gap(lines[first - 1]):
        first -= 1
    stop = at + 1
    while stop < len(lines) and not _is_gap(lines[stop]):
        stop += 1
    return first, stop


def _item_above(lines: Sequence[bytes], at: int) -> int | None:
    """The list item that an indented line belongs to."""
    margin = _margin(lines[at])
    for above in range(at - 1, max(at - _FARTHEST_ITEM, 0) - 1, -1):
        line = lines[above]
        if not margin or (line.strip() and not _margin(line) and not _ITEM.match(line)):
            return None
        if _ITEM.match(line) and _margin(line) < margin:
            return above
    return None


def _after_item(lines: Sequence[bytes], item: int) -> int:
    margin, stop, is_below_blank = _margin(lines[item]), item + 1, False
    for at in range(item + 1, len(lines)):
        line = lines[at]
        if not line.strip():
            is_below_blank = True
            continue
        is_beside = _margin(line) <= margin and (is_below_blank or _ITEM.match(line) is not None)
        if is_beside or _HEADING.match(line):
            break
        stop, is_below_blank = at + 1, False
    return stop


def _margin(line: bytes) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip(b" "))


def _lines_in_fences(lines: Sequence[bytes]) -> frozenset[int]:
    """The lines of the code fences that have an end, as far as these are sure: none where a list
    item begins with a fence or HTML may hold one, and none of a fence whose lines leave the item
    that it stands in.
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
