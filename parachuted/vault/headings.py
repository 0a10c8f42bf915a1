"""Headings: where a note has the headings that begin its sections, as CommonMark sees them.

One inside a list item or a quote begins no section. What is certain is read here, the rest parsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from parachuted.vault.blocks import MarkdownBlock, MarkdownRefusedError, read_blocks
from parachuted.vault.bounded_yaml import NoteProblem
from parachuted.vault.frontmatter import line_stop

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
    level: int
    title: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The top-level headings in order; not `complete`: sections could not be distinguished."""

    headings: tuple[Heading, ...] = ()
    doubts: tuple[DoubtfulPart, ...] = ()
    problems: tuple[NoteProblem, ...] = ()
    complete: bool = True


def read_outline(data: bytes, start: int) -> Outline:
    """Never raises on content. `start` begins a line, or follows a byte order mark."""
    scan = _Scan(data, start)
    try:
        scan.read()
    except MarkdownRefusedError as refusal:
        return Outline(problems=(refusal.problem,), complete=False)
    problems = tuple(doubt.problem for doubt in scan.doubts)
    return Outline(headings=tuple(scan.headings), doubts=tuple(scan.doubts), problems=problems)


class _Scan:
    """Each step begins where a top-level block ended: what stands above matters no more."""

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
        """Read on as far as no parser is needed, then up to the next plain heading with it.

        What begins with a line's first byte is in no list item and no quote, so a fence, a comment
        or a heading there is a top-level block. All else is the parser's to tell.
        """
        data = self._data
        match = _FIRST_LINE.match(data, at) or _LATER_LINE.search(data, at)
        while match:
            kind, stop = match.lastgroup, line_stop(data, match.end())
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
        above = max(self._data.rfind(b"\n", self._start, line_end) + 1, self._start)
        return line_end <= self._start or not self._data[above:line_end].strip(_BLANK)

    def _parse_from(self, at: int, doubtful: int) -> int:
        """Parse beyond `doubtful` up to a line of hashes that proves a heading; returns its end."""
        candidates = _ATX_LINE.finditer(self._data, doubtful)
        skipped = 0
        while (line := next(islice(candidates, skipped, None), None)) is not None:
            stop = line_stop(self._data, line.end())
            if self._parse(at, stop, line.start() + 1):
                return stop
            skipped = 4 * skipped + 3  # each attempt reads all again, so there are few
        self._parse(at, len(self._data))
        return len(self._data)

    def _parse(self, at: int, stop: int, last: int | None = None) -> bool:
        """With `last`, only if the last block is a heading that begins there."""
        data = self._data
        blocks = list(read_blocks(data, at, stop))
        if last is not None and (blocks[-1].kind, blocks[-1].start) != ("Heading", last):
            return False
        for block in blocks:
            if block.kind == "Heading":
                self._add(_heading(block, data))
        parts = [find_doubt(block, data) for block in blocks]
        if last is None and blocks and parts[-1] is None:
            parts.append(find_left_open(blocks[-1], data))
        self.doubts += [doubt for doubt in parts if doubt is not None]
        return True

    def _add(self, heading: Heading) -> None:
        if len(self.headings) == MAX_HEADINGS:
            raise MarkdownRefusedError(
                "too-many-headings",
                f"more than {MAX_HEADINGS} headings; its sections were not read",
            )
        self.headings.append(heading)


def _after_fence(data: bytes, mark: bytes, at: int) -> int:
    return next(
        (
            line_stop(data, line.end())
            for line in _CLOSE_FENCE.finditer(data, at - 1)
            if line[1].startswith(mark)
        ),
        0,
    )


def _after_comment(data: bytes, at: int) -> int:
    found = data.find(b"-->", at)
    return line_stop(data, found) if found >= 0 else 0


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


def _atx_title(rest: bytes) -> str:
    text = rest.strip(_BLANK)
    without = text.rstrip(b"#")
    if without != text and without[-1:] in {b"", b" ", b"\t"}:
        text = without.rstrip(_BLANK)
    return text.decode("utf-8", "replace")


def _joined(lines: bytes) -> str:
    stripped = (line.strip(_BLANK) for line in lines.replace(b"\r", b"\n").split(b"\n"))
    return b" ".join(filter(None, stripped)).decode("utf-8", "replace")


_RAW_TAG = re.compile(rb"<(script|pre|style|textarea)(?=[ \t\r\n>]|\Z)", re.IGNORECASE)
_CLOSE_RAW = re.compile(rb"</(script|pre|style|textarea)>", re.IGNORECASE)
_UNDERLINE = re.compile(rb"^ {0,3}(?:=++|-++)[ \t]*+$", re.MULTILINE)
_LONE_TAG = re.compile(
    rb" {0,3}</?[A-Za-z][A-Za-z0-9-]*+(?:[ \t][^<>\r\n]*+)?/?>[ \t]*+(?:[\r\n]|\Z)"
)
_DEFINITION = re.compile(rb" {0,3}\[[^\]\r\n]++\]:")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*+(?:\n|\Z)")
_NEAR = 1 << 12
_INDENTED = re.compile(rb" {4}| {0,3}\t")
_MARKER = re.compile(rb" {0,3}(?:>|(?:[-+*]|\d{1,9}[.)])(?:[ \t]|\Z))")


class DoubtfulPart(NamedTuple):
    problem: NoteProblem
    start: int
    stop: int


def _doubt(code: str, message: str, start: int, stop: int) -> DoubtfulPart:
    return DoubtfulPart(NoteProblem(code=code, message=message), start, stop)


