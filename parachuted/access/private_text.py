"""Private text: what of a note enters no prompt and no index that an agent reads. Pure.

In place of a private part an agent reads one line, which it may move, but not lose: what it writes
has the private text put back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from parachuted.access.private_parts import private_parts
from parachuted.errors import ActRefusedError
from parachuted.vault import (
    Edit,
    ReplaceAll,
    ReplaceSpans,
    SectionEdit,
    SeveralEdits,
    apply_edit,
    parse_note,
)

_BEGINS = r"(?:#{1,6} )?"
LEFT_OUT = re.compile(rf"^{_BEGINS}\(private part \d+: left out\)", re.MULTILINE)
_MARK = re.compile(
    rb"^%b\(private part (\d+): left out\)[ \t]*(?:\r?\n|\Z)" % _BEGINS.encode(), re.MULTILINE
)


def without_private(data: bytes) -> bytes:
    """The note as an agent may see it; the same bytes where nothing in it is private."""
    note = parse_note(data)
    private = private_parts(note)
    if not private:
        return data
    shown, end = [], 0
    for number, part in enumerate(private, 1):
        heading = b"#" * part.level + b" " if part.level else b""
        mark = b"%b(private part %d: left out)" % (heading, number)
        shown += [data[end : part.start], mark + note.eol]
        end = part.stop
    return b"".join([*shown, data[end:]])


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


def edit_keeping_private(edit: Edit, before: bytes) -> Edit:
    """An agent's edit, with the private parts in place of their lines.

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
            "(private part …: left out) on a line of its own, or edit another section"
        )
    return edit


def edit_with_private(edit: Edit, before: bytes) -> Edit:
    """The edit, with the note's private parts where its text has their lines."""
    parts = _parts(before)
    return _with_parts(edit, parts) if parts else edit


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
    return [data[part.start : part.stop] for part in private_parts(parse_note(data))]


def _restored(data: bytes, parts: Sequence[bytes]) -> bytes:
    def part(found: re.Match[bytes]) -> bytes:
        number = int(found[1])
        if not 0 < number <= len(parts):
            return found[0]
        kept = parts[number - 1]
        return kept if kept.endswith(b"\n") or found.end() == len(data) else kept + b"\n"

    return _MARK.sub(part, data)
