"""Headings: where a markdown text has them, as CommonMark and its usual tables say, but found without parsing the whole of it.

Code fences, comments, `<pre>` and its like hide what looks like a heading; indented code does by its indent.
Each byte is looked at a bounded number of times, whatever is left open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from parachuted.vault.bounded_yaml import Problem

MAX_HEADINGS = 50_000
MAX_MARKS = 2 * MAX_HEADINGS

_OF_INTEREST = rb"""\ {0,3}+(?:
    (?P<atx>\#{1,6}+)(?=[ \t]|\r?$)
  | (?P<underline>=++|-++)[ \t]*+\r?+$
  | (?>(?:(?:[-+*]|\d{1,9}+[.)])[ \t]++)*)(?:
        (?P<fence>`{3,}+|~{3,}+)
      | (?P<html><!--|<(?i:script|pre|style|textarea)(?=[\s>]|$)|<\?|<!(?:\[CDATA\[|[A-Za-z]))
    )
)"""
_FIRST_LINE = re.compile(_OF_INTEREST, re.VERBOSE | re.MULTILINE)
_LATER_LINE = re.compile(rb"\n(?=[ #=\-+*`~<0-9])" + _OF_INTEREST, re.VERBOSE | re.MULTILINE)
_CLOSE_FENCE = re.compile(rb"\n([ \t]*+)(`{3,}+|~{3,}+)[ \t]*+\r?+$", re.MULTILINE)
_INDENT = re.compile(rb"\n([ \t]*+)[^\s]")
_CLOSE_TAG = re.compile(rb"</(?:script|pre|style|textarea)>", re.IGNORECASE)
_CLOSE_HTML = {b"<!--": b"-->", b"<?": b"?>", b"<![CDATA[": b"]]>"}

_RULE = re.compile(rb"\ {0,3}+(?:(?>(?:-[ \t]*+){3,})|(?>(?:_[ \t]*+){3,})|(?>(?:\*[ \t]*+){3,}))\r?+$", re.VERBOSE | re.MULTILINE)
_ITEM = re.compile(rb"\ {0,3}+(?:[-+*]|\d{1,9}+[.)])(?:[ \t]|\r?$)", re.VERBOSE | re.MULTILINE)
_ITEM_THAT_INTERRUPTS = re.compile(rb"\ {0,3}+(?:[-+*]|1[.)])[ \t]++[^\s]", re.VERBOSE)
_QUOTE_OR_ROW = re.compile(rb"\ {0,3}+[>|]", re.VERBOSE)
_TABLE_RULE = re.compile(rb"\ {0,3}+:?-++:?[ \t]*+\|[-:| \t]*+\r?+$", re.VERBOSE | re.MULTILINE)
_TAG_OR_NOTE = re.compile(
    rb"""\ {0,3}+(?:
        <[!?] | </?[A-Za-z][^<>:\n]*+>[ \t]*+\r?+$ | \[\^[^\]\n]++\]:
      | </?(?i:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|fieldset
        |figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol
        |optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul)(?=[ \t\r\n/>]|\Z)
    )""",
    re.VERBOSE | re.MULTILINE,
)
_LINK_TARGET = re.compile(rb"\ {0,3}+\[[^\]\n]++\]:", re.VERBOSE)
_INDENTED = re.compile(rb"(?:\ {4}|\ {0,3}\t)", re.VERBOSE)
_BLANK = b" \t\r\n"


class Heading(NamedTuple):
    """A heading: `start` to `stop` are its whole lines."""

    level: int
    title: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The headings of a text in order, and what is odd about it."""

    headings: tuple[Heading, ...] = ()
    problems: tuple[Problem, ...] = ()
    complete: bool = True


def read_outline(data: bytes, start: int) -> Outline:
    """The headings from `start`, which is the beginning of a line (or follows a byte order mark). Never raises on content."""
    scan = _Scan(data, start)
    headings = tuple(islice(scan.headings(), MAX_HEADINGS + 1))
    if scan.complete and len(headings) <= MAX_HEADINGS:
        return Outline(headings=headings, problems=tuple(scan.problems))
    problem = Problem(code="too-many-headings", message=f"more than {MAX_HEADINGS} headings, fences or rules; sections were not told apart")
    return Outline(problems=(problem,), complete=False)


_NOTHING = -1  # no line to be the continuation of
_SWALLOWED = -2  # a list item, quote, table or tag that takes the next line in; any other number is where a paragraph began


class _Scan:
    """One pass. `_floor` is a line's beginning before which nothing matters any more, `_place` what stands just above it."""

    def __init__(self, data: bytes, start: int) -> None:
        self.problems: list[Problem] = []
        self.complete = False
        self._data = data
        self._floor = start
        self._place = _NOTHING

    def headings(self) -> Iterator[Heading]:
        data, start = self._data, self._floor
        seen = 0
        match = _FIRST_LINE.match(data, start) or _LATER_LINE.search(data, start)
        while match and (seen := seen + 1) <= MAX_MARKS:
            line = max(data.rfind(b"\n", 0, match.start(match.lastindex or 0)) + 1, start)
            stop = _line_stop(data, match.end())
            if match.lastgroup == "atx":
                yield Heading(match.end() - match.start("atx"), _atx_title(data[match.end() : stop]), line, stop)
                self._settle(stop)
            elif match.lastgroup == "underline":
                yield from self._underlined(match, line, stop)
            else:
                stop = self._after_hidden(match, line, stop)
            match = _LATER_LINE.search(data, stop - 1)
        self.complete = match is None

    def _settle(self, floor: int, place: int = _NOTHING) -> None:
        self._floor = floor
        self._place = place

    def _underlined(self, match: re.Match[bytes], line: int, stop: int) -> Iterator[Heading]:
        place = self._place_above(line)
        mark = match["underline"]
        if place >= 0:
            yield Heading(1 if mark.startswith(b"=") else 2, _joined(self._data[place:line]), place, stop)
            self._settle(stop)
        elif mark.startswith(b"---"):
            self._settle(stop)
        elif mark == b"-":
            self._settle(stop, _SWALLOWED)
        else:
            self._settle(stop, line if place == _NOTHING else _SWALLOWED)

    def _place_above(self, line: int) -> int:
        data, at = self._data, line
        while at > self._floor:
            above = max(data.rfind(b"\n", self._floor, at - 1) + 1, self._floor)
            if not data[above:at].strip(_BLANK):
                break
            at = above
        place = self._place if at == self._floor else _NOTHING
        while at < line:
            place = _place_after(data, at, place)
            at = _line_stop(data, at)
        return place

    def _after_hidden(self, match: re.Match[bytes], line: int, stop: int) -> int:
        """Where the lines end that a fence or a piece of HTML hides; inside a list item they end with it."""
        mark = match.group(match.lastgroup or 0)
        if mark.startswith(b"`") and b"`" in self._data[match.end() : stop]:
            return stop
        margin = self._data[line : match.end() - len(mark)]
        in_item = bool(margin) and not margin.isspace()
        limit = self._item_stop(stop, len(margin.expandtabs(4))) if in_item else len(self._data)
        if match.lastgroup == "fence":
            after = self._after_fence(mark, stop, limit, in_item=in_item)
        else:
            after = self._after_html(mark, match.end(), limit)
        self._settle(after)
        return after

    def _item_stop(self, at: int, column: int) -> int:
        for line in _INDENT.finditer(self._data, at - 1):
            if len(line[1].expandtabs(4)) < column:
                return line.start() + 1
        return len(self._data)

    def _after_fence(self, mark: bytes, at: int, limit: int, *, in_item: bool) -> int:
        for line in _CLOSE_FENCE.finditer(self._data, at - 1, limit):
            if line[2].startswith(mark) and (in_item or not _INDENTED.match(line[1])):
                return _line_stop(self._data, line.end())
        return self._left_open("unclosed-fence", "a code fence is never closed", limit)

    def _after_html(self, mark: bytes, at: int, limit: int) -> int:
        if closing := _CLOSE_HTML.get(mark):
            found = self._data.find(closing, at - len(mark) + 2, limit)
        elif mark[1:2] == b"!":
            found = self._data.find(b">", at, limit)
        else:
            tag = _CLOSE_TAG.search(self._data, at, limit)
            found = tag.start() if tag else -1
        if found >= 0:
            return _line_stop(self._data, found)
        if mark == b"<!--":
            return self._left_open("unclosed-comment", "a comment is never closed", limit)
        return self._left_open("unclosed-html", "a piece of HTML is never closed", limit)

    def _left_open(self, code: str, what: str, limit: int) -> int:
        if limit == len(self._data):
            self.problems.append(Problem(code=code, message=f"{what}, so what follows it counts as part of it"))
        return limit


def _line_stop(data: bytes, at: int) -> int:
    return data.find(b"\n", at) + 1 or len(data)


def _place_after(data: bytes, at: int, place: int) -> int:
    """What the line at `at` leaves for the next one, given what stood above it."""
    in_paragraph = place >= 0
    if _INDENTED.match(data, at):
        return place
    if _RULE.match(data, at):
        return _NOTHING
    if place == _SWALLOWED or _QUOTE_OR_ROW.match(data, at) or _TABLE_RULE.match(data, at):
        return _SWALLOWED
    if in_paragraph:
        return _SWALLOWED if _ITEM_THAT_INTERRUPTS.match(data, at) else place
    if _ITEM.match(data, at) or _TAG_OR_NOTE.match(data, at):
        return _SWALLOWED
    return _NOTHING if _LINK_TARGET.match(data, at) else at


def _atx_title(rest: bytes) -> str:
    text = rest.strip(_BLANK)
    without = text.rstrip(b"#")
    return _text(without.rstrip(_BLANK) if without != text and without[-1:] in {b"", b" ", b"\t"} else text)


def _joined(lines: bytes) -> str:
    return _text(b" ".join(line.strip(_BLANK) for line in lines.split(b"\n") if line.strip(_BLANK)))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
