"""Which parts of a note are private. Pure.

`#private`, or a tag below it, in a heading or on a line of nothing but tags makes private the
section that it stands in; above the first heading the whole note, as `private` or the tag in the
frontmatter does. Where readers of markdown may disagree, more is private rather than less.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
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
_HEADING = re.compile(rb"(?:[ \t>]|(?:[-+*]|\d{1,9}[.)])(?=[ \t]))*+#{1,6}[ \t]")
_ANY_TAG = re.compile(r"#[^\s,;#]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_LABELS = frozenset({"", "tag", "tags"})
_MARKUP = re.compile(r"\[[xX]\]|<[^<>]*>|&#?\w+;")  # a ticked box, HTML
_LABELLED = re.compile(r"[\s>*+-]*tags?\s*:", re.IGNORECASE)
_UNDERLINE = re.compile(rb"=+|-+")


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
    if not note.outline.complete:
        return whole if _TAG.search(data, note.body.start) else ()
    return tuple(_sections(note))


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


def _sections(note: ParsedNote) -> Iterator[PrivatePart]:
    """The sections with the tag in their heading, on a line of tags, or where readers differ."""
    headings, doubts, end = note.outline.headings, note.outline.doubts, len(note.data)
    doubtful = list(accumulate((doubt.stop for doubt in doubts), max))
    start = stop = note.body.start
    lines = note.data[start:].splitlines(keepends=True)
    for line, is_underlined in zip(lines, _underlined(lines), strict=True):
        found, tag = _TAG.search(line), start
        start += len(line)
        if found is None or tag < stop:
            continue
        tag += found.start()
        above = bisect_right(headings, tag, key=lambda heading: heading.start) - 1
        doubt = bisect_right(doubts, tag, key=lambda doubt: doubt.start) - 1
        if not (
            (above >= 0 and tag < headings[above].stop)
            or (doubt >= 0 and tag < doubtful[doubt])
            or _HEADING.match(line)
            or is_underlined
            or _is_of_tags(line)
        ):
            continue
        if above < 0:
            yield PrivatePart(0, end)
            return
        level = headings[above].level
        stop = next((one.start for one in headings[above + 1 :] if one.level <= level), end)
        yield PrivatePart(headings[above].start, stop, level)


def _underlined(lines: Sequence[bytes]) -> list[bool]:
    """Whether the lines to the next empty one end with an underline, which makes them a heading, in
    a quotation or a list too.
    """
    found, is_heading = list[bool](), False
    for line in reversed(lines):
        found.append(is_heading)
        text = line.strip(b" \t\r\n>")
        is_heading = bool(text) and (is_heading or _UNDERLINE.fullmatch(text) is not None)
    return found[::-1]


def _is_of_tags(line: bytes) -> bool:
    """Whether it holds nothing else, but marks and a label such as `tags:`."""
    text = _MARKUP.sub("", line.decode("utf-8", "replace"))
    if _LABELLED.match(text):
        return True
    rest = _ANY_TAG.sub("", text)
    return "".join(_LETTERS.findall(rest)).casefold() in _LABELS
