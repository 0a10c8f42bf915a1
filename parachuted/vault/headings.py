"""Headings: where a note has the headings that begin its sections, as CommonMark sees them.

A section begins at a top-level heading. A heading inside a list item or a quote is part of the text
it stands in: it begins no section and ends none. Most of a note is read here, where nothing but a
heading can be meant; the rest, up to the next sure heading, by the parser.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from parachuted.vault.blocks import MarkdownBlock, MarkdownRefusedError, read_blocks
from parachuted.vault.bounded_yaml import NoteProblem
from parachuted.vault.doubts import DoubtfulPart, find_doubt, find_left_open

MAX_HEADINGS = 50_000

_BLANK = b" \t\r\n"
_ATX = re.compile(rb"#{1,6}+(?=[ \t\r\n]|\Z)")
_ATX_LINE = re.compile(rb"\n#{1,6}+(?=[ \t\r\n]|\Z)")
_OF_INTEREST = rb"""(?:
    (?P<atx>\#{1,6}+)(?=[ \t\r\n]|\Z)
  | (?P<fence>~{3,}+|`{3,}+(?=[^`\n]*+$))
  | (?P<comment><!--)(?!-?>)
  | \ {0,3}+(?P<underline>=++|-++)[ \t]*+\r?+$
  | \ {0,3}+(?P<other>\#{1,6}+(?=[ \t\r\n]|\Z)|~{3}|`{3}|<[A-Za-z/!?])
)"""
_FIRST_LINE = re.compile(_OF_INTEREST, re.VERBOSE | re.MULTILINE)
_LATER_LINE = re.compile(rb"\n(?=[ #=\-`~<])" + _OF_INTEREST, re.VERBOSE | re.MULTILINE)
_CLOSE_FENCE = re.compile(rb"\n {0,3}+(`{3,}+|~{3,}+)[ \t]*+\r?+$", re.MULTILINE)


class Heading(NamedTuple):
    """A heading: `start` to `stop` are its whole lines."""

    level: int
    title: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The top-level headings of a text in order, and what is odd about it; not `complete`: sections
    could not be told apart.
    """

    headings: tuple[Heading, ...] = ()
    doubts: tuple[DoubtfulPart, ...] = ()
    problems: tuple[NoteProblem, ...] = ()
    complete: bool = True


def read_outline(data: bytes, start: int) -> Outline:
    """The headings from `start`, which is the beginning of a line (or follows a byte order mark).

    Never raises on content.
    """
    scan = _Scan(data, start)
    try:
        scan.read()
    except MarkdownRefusedError as refusal:
        return Outline(problems=(refusal.problem,), complete=False)
    problems = tuple(doubt.problem for doubt in scan.doubts)
    return Outline(headings=tuple(scan.headings), doubts=tuple(scan.doubts), problems=problems)


