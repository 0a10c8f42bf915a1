"""Note values: notes and edits as modules and tools give and get them, and as the vault does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from parachuted.access.notes import (
    AppendSection,
    Note,
    NoteChange,
    NoteEdit,
    NoteLink,
    NoteRow,
    NoteSection,
    RemoveKey,
    ReplaceSpan,
    SetKey,
    SetSection,
)
from parachuted.errors import EditRefusedError
from parachuted.search import KeyFilter, make_indexed_note
from parachuted.search import NoteSummary as IndexedRow
from parachuted.vault import (
    AppendToSection,
    DeleteKey,
    Edit,
    FileContent,
    Link,
    ReplaceAll,
    ReplaceSection,
    ReplaceSpans,
    SetFrontmatterKey,
    SeveralEdits,
    TextSpan,
    VaultPath,
    links_in,
    parse_note,
    printable,
)

_MOST_EDITS = 1_000
_LARGEST_WRITE = 16 << 20

Resolve: TypeAlias = Callable[[Sequence[Link]], Sequence[str | None]]


def make_note(
    path: str, content: FileContent, indexed: IndexedRow | None, resolve: Resolve
) -> Note:
    """`indexed` is of the same content. Raises EditRefusedError where it is no text."""
    text = decoded(path, content.data)
    row = indexed or make_indexed_note(
        path, content.data, content.status.st_mtime_ns / 1e9, is_whole=True
    )
    frontmatter = row.typed
    modified = _moment(content.status.st_mtime_ns / 1e9)
    body = parse_note(content.data).body.start
    return Note(
        path=printable(path),
        digest=content.digest,
        text=text,
        frontmatter=frontmatter,
        title=row.title,
        tags=row.tags,
        created=_created(frontmatter) or modified,
        modified=modified,
        body_start=_characters(content.data, [body])[body],
        find_sections=_sections,
        find_links=lambda text: _links(text, resolve),
    )


def make_row(row: IndexedRow) -> NoteRow:
    return NoteRow(
        path=printable(row.path),
        title=row.title,
        digest=row.digest,
        tags=row.tags,
        frontmatter=row.typed,
        modified=_moment(row.modified),
        size=row.size,
    )


def key_filters(where: Mapping[str, object]) -> tuple[KeyFilter, ...]:
    """A list: one of these; None: the key is not there. Raises EditRefusedError."""
    return tuple(
        KeyFilter(key=key, op="exists", value=False)
        if value is None
        else KeyFilter(key=key, op="in", value=tuple(map(_word, value)))
        if isinstance(value, list | tuple)
        else KeyFilter(key=key, op="eq", value=_word(value))
        for key, value in where.items()
    )


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise EditRefusedError("a key is looked for by a text, a number, true or false")


def vault_edit(edits: Sequence[NoteEdit], base: str | None) -> Edit:
    """The spans first: they are those of the text as it was read. Raises EditRefusedError."""
    if not 0 < len(edits) <= _MOST_EDITS:
        raise EditRefusedError(f"an edit is made of 1 to {_MOST_EDITS} changes")
    spans = tuple(
        TextSpan(start=edit.start, stop=edit.end, text=edit.text)
        for edit in edits
        if isinstance(edit, ReplaceSpan)
    )
    if spans and base is None:
        raise EditRefusedError("a span is one of the text that base=note.digest names")
    found: list[Edit] = [ReplaceSpans(spans=spans)] if spans else []
    found += [_edit(edit) for edit in edits if not isinstance(edit, ReplaceSpan)]
    return found[0] if len(found) == 1 else SeveralEdits(edits=tuple(found))


@dataclass(frozen=True, slots=True)
class FileChange:
    """One write. Without an `edit` the file is removed; `is_new`: there may be no file yet.
    `is_persons`: a person's own words, whatever was read before; `source`: moved from there, no
    link rewritten.
    """

    path: VaultPath
    edit: Edit | None
    _: KW_ONLY
    base: str | None = None
    is_new: bool = False
    is_persons: bool = False
    source: VaultPath | None = None


def file_change(change: NoteChange) -> FileChange:
    path = VaultPath.parse(change.path)
    if change.text is not None:
        return FileChange(path, ReplaceAll(data=encoded(change.text)), is_new=True)
    edit = None if change.edits is None else vault_edit(change.edits, change.base)
    return FileChange(path, edit, base=change.base)


def _edit(edit: NoteEdit) -> Edit:
    match edit:
        case SetKey():
            return SetFrontmatterKey(key=edit.key, value=_value(edit.value))
        case RemoveKey():
            return DeleteKey(key=edit.key)
        case SetSection():
            content = edit.content
            return ReplaceSection(section=edit.section, content=content, create=True, is_only=True)
        case AppendSection():
            return AppendToSection(section=edit.section, content=edit.content, create=True)
        case _:
            raise EditRefusedError(f"{type(edit).__name__} is not a change of a note")


def _value(value: object) -> str | int | float | bool | list[str]:
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return list(value)
    raise EditRefusedError("a key takes a text, a number, true or false, or a list of texts")


def _sections(text: str) -> tuple[NoteSection, ...]:
    data = text.encode()
    sections = parse_note(data).sections
    places = (place for part in sections for place in (part.start, part.body_start, part.stop))
    at = _characters(data, places)
    return tuple(
        NoteSection(
            heading=part.title,
            level=part.level,
            start=at[part.start],
            body=at[part.body_start],
            end=at[part.stop],
        )
        for part in sections
    )


def _links(text: str, resolve: Resolve) -> tuple[NoteLink, ...]:
    data = text.encode()
    links = links_in(parse_note(data)) if b"[" in data else ()
    at = _characters(data, (place for link in links for place in (link.span.start, link.span.stop)))
    return tuple(
        NoteLink(
            target=printable(link.target),
            label=None if link.label is None else printable(link.label),
            kind=link.kind,
            start=at[link.span.start],
            end=at[link.span.stop],
            path=None if path is None else printable(path),
        )
        for link, path in zip(links, resolve(links) if links else (), strict=True)
    )


def _characters(data: bytes, offsets: Iterable[int]) -> Mapping[int, int]:
    if data.isascii():
        return {offset: offset for offset in offsets}
    found: dict[int, int] = {}
    at = count = 0
    for offset in sorted(set(offsets)):
        count += len(data[at:offset].decode())
        at = offset
        found[offset] = count
    return found


def _created(frontmatter: Mapping[str, object]) -> datetime | None:
    said = frontmatter.get("created")
    if not isinstance(said, str):
        return None
    try:
        return datetime.fromisoformat(said.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _moment(seconds: float) -> datetime:
    """A file may claim a year that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, UTC)


def checked(data: bytes) -> bytes:
    if len(data) > _LARGEST_WRITE:
        raise EditRefusedError(f"it is larger than {_LARGEST_WRITE >> 20} MB; nothing was written")
    return data


def decoded(path: str, data: bytes) -> str:
    """Raises EditRefusedError where it is no text."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EditRefusedError(f"{printable(path)} is not UTF-8 text") from error


def encoded(text: str) -> bytes:
    """Raises TypeError or EditRefusedError for what can be no note."""
    if not isinstance(text, str):
        raise TypeError("a note is written as text; write_bytes writes bytes")
    try:
        return checked(text.encode())
    except UnicodeEncodeError as error:
        raise EditRefusedError("the text is not valid Unicode") from error
