"""Private text: which parts of a note are private, and the note without them. Pure.

`#private`, or a tag below it, in a heading or on a line of nothing but tags makes private the
section that it stands in; above the first heading the whole note, as `private` or the tag in the
frontmatter does. Where readers of markdown may disagree, more is private rather than less. In place
of a private part an agent reads one line. It changes such a note section by section, or adds lines
to it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from parachuted.errors import ActRefusedError
from parachuted.vault import Edit, ParsedNote, ReplaceAll, ReplaceSpans, SeveralEdits, parse_note
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


def _is_set(match: re.Match[bytes]) -> bool:
    value = _COMMENT.sub(b"", match["value"]).decode("utf-8", "replace")
    return match["below"] is not None or not _is_false(value)


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
        match, tag = _TAG.search(line), start
        start += len(line)
        if match is None or tag < stop:
            continue
        tag += match.start()
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


LEFT_OUT = re.compile(r"^(?:#{1,6} )?\(private part \d+: left out\)", re.MULTILINE)


def without_private(data: bytes) -> bytes:
    """The note as an agent may see it; the same bytes where nothing in it is private."""
    note = parse_note(data)
    private = private_parts(note)
    if not private:
        return data
    shown, end = [], 0
    for number, part in enumerate(private, 1):
        shown += [data[end : part.start], _line_for(number, part) + note.eol]
        end = part.stop
    return b"".join([*shown, data[end:]])


def _line_for(number: int, part: PrivatePart) -> bytes:
    heading = b"#" * part.level + b" " if part.level else b""
    return b"%b(private part %d: left out)" % (heading, number)


def visible_to_agents(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    shown = without_private(data)
    return text if shown is data else shown.decode("utf-8", "surrogatepass")


def is_shortened(text: str) -> bool:
    """Whether a private part was left out of the text that was read."""
    return LEFT_OUT.search(text) is not None


def left_out_of(answer: object) -> str:
    """What an audit line adds to a call with that text or JSON; empty where it is whole."""
    open_ = [answer]  # and no call of itself: an answer may be nested as deeply as JSON can be
    while open_:
        one = open_.pop()
        if isinstance(one, str):
            if is_shortened(one):
                return ": private parts left out"
        elif isinstance(one, Mapping):
            open_.extend(one.values())
        elif isinstance(one, list | tuple):
            open_.extend(one)
    return ""


def added_to_whole(edit: Edit, before: bytes) -> Edit:
    """An agent's text that adds lines to the one that it was shown, and takes none away, adds them
    to the whole one.
    """
    shown = without_private(before)
    if shown is before or not isinstance(edit, ReplaceAll) or edit.data == shown:
        return edit
    data, rest = edit.data, iter(edit.data.splitlines(keepends=True))
    if not all(line in rest for line in shown.splitlines(keepends=True)):
        return edit
    note = parse_note(before)
    for number, part in enumerate(private_parts(note), 1):
        line = _line_for(number, part) + note.eol
        if data.count(line) != 1:
            return edit
        text = before[part.start : part.stop]
        data = data.replace(line, text if text.endswith(b"\n") else text + note.eol)
    return ReplaceAll(data=data)


def refuse_losing_private(edit: Edit, before: bytes, after: bytes) -> None:
    """Of an agent's edit, which leads to that text. Raises ActRefusedError where a private part
    would be lost, or its places are not those of the whole text.
    """
    kept = Counter(_private_texts(after))
    if Counter(private := _private_texts(before)) - kept or (private and _has_spans(edit)):
        raise ActRefusedError(
            "the note has a private part, which an agent neither sees nor changes; edit another "
            "section of it"
        )


def _private_texts(data: bytes) -> list[bytes]:
    return [data[part.start : part.stop].strip() for part in private_parts(parse_note(data))]


def _has_spans(edit: Edit) -> bool:
    if isinstance(edit, SeveralEdits):
        return any(map(_has_spans, edit.edits))
    return isinstance(edit, ReplaceSpans)
