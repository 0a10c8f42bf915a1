"""Doubts: parts of a note that markdown parsers read differently, so that a heading may begin there
for one and not for another.

CommonMark is exact, but the kept parser, other parsers and people's editors differ on a few rare
shapes. What one reading would cut away there another would keep, so an edit that would remove such
a part is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from parachuted.vault.blocks import MarkdownBlock, read_blocks
from parachuted.vault.bounded_yaml import NoteProblem

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
    """A part of a note, as byte offsets, that may hold other headings than the outline says.

    `problem` says how to settle it.
    """

    problem: NoteProblem
    start: int
    stop: int


def find_doubt(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    """What may be read otherwise in this top-level block."""
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
    """That the note's last block, a fence or a piece of HTML, was never closed: a heading put below
    it would be part of it.
    """
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
    return DoubtfulPart(NoteProblem(code=code, message=message), block.start, len(data))


def _table_or_heading(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    text = data[block.start : block.stop]
    if b"|" not in text or not any(map(_is_table_rule, text.splitlines()[1:-1])):
        return None
    where = (
        f"the table at line {_line(data, block.start)} has a line of dashes or equals signs "
        "below it"
    )
    message = f"{where} and so is a heading to some readers; put a blank line between them"
    return DoubtfulPart(
        NoteProblem(code="table-or-heading", message=message), block.start, block.stop
    )


def _below_definition(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    """Right below a link definition, an indented line, a tag or a bare list marker is text to
    CommonMark; some see another block begin.
    """
    start = _line_start(block, data)
    above = data.rfind(b"\n", 0, max(start - 1, 0)) + 1
    is_heading = (
        block.kind == "Heading"
        and _line_stop(data, start) < block.stop
        and _DEFINITION.match(data, above, start)
    )
    if not (is_heading or _INDENTED.match(data, start) or _LONE_TAG.match(data, start)):
        return None
    below = _BLANK_LINE.search(data, block.stop - 1)
    message = (
        f"line {_line(data, start)} stands right below a link's definition, where readers "
        "differ; put a blank line above it"
    )
    return DoubtfulPart(
        NoteProblem(code="below-definition", message=message),
        start,
        below.start() + 1 if below else len(data),
    )


def _line_start(block: MarkdownBlock, data: bytes) -> int:
    return max(data.rfind(b"\n", 0, block.start), data.rfind(b"\r", 0, block.start)) + 1


def _is_table_rule(line: bytes) -> bool:
    return b"|" in line and b"-" in line and not line.strip(b"|-: \t")


def _crossed_tags(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    """Any of the four closing tags ends such a block in CommonMark, only its own in the kept
    parser.
    """
    tag = _RAW_TAG.match(data, block.start, block.stop)
    closing = _CLOSE_RAW.search(data, block.start, block.stop) if tag else None
    if tag is None or closing is None or tag[1].lower() == closing[1].lower():
        return None
    name = tag[1].decode().lower()
    message = (
        f"the <{name}> at line {_line(data, block.start)} is ended by another tag, "
        f"{closing[0].decode()}; close it with </{name}> first"
    )
    return DoubtfulPart(NoteProblem(code="crossed-tags", message=message), block.start, block.stop)


def _rule_below_definition(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    """Dashes right below a link definition are a rule in the kept parser and text in cmark, so an
    underline may follow, or HTML may not.
    """
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
    return DoubtfulPart(
        NoteProblem(code="rule-below-definition", message=message),
        block.start,
        block.stop + len(run),
    )


def _with_lf(data: bytes) -> bytes:
    """The text with LF for a lone CR too, which ends a line as well; the length stays."""
    return data.replace(b"\r\n", b" \n").replace(b"\r", b"\n")


def _underline_below_list(block: MarkdownBlock, data: bytes) -> DoubtfulPart | None:
    start = data.rfind(b"\n", 0, block.start) + 1
    stop = _line_stop(data, _line_stop(data, block.stop - 1))
    text = _with_lf(data[start:stop])
    found = _end_of_underline(text) if _UNDERLINE.search(text) else None
    if found is None:
        return None
    end = start + found
    message = (
        f"line {_line(data, end)} may underline a heading or end a list or quote; put a "
        "blank line above it"
    )
    return DoubtfulPart(
        NoteProblem(code="underline-below-list", message=message), block.start, max(block.stop, end)
    )


def _end_of_underline(text: bytes) -> int | None:
    """Where an underline ends whose text follows, with no blank line between, an indented line or a
    link definition.

    To one parser an indented line is code, not text. Another ends an item or quote after a
    definition, where the rest let its text go on.
    """
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


def _line_stop(data: bytes, at: int) -> int:
    return data.find(b"\n", at) + 1 or len(data)
