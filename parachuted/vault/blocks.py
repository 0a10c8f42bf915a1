"""Blocks: the top-level blocks of a markdown text as CommonMark sees them, by the parser.

Its memory grows with the marks of a text, its time also with nesting: both are bounded here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pyromark
from pyromark.event import Event, Range

from parachuted.vault.bounded_yaml import NoteProblem

MAX_MARKS = 1_000_000
MAX_DEPTH = 200
_SMALL = 1 << 14  # in so few bytes no nesting takes long

# One ASCII character for each byte, so that a byte's place in the note is its place in the parsed
# text, whatever the encoding.
# Of the control characters only tabs and line ends are white space to CommonMark; the parser would
# take VT and FF for it too.
_PLAIN = bytes(
    code if code in b"\t\n\r" or 0x20 <= code < 0x7F else ord("@")  # noqa: PLR2004 - printable ASCII
    for code in range(256)
)
_LONE_RETURN = re.compile(
    rb"\r(?!\n)"
)  # it ends a line in CommonMark, in the parser not everywhere
_MARKS = b"\n\r*_`<>[]\\+-.)"
_TOO_DEEP = re.compile(
    rb"^(?:[ \t>]|[-+*](?=[ \t])|\d{1,9}+[.)]){%d}[ \t]*+(?:>|[-+*](?=[ \t\r\n])|\d{1,9}+[.)])"
    % MAX_DEPTH,
    re.MULTILINE,
)


class MarkdownBlock(NamedTuple):
    """A top-level block, indent left out; `level` is a heading's, else 0."""

    kind: str
    level: int
    start: int
    stop: int


class MarkdownRefusedError(Exception):
    """The text cannot be parsed within bounds."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.problem = NoteProblem(code=code, message=message)


def read_blocks(data: bytes, start: int, stop: int) -> Iterator[MarkdownBlock]:
    """The top-level blocks in order; `start` begins a line. Raises MarkdownRefusedError."""
    text = _LONE_RETURN.sub(b"\n", data[start:stop].translate(_PLAIN))
    _check_bounds(text)
    end = 0
    for event, place in _events(text.decode("ascii")):
        tag = (
            event["Start"]
            if isinstance(event, dict) and "Start" in event
            else event
            if event == "Rule"
            else None
        )
        if place["start"] >= end and tag is not None:
            end = place["end"]
            kind, level = _kind(tag)
            yield MarkdownBlock(kind, level, start + place["start"], start + end)


def _check_bounds(text: bytes) -> None:
    if len(text) > _SMALL:
        if len(text) - len(text.translate(None, _MARKS)) > MAX_MARKS:
            raise MarkdownRefusedError(
                "too-many-marks",
                f"more than {MAX_MARKS} lines and marks; its sections were not read",
            )
        if _TOO_DEEP.search(text):
            raise MarkdownRefusedError(
                "too-deep", f"lists or quotes nested {MAX_DEPTH} deep; its sections were not read"
            )


def _events(text: str) -> Iterator[tuple[Event, Range]]:
    try:
        yield from pyromark.events_with_range(text)
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise MarkdownRefusedError(
            "not-parsed", "the markdown parser failed on this text; its sections were not read"
        ) from error


def _kind(tag: object) -> tuple[str, int]:
    if not isinstance(tag, dict):
        return str(tag), 0
    ((kind, value),) = tag.items()
    if kind == "Heading":
        return kind, int(value["level"][1])
    return ("Fenced" if isinstance(value, dict) and "Fenced" in value else kind), 0
