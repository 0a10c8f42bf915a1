"""Title, description and focus of a note, found without a model. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from parachuted.agents.inline import bare, name_of, plain
from parachuted.vault import Note, parse_note

_FOCUS = "Current Focus"
_FOCUS_LINES = 3
_DESCRIPTION_CHARS = 16 << 10
_PARAGRAPH_CHARS = 2000
_DESCRIPTION_KEYS = ("description", "summary")
_LOGS = {"history", "watching"}

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|%%.*?(?:%%|\Z)", re.DOTALL)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_QUOTE = re.compile(r" {0,3}>")
_CALLOUT = re.compile(r" {0,3}>\s*\[![^\]]*\]")
_HTML = re.compile(r" {0,3}</?[A-Za-z!]")
_NO_PARAGRAPH = re.compile(
    r"\s*+(?:#{1,6}(?:\s|$)|[-*+]\s|\d{1,9}[.)]\s|\||[\w "
    r"-]++::|(?:!\[\[[^\]]*+\]\]|!\[[^\]]*+\]\([^)]*+\)|#\S++|\s)++$)"
)

_TAGS_AT_END = re.compile(r"(?:\s+#[^\s#]+)++\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """What to say of one watched note, each a plain line."""

    path: str
    title: str
    description: str
    focus: tuple[str, ...]


def extract_note(path: str, text: str) -> Extract:
    """Take title, description and focus from a note's text; a note without a title goes by the name
    of its place.
    """
    note = parse_note(text.encode("utf-8", "surrogateescape"))
    return Extract(
        path=path,
        title=title_of(path, note),
        description=describe(note),
        focus=tuple(islice(_focus(note), _FOCUS_LINES)),
    )


def title_of(path: str, note: Note) -> str:
    """The note's `title:`, else its first heading of level 1, else the name of its place."""
    value = note.values.get("title")
    return (
        plain(value if isinstance(value, str) else "") or plain(note.title or "") or name_of(path)
    )


def describe(note: Note) -> str:
    """How a note describes itself: its `description:`, else the first quotation above its sections,
    else its first paragraph.
    """
    for key in _DESCRIPTION_KEYS:
        value = note.values.get(key)
        if isinstance(value, str) and (line := plain(value)):
            return line
    stop = next((section.start for section in note.sections if section.level > 1), note.body.stop)
    head = list(visible_lines(_text(note, note.body.start, stop)))
    quoted = next((line for line in map(plain, filter(_QUOTE.match, head)) if line), "")
    first = next(
        (
            section
            for section in note.sections
            if section.level > 1 and section.title.strip().casefold() not in _LOGS
        ),
        None,
    )
    below = (
        visible_lines(_text(note, first.body_start, first.own_stop))
        if first is not None
        else iter(())
    )
    return quoted or _paragraph(head) or _paragraph(below)


def visible_lines(text: str) -> Iterator[str]:
    """Yield the lines that are read: none in a comment, a code fence, a callout or a block of
    HTML.
    """
    fence, skips = "", ""
    for line in _COMMENT.sub("", text).splitlines():
        mark = _FENCE.match(line)
        if fence:
            is_end = (
                mark is not None and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            )
            fence = "" if is_end else fence
            continue
        if (skips == "quote" and not _QUOTE.match(line)) or (skips == "html" and not line.strip()):
            skips = ""
        if not skips:
            skips = "quote" if _CALLOUT.match(line) else "html" if _HTML.match(line) else ""
        if mark is not None and not skips:
            fence = mark[1]
        elif not skips:
            yield line


def _focus(note: Note) -> Iterator[str]:
    section = note.section(_FOCUS)
    lines = visible_lines(note.text(section.body)) if section is not None else iter(())
    return (line for line in map(plain, lines) if line)


def _paragraph(lines: Iterator[str] | list[str]) -> str:
    found: list[str] = []
    for line in lines:
        if line.strip() and not (_QUOTE.match(line) or _NO_PARAGRAPH.match(line)) and bare(line):
            found.append(line)
        elif found:
            break
    return plain(_TAGS_AT_END.sub("", " ".join(found)[:_PARAGRAPH_CHARS]))


def _text(note: Note, start: int, stop: int) -> str:
    return note.data[start : min(stop, start + _DESCRIPTION_CHARS)].decode("utf-8", "replace")