class _Scan:
    """One pass.

    Each step begins where a top-level block ended, with nothing open: what stands above does not
    matter any more.
    """

    def __init__(self, data: bytes, start: int) -> None:
        self.headings: list[Heading] = []
        self.doubts: list[DoubtfulPart] = []
        self._data = data
        self._start = start

    def read(self) -> None:
        data, at = self._data, self._start
        if data.count(b"\r") != data.count(b"\r\n"):  # a lone CR ends a line too
            self._parse(at, len(data))
            return
        while at < len(data):
            at = self._read_plain(at)

    def _read_plain(self, at: int) -> int:
        """Read on from `at` as far as no parser is needed, then let the parser read up to a heading
        that is plain again. Returns its end.

        A line that begins with its first byte stands in no list item and no quote: so a fence or a
        comment that begins there is a top-level block, and so is a heading there that neither
        hides. All else that may be a heading, or hide one, is the parser's to tell.
        """
        data = self._data
        match = _FIRST_LINE.match(data, at) or _LATER_LINE.search(data, at)
        while match:
            kind, stop = match.lastgroup, _line_stop(data, match.end())
            if kind == "atx":
                self._add(
                    Heading(
                        match.end() - match.start("atx"),
                        _atx_title(data[match.end() : stop]),
                        match.start("atx"),
                        stop,
                    )
                )
                at = stop
            elif kind in {"fence", "comment"}:
                stop = (
                    _after_fence(data, match["fence"], stop)
                    if kind == "fence"
                    else _after_comment(data, match.end())
                )
                at = stop or at
            elif kind == "other" or not self._is_below_blank(match.start()):
                stop = 0
            if not stop:
                return self._parse_from(at, match.end())
            match = _LATER_LINE.search(data, stop - 1)
        return len(data)

    def _is_below_blank(self, line_end: int) -> bool:
        """Whether the line that ends there is blank, or above the text."""
        above = max(self._data.rfind(b"\n", self._start, line_end) + 1, self._start)
        return line_end <= self._start or not self._data[above:line_end].strip(_BLANK)

    def _parse_from(self, at: int, doubtful: int) -> int:
        """Parse from `at` beyond `doubtful` up to a line of hashes that proves to be a heading.

        Returns its end.
        """
        candidates = _ATX_LINE.finditer(self._data, doubtful)
        skipped = 0
        while (line := next(islice(candidates, skipped, None), None)) is not None:
            stop = _line_stop(self._data, line.end())
            if self._parse(at, stop, line.start() + 1):
                return stop
            skipped = 4 * skipped + 3  # each attempt reads all again, so there are few
        self._parse(at, len(self._data))
        return len(self._data)

    def _parse(self, at: int, stop: int, last: int | None = None) -> bool:
        """Take what the parser sees between; with `last`, only if its last block is a heading that
        begins there.
        """
        data = self._data
        blocks = list(read_blocks(data, at, stop))
        if last is not None and (blocks[-1].kind, blocks[-1].start) != ("Heading", last):
            return False
        for block in blocks:
            if block.kind == "Heading":
                self._add(_heading(block, data))
        found = [find_doubt(block, data) for block in blocks]
        if last is None and blocks and found[-1] is None:
            found.append(find_left_open(blocks[-1], data))
        self.doubts += [doubt for doubt in found if doubt is not None]
        return True

    def _add(self, heading: Heading) -> None:
        if len(self.headings) == MAX_HEADINGS:
            raise MarkdownRefusedError(
                "too-many-headings",
                f"more than {MAX_HEADINGS} headings; its sections were not read",
            )
        self.headings.append(heading)


def _after_fence(data: bytes, mark: bytes, at: int) -> int:
    """Where the line after the fence's end begins; 0 where it has none."""
    return next(
        (
            _line_stop(data, line.end())
            for line in _CLOSE_FENCE.finditer(data, at - 1)
            if line[1].startswith(mark)
        ),
        0,
    )


def _after_comment(data: bytes, at: int) -> int:
    found = data.find(b"-->", at)
    return _line_stop(data, found) if found >= 0 else 0


def _heading(block: MarkdownBlock, data: bytes) -> Heading:
    start, stop = block.start, block.stop
    lines = data[start:stop].rstrip(b"\r\n")
    start -= len(data[max(start - 3, 0) : start]) - len(
        data[max(start - 3, 0) : start].rstrip(b" ")
    )
    underline = max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1
    if not underline and (atx := _ATX.match(lines)) is not None:
        return Heading(block.level, _atx_title(lines[atx.end() :]), start, stop)
    return Heading(block.level, _joined(lines[:underline]), start, stop)


def _line_stop(data: bytes, at: int) -> int:
    return data.find(b"\n", at) + 1 or len(data)


def _atx_title(rest: bytes) -> str:
    text = rest.strip(_BLANK)
    without = text.rstrip(b"#")
    return _text(
        without.rstrip(_BLANK) if without != text and without[-1:] in {b"", b" ", b"\t"} else text
    )


def _joined(lines: bytes) -> str:
    return _text(
        b" ".join(
            line.strip(_BLANK)
            for line in lines.replace(b"\r", b"\n").split(b"\n")
            if line.strip(_BLANK)
        )
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
