"""Edits: a change to one part of a note, as new bytes in which all other parts stay the same.

Each result is read again: what would touch more than it names is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.vault.frontmatter import BOM, MAX_NOTE_BYTES, Span
from parachuted.vault.frontmatter_keys import FrontmatterInput, delete_key, set_key
from parachuted.vault.note import ParsedNote, Section, is_utf8, parse_note, plain_title

_BLANK = b" \t\r\n"
_DOUBTFUL_CONTENT = {
    "unclosed-fence": "the content leaves a code fence open",
    "unclosed-comment": "the content leaves a comment open",
    "unclosed-html": "the content leaves a piece of HTML open",
    "crossed-tags": "the content opens a piece of HTML with one tag and closes it with another",
    "table-or-heading": "the content holds a table right above a line of dashes or equals signs; "
    "put a blank line between them",
    "below-definition": "the content holds a line right below a link's definition, where readers "
    "differ; put a blank line between them",
    "underline-below-list": "the content holds a line of dashes or equals signs right below a "
    "list or quote; put a blank line between them",
    "rule-below-definition": "the content holds a line of dashes right below a link definition; "
    "put a blank line between them",
}
_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionEdit:
    """Of several sections `section` may mean, `occurrence` (from 1) says which, else the first."""

    section: str | tuple[str, ...]
    content: str
    create: bool = False
    occurrence: int | None = None
    is_only: bool = False


class ReplaceSection(SectionEdit):
    """Put `content` in place of a section's text and subsections, where its end is certain."""

    __slots__ = ()


