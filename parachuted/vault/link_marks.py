"""Link marks: where a note links to files, outside code and comments, found in linear time."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from parachuted.texts.yaml_events import MAX_BYTES
from parachuted.vault.bounded_yaml import YamlRefusedError, YamlText, read_texts
from parachuted.vault.frontmatter import CharacterOffsets, Span, keys_by_line
from parachuted.vault.note import ParsedNote

LinkKind: TypeAlias = Literal["wiki", "markdown", "embed"]
Form: TypeAlias = Literal[
    "wiki", "bare", "angle", "single", "double", "plain", "block", "flow", "unparsed"
]

_MARK = re.compile(rb"[\\`~<%\[\]]")
_WIKI = re.compile(rb"\[\[([^\[\]\r\n#|]*+)(?:#([^\[\]\r\n|]*+))?(?:\|([^\[\]\r\n]*+))?\]\]")
_IN_UNPARSED = re.compile(rb"([\"']?)" + _WIKI.pattern)
_BARE = rb"(?P<bare>(?:[^\s()\\<]|\\.)(?>(?:[^\s()\\]|\\.|\((?>(?:[^\s()\\]|\\.|\((?>(?:[^\s()\\]|\\.)*)\))*)\))*))"  # noqa: E501
_TARGET = rb"(?:<(?P<angle>(?>(?:[^<>\\\r\n]|\\.)*))>|" + _BARE + rb")"
_TITLE = rb"""(?:"(?>(?:[^"\\]|\\.){0,2000})"|'(?>(?:[^'\\]|\\.){0,2000})'|\((?>(?:[^()\\]|\\.){0,2000})\))"""  # noqa: E501
_INLINE = re.compile(
    rb"\]\([ \t]*+(?:\r?\n[ \t]*+)?" + _TARGET + rb"(?:\s++" + _TITLE + rb")?\s*+\)"
)
_IN_SCALAR = re.compile(  # a text in the frontmatter may go on in the next line
    rb"\[\[([^\[\]#|]*+)(?:#([^\[\]|]*+))?(?:\|([^\[\]]*+))?\]\]"
    rb"|\[([^\[\]\r\n]*+)" + _INLINE.pattern
)
_FOLD = re.compile(rb"[ \t]*+\r?\n[ \t]*+")
_DEFINITION = re.compile(rb"\[(?!\^)([^\[\]\r\n]++)\]:[ \t]*+" + _TARGET)
_TICKS = re.compile(rb"`++")
_TILDES = re.compile(rb"~{3,}+")
_BLANK_LINE = re.compile(rb"\n[ \t]*+\r?\n")
_MARGIN = re.compile(rb"[ \t>]*+(?>(?:(?:[-+*]|\d{1,9}+[.)])[ \t]++)*)\Z")
_CLOSE_FENCE = re.compile(rb"\n[ \t>]*+(`{3,}+|~{3,}+)[ \t]*+\r?+$", re.MULTILINE)
_RAW = re.compile(rb"<(?:script|pre|style|textarea)(?=[\s>])", re.IGNORECASE)
_CLOSE_RAW = re.compile(rb"</(?:script|pre|style|textarea)>", re.IGNORECASE)
_ABROAD = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*+:|//")
ABROAD_WIKI = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*+://")
LONGEST_LABEL = 2_000
_WIDEST_MARGIN = 200
_DEEPEST = 3  # spaces before a definition


@dataclass(frozen=True, slots=True)
class LinkMark:
    kind: LinkKind
    form: Form
    span: Span
    anchor: bytes | None
    label: bytes | None


def find_links(note: ParsedNote) -> Iterator[LinkMark]:
    """In order, without those to a place in the note itself."""
    yield from _matter_links(note)
    if note.data.find(b"[", note.body.start) >= 0:
        yield from _Scan(note.data, note.body.start).links()


def _matter_links(note: ParsedNote) -> Iterator[LinkMark]:
    """In a frontmatter that is not YAML, those of each key whose own lines are."""
    block = note.frontmatter
    if block is None or b"[" not in note.data[block.start : block.stop]:
        return
    try:
        yield from _parsed_links(note.data, block)
    except YamlRefusedError:
        is_large = block.stop - block.start > MAX_BYTES
        starts = [] if is_large else [key.span.start for key in keys_by_line(note.data, block)[0]]
        for start, stop in pairwise([block.start, *starts, block.stop]):
            yield from _links_of_lines(note.data, Span(start=start, stop=stop))