def find_doubt(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    if block.kind == "Heading":
        return _table_or_heading(block, data) or _below_definition(block, data)
    if block.kind == "HtmlBlock":
        return _crossed_tags(block, data)
    if block.kind == "Paragraph":
        return _below_definition(block, data)
    if block.kind == "Rule":
        return _rule_below_definition(block, data)
    return _underline_below_list(block, data) if block.kind in {"List", "BlockQuote"} else None


def find_left_open(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    """A fence or HTML at the end that is never closed: a heading put below would be part of it."""
    if block.kind not in {"Fenced", "HtmlBlock"}:
        return None
    probe = data[block.start :] + b"\n\n# x\n"
    if any(found.kind == "Heading" for found in read_blocks(probe, 0, len(probe))):
        return None
    line = _line(data, block.start)
    if block.kind == "Fenced":
        text = data[block.start : block.stop]
        marks = text[: len(text) - len(text.lstrip(text[:1]))].decode()
        code, what, way = "unclosed-fence", "code fence", f"a line {marks[:80]}"
    elif data.startswith(b"<!--", block.start):
        code, what, way = "unclosed-comment", "comment", "-->"
    else:
        code, what, way = "unclosed-html", "piece of HTML", "its end"
    message = (
        f"the {what} at line {line} is never closed, so all that follows counts as part of "
        f"it; close it with {way}"
    )
    return _doubt(code, message, block.start, len(data))


def _table_or_heading(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    text = data[block.start : block.stop]
    if b"|" not in text or not any(map(_is_table_rule, text.splitlines()[1:-1])):
        return None
    where = (
        f"the table at line {_line(data, block.start)} has a line of dashes or equals signs "
        "below it"
    )
    message = f"{where} and so is a heading to some readers; put a blank line between them"
    return _doubt("table-or-heading", message, block.start, block.stop)


def _below_definition(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    """Below a link definition some see an indented line, a tag or a list marker begin a block."""
    start = _line_start(block, data)
    above = data.rfind(b"\n", 0, max(start - 1, 0)) + 1
    is_heading = (
        block.kind == "Heading"
        and line_stop(data, start) < block.stop
        and _DEFINITION.match(data, above, start)
    )
    if not (is_heading or _INDENTED.match(data, start) or _LONE_TAG.match(data, start)):
        return None
    below = _BLANK_LINE.search(data, block.stop - 1)
    message = (
        f"line {_line(data, start)} stands right below a link's definition, where readers "
        "differ; put a blank line above it"
    )
    stop = below.start() + 1 if below else len(data)
    return _doubt("below-definition", message, start, stop)


def _line_start(block: MarkdownBlock, data: bytes) -> int:
    return max(data.rfind(b"\n", 0, block.start), data.rfind(b"\r", 0, block.start)) + 1


def _is_table_rule(line: bytes) -> bool:
    return b"|" in line and b"-" in line and not line.strip(b"|-: \t")


def _crossed_tags(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    """Any of the four closing tags ends such a block in CommonMark, only its own in our parser."""
    tag = _RAW_TAG.match(data, block.start, block.stop)
    closing = _CLOSE_RAW.search(data, block.start, block.stop) if tag else None
    if tag is None or closing is None or tag[1].lower() == closing[1].lower():
        return None
    name = tag[1].decode().lower()
    message = (
        f"the <{name}> at line {_line(data, block.start)} is ended by another tag, "
        f"{closing[0].decode()}; close it with </{name}> first"
    )
    return _doubt("crossed-tags", message, block.start, block.stop)


def _rule_below_definition(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    """Dashes below a link definition are a rule in our parser and text in cmark."""
    definition = data.rfind(b"]:", max(block.start - _NEAR, 0), block.start)
    between = _with_lf(data[definition : block.start]) + b"x" if definition >= 0 else b"\n\n"
    if _BLANK_LINE.search(between) or _UNDERLINE.search(between):
        return None
    below = _with_lf(data[block.stop : block.stop + _NEAR])
    blank = _BLANK_LINE.search(b"\n" + below)
    run = below[: blank.start()] if blank else below
    if b"<" not in run and not _UNDERLINE.search(run) and (blank or len(below) < _NEAR):
        return None
    message = (
        f"line {_line(data, block.start)} is a rule to some readers and text to others; put "
        "a blank line above it"
    )
    return _doubt("rule-below-definition", message, block.start, block.stop + len(run))


def _with_lf(data: bytes) -> bytes:
    """A lone CR ends a line too; the length stays."""
    return data.replace(b"\r\n", b" \n").replace(b"\r", b"\n")


def _underline_below_list(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    start = data.rfind(b"\n", 0, block.start) + 1
    stop = line_stop(data, line_stop(data, block.stop - 1))
    text = _with_lf(data[start:stop])
    found = _end_of_underline(text) if _UNDERLINE.search(text) else None
    if found is None:
        return None
    end = start + found
    message = (
        f"line {_line(data, end)} may underline a heading or end a list or quote; put a "
        "blank line above it"
    )
    return _doubt("underline-below-list", message, block.start, max(block.stop, end))


def _end_of_underline(text: bytes) -> int | None:
    """Where an underline ends that only some parsers take for a heading's."""
    below_indented = below_definition = below_text = False
    end = -1
    for line in text.split(b"\n"):
        end += len(line) + 1
        if below_text and _UNDERLINE.match(line):
            return end
        if not line.strip(b" \t"):
            below_indented = below_definition = below_text = False
        elif _MARKER.match(line):
            below_indented = below_text = False
        elif _INDENTED.match(line):
            below_indented = True
        else:
            below_text = below_text or below_indented or below_definition
        below_definition = below_definition or b"]:" in line
    return None


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1