class AppendToSection(SectionEdit):
    """Add `content` below a section's own text, before its subsections."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFrontmatterKey:
    key: str
    value: FrontmatterInput


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKey:
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceAll:
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSpan:
    start: int
    stop: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceSpans:
    """Replace pieces that do not overlap; offsets are those of the edit's base."""

    spans: tuple[TextSpan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralEdits:
    edits: tuple[Edit, ...]


Edit: TypeAlias = (
    SectionEdit | SetFrontmatterKey | DeleteKey | ReplaceAll | ReplaceSpans | SeveralEdits
)


def apply_edit(edit: Edit, data: bytes) -> bytes:
    """NotFoundError; EditRefusedError where more than the named part would change."""
    match edit:
        case ReplaceAll():
            return edit.data
        case SetFrontmatterKey():
            return set_key(_readable(data), edit.key, edit.value)
        case DeleteKey():
            return delete_key(_readable(data), edit.key)
        case ReplaceSpans():
            return _replace_spans(edit.spans, data)
        case SeveralEdits():
            for one in edit.edits:
                data = apply_edit(one, data)
            return data
        case _:
            return _edit_section(edit, _readable(data))


def _readable(data: bytes) -> ParsedNote:
    note = parse_note(data)
    if not note.is_read:
        raise EditRefusedError(
            f"the note is larger than {MAX_NOTE_BYTES >> 20} MB; only the whole of it can be "
            "replaced"
        )
    return note


def _replace_spans(spans: Sequence[TextSpan], data: bytes) -> bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise EditRefusedError(
            "the file is not UTF-8 text, so characters cannot be counted"
        ) from error
    pieces, at = list[str](), 0
    for span in sorted(spans, key=lambda text_span: (text_span.start, text_span.stop)):
        if not at <= span.start <= span.stop <= len(text):
            raise EditRefusedError(
                f"the characters {span.start} to {span.stop} overlap with others, or are not in "
                "the text"
            )
        pieces += [text[at : span.start], span.text]
        at = span.stop
    return _encoded("".join([*pieces, text[at:]]))


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EditRefusedError(
            "the content holds text that is not Unicode (a lone surrogate)"
        ) from error


def _edit_section(edit: SectionEdit, note: ParsedNote) -> bytes:
    if not note.outline.complete:
        raise EditRefusedError(
            f"{note.outline.problems[0].message}; only its keys, or the whole of it, can be changed"
        )
    lines = _checked(edit.content)
    section = section_for(edit, note)
    if section is None:
        name = _spoken(edit.section)
        if not edit.create:
            raise NotFoundError(_no_section(note, name))
        return _create(note, name, lines)
    if isinstance(edit, ReplaceSection):
        _refuse_doubtful(note, section)
        at, new = _replacement(note, section, lines)
    else:
        at, new = _addition(note, section, lines)
    data = note.data[: at.start] + new + note.data[at.stop :]
    _verify(note, data, section, at)
    return data


def _refuse_doubtful(note: ParsedNote, section: Section) -> None:
    for doubt in note.outline.doubts:
        if section.start < doubt.stop and doubt.start <= section.stop:
            raise EditRefusedError(
                f"it is not certain how far the section {section.title[:200]!r} reaches: "
                f"{doubt.problem.message}"
            )


def section_for(edit: SectionEdit, note: ParsedNote) -> Section | None:
    """Raises EditRefusedError where several may be meant, NotFoundError where there are fewer."""
    sections = note.sections_called(edit.section)
    if not sections:
        return None
    if edit.occurrence is not None and edit.occurrence > len(sections):
        raise NotFoundError(
            f"there is no section {_spoken(edit.section)[:200]!r} number {edit.occurrence}; there "
            f"are {len(sections)}"
        )
    if edit.is_only and edit.occurrence is None and len(sections) > 1:
        raise EditRefusedError(_several(edit, sections))
    return sections[(edit.occurrence or 1) - 1]


def _several(edit: SectionEdit, sections: list[Section]) -> str:
    paths = [" > ".join(section.path)[:200] for section in sections]
    way = (
        'by its path, like "section": '
        f"{json.dumps(list(sections[-1].path), ensure_ascii=False)[:400]}, or "
        if len(set(paths)) > 1
        else ""
    )
    found_at = ", ".join(f"{number}: {path!r}" for number, path in enumerate(paths[:_NAMED], 1))
    name = _spoken(edit.section)[:200]
    return (
        f"there are {len(sections)} sections {name!r} ({found_at}); name one {way}by its number, "
        f'"occurrence": {len(sections)}'
    )


def _spoken(name: str | tuple[str, ...]) -> str:
    return name if isinstance(name, str) else " > ".join(name)


def _no_section(note: ParsedNote, name: str) -> str:
    titles = ", ".join(f"{section.title!r}" for section in note.sections[:_NAMED])
    present = f"there are {titles}" if titles else "the note has none"
    return f"there is no section {name[:200]!r}; {present}"


def _checked(content: str) -> list[bytes]:
    data = _encoded(content).replace(b"\r\n", b"\n")
    if b"\0" in data:
        raise EditRefusedError("the content holds NUL")
    if b"\r" in data:
        raise EditRefusedError("the content holds a CR that is not part of a line end")
    return data.split(b"\n")


def _trimmed(lines: list[bytes], *, start: bool = True) -> list[bytes]:
    stop = len(lines)
    while stop and not lines[stop - 1].strip(_BLANK):
        stop -= 1
    first = 0
    while start and first < stop and not lines[first].strip(_BLANK):
        first += 1
    return lines[first:stop]


def _core(data: bytes, span: Span) -> Span:
    """From the first line that is not blank to the end of the last, its line end left out."""
    text = data[span.start : span.stop]
    indent = len(text) - len(text.lstrip(_BLANK))
    if indent == len(text):
        return Span(start=span.start, stop=span.start)
    last = text.rstrip(_BLANK)
    trailing = text[len(last) :]
    stop = len(last) + len(trailing) - len(trailing.lstrip(b" \t"))
    start = max(text.rfind(b"\n", 0, indent), text.rfind(b"\r", 0, indent)) + 1
    return Span(start=span.start + start, stop=span.start + stop)


def _replacement(note: ParsedNote, section: Section, lines: list[bytes]) -> tuple[Span, bytes]:
    core = _core(note.data, section.body)
    lines = _trimmed(lines)
    if core.start == core.stop:
        return _filling(note, section.body, lines)
    if not is_utf8(note.data[core.start : core.stop]):
        raise EditRefusedError(
            "the section holds bytes that are not UTF-8, which replacing it would lose"
        )
    return core, _eol_above(note, section.body).join(lines)


def _addition(note: ParsedNote, section: Section, lines: list[bytes]) -> tuple[Span, bytes]:
    core = _core(note.data, section.own)
    if core.start == core.stop:
        return _filling(note, section.own, _trimmed(lines))
    lines = _trimmed(lines, start=False)
    at = Span(start=core.stop, stop=core.stop)
    return at, b"".join(_eol_above(note, section.own) + line for line in lines)


def _eol_above(note: ParsedNote, body: Span) -> bytes:
    """The heading's, so that in a file of mixed ones the same edit again changes nothing."""
    if note.data.endswith(b"\r\n", 0, body.start):
        return b"\r\n"
    return b"\n" if note.data.endswith(b"\n", 0, body.start) else note.eol


def _filling(note: ParsedNote, blank: Span, lines: list[bytes]) -> tuple[Span, bytes]:
    data, eol = note.data, _eol_above(note, blank)
    first = data.find(b"\n", blank.start, blank.stop) + 1
    at = Span(start=first or blank.start, stop=first or blank.start)
    if not lines:
        return at, b""
    above = b"" if data[: at.start].endswith(b"\n") else eol
    above += b"" if first else eol
    text = above + eol.join(lines)
    if at.stop < blank.stop:
        return at, text + eol
    if blank.stop < len(data):
        return at, text + eol + eol
    return at, text + (eol if data.endswith(b"\n") else b"")


def _create(note: ParsedNote, name: str, lines: list[bytes]) -> bytes:
    title = plain_title(name)
    if not title or ">" in title:
        raise EditRefusedError(
            f"there is no section {name[:200]!r}, and none can be made of that name; give a plain "
            "title"
        )
    data, eol = note.data, note.eol
    above = b""
    if data not in {b"", BOM}:
        above = b"" if data.endswith(b"\n") else eol
        above += b"" if _ends_blank(data + above) else eol
    lines = _trimmed(lines)
    text = eol.join([b"## " + _checked_title(title), *([b"", *lines] if lines else [])])
    end = eol if data in {b"", BOM} or data.endswith(b"\n") else b""
    new = data + above + text + end
    _verify_created(note, new, title)
    return new


def _ends_blank(data: bytes) -> bool:
    return not data[data.rfind(b"\n", 0, len(data) - 1) + 1 :].strip(_BLANK)


def _checked_title(title: str) -> bytes:
    lines = _checked(title)
    if len(lines) > 1:
        raise EditRefusedError("a section's title is one line")
    return lines[0]


def _verify(before: ParsedNote, data: bytes, section: Section, at: Span) -> None:
    """Headings outside `at` must stay as they were; those in it be below the section's level."""
    after = _reread(before, data, at)
    grown = len(data) - len(before.data)
    headings = [h for h in before.outline.headings if not at.start <= h.start < at.stop]
    expected = [(h.level, h.title, h.start + grown * (h.start >= at.stop)) for h in headings]
    new = Span(start=at.start, stop=at.stop + grown)
    found = []
    for heading in after.outline.headings:
        if new.start <= heading.start < new.stop:
            _refuse_heading(heading.level, heading.title, section.level)
        else:
            found.append((heading.level, heading.title, heading.start))
    if found != expected:
        raise EditRefusedError(
            "the edit would change which headings the rest of the note has; put a blank line "
            "above the next heading, "
            "and none of dashes or equals signs at the start or end of the content"
        )


def _refuse_heading(level: int, title: str, above: int) -> None:
    if level <= above:
        mark = "#" * level
        raise EditRefusedError(
            f"the content holds the heading {f'{mark} {title}'[:200]!r}; inside this section only "
            "deeper ones may stand"
        )


def _verify_created(before: ParsedNote, data: bytes, title: str) -> None:
    after = _reread(before, data, Span(start=len(before.data), stop=len(before.data)))
    count = len(before.sections)
    old = [(h.level, h.title, h.start) for h in after.outline.headings[:count]]
    if (
        old != [(h.level, h.title, h.start) for h in before.outline.headings]
        or len(after.sections) == count
    ):
        raise EditRefusedError(_left_open(before))
    made, *inside = after.sections[count:]
    if (made.level, made.title) != (2, title):
        raise EditRefusedError(
            f"{title[:200]!r} cannot be a section's title: it would read as {made.title[:200]!r}"
        )
    for section in inside:
        _refuse_heading(section.level, section.title, made.level)


def _left_open(note: ParsedNote) -> str:
    doubts = [
        doubt.problem.message for doubt in note.outline.doubts if doubt.stop == len(note.data)
    ]
    return (
        "a section added at the end would not be seen as one: "
        f"{doubts[-1] if doubts else 'end the note with a blank line'}"
    )


def _reread(before: ParsedNote, data: bytes, at: Span) -> ParsedNote:
    """The note after the edit, unless it cannot be read or something in it became doubtful."""
    after = parse_note(data)
    if not after.is_read or not after.outline.complete:
        raise EditRefusedError(
            "the note would become too large, or have too many headings, to be read"
        )
    if after.frontmatter != before.frontmatter or before.body.start not in {
        after.body.start,
        before.body.stop,
    }:
        raise EditRefusedError(
            "the edit would change what counts as frontmatter; close the frontmatter with a line "
            "--- first"
        )
    grown = len(data) - len(before.data)
    known = {
        (doubt.problem.code, doubt.start + grown * (doubt.start >= at.stop))
        for doubt in before.outline.doubts
    }
    for doubt in after.outline.doubts:
        if (doubt.problem.code, doubt.start) not in known:
            raise EditRefusedError(_DOUBTFUL_CONTENT[doubt.problem.code])
    return after