def _links_of_lines(data: bytes, lines: Span) -> Iterator[LinkMark]:
    if data.find(b"[", lines.start, lines.stop) < 0:
        return
    try:
        yield from _parsed_links(data, lines)
    except YamlRefusedError:
        yield from _unparsed_links(data, lines)


def _unparsed_links(data: bytes, lines: Span) -> Iterator[LinkMark]:
    """What is the whole of a quoted text certainly ends there."""
    for match in _IN_UNPARSED.finditer(data, lines.start, lines.stop):
        line = data[
            max(
                data.rfind(b"\n", 0, match.start()) + 1, match.start() - _WIDEST_MARGIN
            ) : match.start()
        ]
        if not line.lstrip().startswith(b"#"):
            is_whole = match[1] and data.startswith(match[1], match.end())
            form: Form = "unparsed" if not is_whole else "single" if match[1] == b"'" else "double"
            yield from _wiki(match, "wiki", form, first=2)


def _parsed_links(data: bytes, lines: Span) -> list[LinkMark]:
    try:
        text = data[lines.start : lines.stop].decode()
    except UnicodeDecodeError as error:
        raise YamlRefusedError("frontmatter-not-utf8", "it is not UTF-8") from error
    offset = CharacterOffsets(text)
    marks: list[LinkMark] = []
    for one in read_texts(text):
        place = Span(
            start=lines.start + offset.bytes(one.start), stop=lines.start + offset.bytes(one.stop)
        )
        if one.style != "flow":
            marks += _text_links(data, place, one)
        elif (match := _WIKI.fullmatch(data, place.start, place.stop)) is not None:
            marks += _wiki(match, "wiki", "flow")
    return marks


def _text_links(data: bytes, place: Span, text: YamlText) -> Iterator[LinkMark]:
    start = place.start
    if text.style == "block":
        start = data.find(b"\n", start, place.stop) + 1 or place.stop
    for match in _IN_SCALAR.finditer(data, start, place.stop):
        is_split = b"\n" in match[0]
        if match[4] is not None:
            target = match["bare"] or match["angle"] or b""
            if not is_split and not (b"\\" in target or b"''" in target):
                yield from _written_target(match, "markdown", match[4])
        elif not is_split or scalar_text(match[0], text.style) in text.value:
            yield from _wiki(match, "wiki", text.style)


def scalar_text(raw: bytes, form: Form) -> str:
    """What that piece of a text in the frontmatter says, lines joined and escapes undone."""
    if form == "double" and b"\\" in raw:
        with suppress(YamlRefusedError, UnicodeDecodeError):
            (text,) = read_texts(f'"{raw.decode()}"')
            return text.value
        raw = re.sub(rb"\\(.)", rb"\1", raw)
    raw = _FOLD.sub(b" ", raw)
    return (raw.replace(b"''", b"'") if form == "single" else raw).decode(
        "utf-8", "surrogateescape"
    )


def _wiki(
    match: re.Match[bytes], kind: LinkKind, form: Form, *, first: int = 1
) -> Iterator[LinkMark]:
    start = match.start(first)
    text, anchor, label = match.groups()[first - 1 : first + 2]
    if label is not None:  # in a table the bar is written `\|`
        if anchor is None:
            text = text.removesuffix(b"\\")
        else:
            anchor = anchor.removesuffix(b"\\")
    stop = start + len(text.rstrip())
    start += len(text) - len(text.lstrip())
    if stop > start and not ABROAD_WIKI.match(text.lstrip()):
        yield LinkMark(kind, form, Span(start=start, stop=stop), anchor, label)


def _written_target(match: re.Match[bytes], kind: LinkKind, label: bytes) -> Iterator[LinkMark]:
    form: Form = "bare" if match["bare"] is not None else "angle"
    text = match[form]
    path, mark, anchor = text.partition(b"#")
    if path and not _ABROAD.match(path):
        start = match.start(form)
        yield LinkMark(
            kind, form, Span(start=start, stop=start + len(path)), anchor if mark else None, label
        )


