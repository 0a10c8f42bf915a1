"""Private text: what of a note enters no prompt and no index that an agent reads. Pure.

In place of a private part an agent reads one line. It changes such a note section by section, or
adds lines to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from parachuted.access.private_parts import PrivatePart, private_parts
from parachuted.errors import ActRefusedError
from parachuted.vault import Edit, ReplaceAll, ReplaceSpans, SeveralEdits, parse_note

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
