"""Private text: what of a note enters no prompt and no index that an agent reads. Pure.

A section is private by the tag `#private` in its heading, with all below it; a whole note by
`private: true` in its frontmatter. In its place an agent is shown one line, which it may move, but
not lose: what it writes has the private text put back. Where readers of markdown may disagree, more
is left out rather than less.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from parachuted.errors import ActRefusedError
from parachuted.vault import (
    Edit,
    ParsedNote,
    ReplaceAll,
    ReplaceSpans,
    SectionEdit,
    SeveralEdits,
    Span,
    apply_edit,
    parse_note,
)

LEFT_OUT = re.compile(r"^(?:#{1,6} )?\(private part \d+: left out\)", re.MULTILINE)
_NAMED = b"private"
_WHOLE = re.compile(
    rb"^[\"']?private[\"']?[ \t]*:[ \t]*[\"']?(?:true|yes|on|1)\b", re.IGNORECASE | re.MULTILINE
)
_HEADING = re.compile(
    rb"^ {0,3}(#{1,6})[ \t](?:[^\n]*\s)?#private(?![\w/-])", re.IGNORECASE | re.MULTILINE
)
_TAG = re.compile(r"(?:^|\s)#private(?![\w/-])", re.IGNORECASE)
_MARK = re.compile(
    rb"^(?:#{1,6} )?\(private part (\d+): left out\)[ \t]*(?:\r?\n|\Z)", re.MULTILINE
)


def without_private(data: bytes) -> bytes:
    """The note as an agent may see it; the same bytes where nothing in it is private."""
    note = parse_note(data)
    spans = private_spans(note)
    if not spans:
        return data
    parts, end = [], 0
    for number, (level, span) in enumerate(spans, 1):
        mark = b"#" * level + b" " * (level > 0) + b"(private part %d: left out)" % number
        parts += [data[end : span.start], mark + note.eol]
        end = span.stop
    return b"".join([*parts, data[end:]])


def may_be_private(data: bytes) -> bool:
    """Whether the word stands in it at all, which is soon known."""
    return _NAMED in data.lower()


def visible_to_agents(text: str) -> str:
    """The text of a note without what is private, which is for no prompt and no index."""
    data = text.encode("utf-8", "surrogatepass")
    shown = without_private(data)
    return text if shown is data else shown.decode("utf-8", "surrogatepass")


def is_shortened(text: str) -> bool:
    """Whether a private part was left out of the text that was read."""
    return LEFT_OUT.search(text) is not None


def private_spans(note: ParsedNote) -> Sequence[tuple[int, Span]]:
    """The private parts in their order, each with the level of its heading; 0: the whole note."""
    data = note.data
    if not may_be_private(data):
        return ()
    front = data[: note.body.start] if note.frontmatter or not data.startswith(b"---") else data
    if _WHOLE.search(front) or (not note.is_read and _HEADING.search(data)):
        return ((0, Span(start=0, stop=len(data))),)
    starts = {found.start(): len(found[1]) for found in _HEADING.finditer(data, note.body.start)}
    starts |= {
        heading.start: heading.level
        for heading in note.outline.headings
        if _TAG.search(heading.title)
    }
    found: list[tuple[int, Span]] = []
    for start, level in sorted(starts.items()):
        if found and start < found[-1][1].stop:
            continue
        ends = (one.start for one in note.outline.headings if one.level <= level)
        stop = next((end for end in ends if end > start), len(data))
        found.append((level, Span(start=start, stop=stop)))
    return found


def edit_keeping_private(edit: Edit, before: bytes) -> Edit:
    """An agent's edit of the note, with the private parts where it has their lines.

    Raises ActRefusedError where a private part would be lost.
    """
    parts = _parts(before)
    if not parts:
        return edit
    edit = _with_parts(edit, parts)
    kept = Counter(part.strip() for part in _parts(apply_edit(edit, before)))
    if Counter(part.strip() for part in parts) - kept:
        raise ActRefusedError(
            "the note has a private part, which an agent neither sees nor changes; keep its line "
            "(private part …: left out) as a heading of its own, or edit another section"
        )
    return edit


def _with_parts(edit: Edit, parts: Sequence[bytes]) -> Edit:
    if isinstance(edit, SeveralEdits):
        return SeveralEdits(edits=tuple(_with_parts(one, parts) for one in edit.edits))
    if isinstance(edit, ReplaceSpans):
        raise ActRefusedError(
            "the note has a private part, so no places in its text can be named; edit a section"
        )
    if isinstance(edit, ReplaceAll):
        return ReplaceAll(data=_restored(edit.data, parts))
    if isinstance(edit, SectionEdit):
        content = _restored(edit.content.encode("utf-8", "surrogatepass"), parts)
        return replace(edit, content=content.decode("utf-8", "surrogatepass"))
    return edit


def _parts(data: bytes) -> list[bytes]:
    return [data[span.start : span.stop] for _, span in private_spans(parse_note(data))]


def _restored(data: bytes, parts: Sequence[bytes]) -> bytes:
    def part(found: re.Match[bytes]) -> bytes:
        number = int(found[1])
        if not 0 < number <= len(parts):
            return found[0]
        kept = parts[number - 1]
        return kept if kept.endswith(b"\n") or found.end() == len(data) else kept + b"\n"

    return _MARK.sub(part, data)