class _Scan:
    """One pass over the body; what was once sought in vain is not sought again."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._start = data, start
        self._open: list[int] = []
        self._runs: dict[int, list[int]] | None = None
        self._paragraph_stop = start
        self._vain: set[bytes] = set()

    def links(self) -> Iterator[LinkMark]:
        data, at = self._data, self._start
        while (match := _MARK.search(data, at)) is not None:
            here, mark = match.start(), match[0]
            at = here + 1
            if mark == b"\\":
                at = here + 2
            elif mark == b"[":
                at = yield from self._bracket(here)
            elif mark == b"]":
                at = yield from self._closed(here)
            elif mark in b"`~":
                at = self._after_code(here)
            elif (after := self._after_hidden(here, mark)) is not None:
                at = after

    def _bracket(self, here: int) -> Generator[LinkMark, None, int]:
        data = self._data
        is_embed = (
            here > self._start
            and data[here - 1 : here] == b"!"
            and data[here - 2 : here - 1] != b"\\"
        )
        if (wiki := _WIKI.match(data, here)) is not None:
            yield from _wiki(wiki, "embed" if is_embed else "wiki", "wiki")
            return wiki.end()
        if self._begins_line(here) and (definition := _DEFINITION.match(data, here)) is not None:
            yield from _written_target(definition, "markdown", definition[1])
            return definition.end()
        self._open.append(here)
        return here + 1

    def _closed(self, here: int) -> Generator[LinkMark, None, int]:
        if not self._open:
            return here + 1
        opened = self._open.pop()
        if here - opened > LONGEST_LABEL or self._data[here + 1 : here + 2] != b"(":
            return here + 1
        label = self._data[opened + 1 : here]
        match = _INLINE.match(self._data, here) if not _BLANK_LINE.search(label) else None
        if match is None:
            return here + 1
        is_embed = opened > self._start and self._data[opened - 1 : opened] == b"!"
        yield from _written_target(match, "embed" if is_embed else "markdown", label)
        return match.end()

    def _begins_line(self, here: int) -> bool:
        margin = self._data[max(self._start, here - _DEEPEST - 1) : here]
        before = margin.rpartition(b"\n")[2]
        return (
            not before.strip(b" ")
            and (b"\n" in margin or here - self._start == len(before))
            and len(before) <= _DEEPEST
        )

    def _after_code(self, here: int) -> int:
        """Just after the marks where they hide nothing."""
        run = (_TICKS if self._data[here : here + 1] == b"`" else _TILDES).match(self._data, here)
        if run is None:
            return here + 1
        if len(run[0]) >= 3 and self._is_fence(here, run):  # noqa: PLR2004  as fences have
            return self._after_fence(run)
        if run[0].startswith(b"~"):
            return run.end()
        if self._runs is None:
            self._runs = {}
            for match in _TICKS.finditer(self._data, here):
                self._runs.setdefault(len(match[0]), []).append(match.start())
        places = self._runs.get(len(run[0]), [])
        index = bisect_left(places, run.end())
        return (
            places[index] + len(run[0])
            if index < len(places) and places[index] < self._paragraph_end(here)
            else run.end()
        )

    def _is_fence(self, here: int, run: re.Match[bytes]) -> bool:
        margin = self._data[max(self._start, here - _WIDEST_MARGIN) : here]
        before = margin.rpartition(b"\n")[2]
        if _MARGIN.match(before) is None or not (
            b"\n" in margin or here - self._start == len(before)
        ):
            return False
        if run[0].startswith(b"~"):
            return True
        line_stop = self._data.find(b"\n", run.end())
        return (
            self._data.find(b"`", run.end(), line_stop if line_stop >= 0 else len(self._data)) < 0
        )

    def _after_fence(self, run: re.Match[bytes]) -> int:
        for line in _CLOSE_FENCE.finditer(self._data, run.end()):
            if line[1].startswith(run[0]):
                return line.end()
        return len(self._data)

    def _paragraph_end(self, here: int) -> int:
        if here >= self._paragraph_stop:
            blank = _BLANK_LINE.search(self._data, here)
            self._paragraph_stop = blank.start() + 1 if blank else len(self._data)
        return self._paragraph_stop

    def _after_hidden(self, here: int, mark: bytes) -> int | None:
        """Where a comment, or HTML whose content is not text, ends; None where there is none."""
        data = self._data
        if mark == b"%":
            return self._beyond(b"%%", here + 2) if data.startswith(b"%%", here) else None
        if data.startswith(b"<!--", here):
            after = self._beyond(b"-->", here + 2)
            return len(data) if after is None and self._begins_line(here) else after
        if (raw := _RAW.match(data, here)) is not None and b"raw" not in self._vain:
            tag = _CLOSE_RAW.search(data, raw.end())
            if tag is not None:
                return tag.end()
            self._vain.add(b"raw")
        return None

    def _beyond(self, closing: bytes, at: int) -> int | None:
        found = -1 if closing in self._vain else self._data.find(closing, at)
        if found < 0:
            self._vain.add(closing)
            return None
        return found + len(closing)
