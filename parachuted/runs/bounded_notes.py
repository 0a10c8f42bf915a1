"""Bounded notes: notes as values, for a module or a run of an agent, of those that it may read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeAlias

from parachuted.access.notes import (
    AppendSection,
    LinkRow,
    Links,
    Note,
    NoteBatch,
    NoteEdit,
    NoteLink,
    NotePage,
    NoteRow,
    NoteSection,
    NoteStream,
    RemoveKey,
    ReplaceSpan,
    SetKey,
    SetSection,
)
from parachuted.access.private_parts import may_be_private
from parachuted.errors import ActRefusedError, EditRefusedError, ParachuteError, StorageFailedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.vault_reading import VaultReading
from parachuted.search import CatalogueNote as IndexedRow
from parachuted.search import KeyFilter, NoteQuery, row_of
from parachuted.vault import (
    NOTE_SUFFIXES,
    AppendToSection,
    DeleteKey,
    Edit,
    FileContent,
    FileNames,
    Link,
    ReplaceSection,
    ReplaceSpans,
    SeveralEdits,
    TextSpan,
    VaultPath,
    links_in,
    parse_note,
    printable,
    resolve,
)
from parachuted.vault import SetFrontmatterKey as SetVaultKey

_MOST_EDITS = 1_000

Resolve: TypeAlias = Callable[[Sequence[Link]], Sequence[str | None]]


def make_note(
    path: str, content: FileContent, indexed: IndexedRow | None, resolve: Resolve
) -> Note:
    """The note of that content.

    `indexed` is what the index has of the same content, if it has; `resolve` finds the files that
    links lead to. Raises EditRefusedError where it is not text.
    """
    try:
        text = content.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EditRefusedError(
            f"{printable(path)} is not UTF-8 text; read_bytes reads it"
        ) from error
    row = indexed or row_of(path, content.data, content.status.st_mtime)
    frontmatter = row.typed
    modified = _moment(content.status.st_mtime)
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
    """One condition a key: a value that it has, a list of which it has one, or None: it is not
    there.

    Raises EditRefusedError for a value that no key has.
    """
    return tuple(_filter(key, value) for key, value in where.items())


def _filter(key: str, value: object) -> KeyFilter:
    if value is None:
        return KeyFilter(key=key, op="exists", value=False)
    if isinstance(value, list | tuple):
        return KeyFilter(key=key, op="in", value=tuple(map(_word, value)))
    return KeyFilter(key=key, op="eq", value=_word(value))


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise EditRefusedError(
        f"a key is looked for by a text, a number, true or false, not by a {type(value).__name__}"
    )


def vault_edit(edits: Sequence[NoteEdit], base: str | None) -> Edit:
    """The edits as one, the spans first: they are those of the text as it was read.

    Raises EditRefusedError for what can be none.
    """
    if not 0 < len(edits) <= _MOST_EDITS:
        raise EditRefusedError(f"an edit is made of 1 to {_MOST_EDITS} changes")
    spans = tuple(
        TextSpan(start=one.start, stop=one.end, text=one.text)
        for one in edits
        if isinstance(one, ReplaceSpan)
    )
    if spans and base is None:
        raise EditRefusedError(
            "a span is one of the text that was read: name it by base=note.digest"
        )
    found: list[Edit] = [ReplaceSpans(spans=spans)] if spans else []
    found += [_edit(one) for one in edits if not isinstance(one, ReplaceSpan)]
    return found[0] if len(found) == 1 else SeveralEdits(edits=tuple(found))


def has_spans(edit: Edit) -> bool:
    """Whether the edit means something in the text alone that it was decided on."""
    if isinstance(edit, SeveralEdits):
        return any(map(has_spans, edit.edits))
    return isinstance(edit, ReplaceSpans)


def set_key(key: str, value: object) -> SetVaultKey:
    """Raises EditRefusedError for a value that no key takes."""
    if isinstance(value, str | int | float | bool):
        return SetVaultKey(key=key, value=value)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return SetVaultKey(key=key, value=list(value))
    raise EditRefusedError("a key takes a text, a number, true or false, or a list of texts")


def _edit(edit: NoteEdit) -> Edit:
    match edit:
        case SetKey():
            return set_key(edit.key, edit.value)
        case RemoveKey():
            return DeleteKey(key=edit.key)
        case SetSection():
            return ReplaceSection(
                section=edit.section, content=edit.content, create=True, is_only=True
            )
        case AppendSection():
            return AppendToSection(section=edit.section, content=edit.content, create=True)
        case _:
            raise EditRefusedError(
                f"{type(edit).__name__} is not a change of a note, such as SetKey or SetSection"
            )


def _sections(text: str) -> tuple[NoteSection, ...]:
    data = text.encode()
    found = parse_note(data).sections
    at = _characters(
        data, (place for one in found for place in (one.start, one.body_start, one.stop))
    )
    return tuple(
        NoteSection(
            heading=one.title,
            level=one.level,
            start=at[one.start],
            body=at[one.body_start],
            end=at[one.stop],
        )
        for one in found
    )


def _links(text: str, resolve: Resolve) -> tuple[NoteLink, ...]:
    data = text.encode()
    found = links_in(parse_note(data)) if b"[" in data else ()
    at = _characters(data, (place for one in found for place in (one.span.start, one.span.stop)))
    return tuple(
        NoteLink(
            target=printable(one.target),
            label=None if one.label is None else printable(one.label),
            kind=one.kind,
            start=at[one.span.start],
            end=at[one.span.stop],
            path=None if path is None else printable(path),
        )
        for one, path in zip(found, resolve(found) if found else (), strict=True)
    )


def _characters(data: bytes, offsets: Iterable[int]) -> Mapping[int, int]:
    """The offsets in bytes as offsets in characters."""
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


_MOST_ROWS = 1_000
_BATCH = 200
_LARGEST_IN_BATCH = 10 << 20
_PATIENCE_S = 0.2


class BoundedNotes(VaultReading):
    """The vault's notes, as far as they may be read."""

    async def note(self, path: str) -> Note:
        """The note as it is now; its digest may be the base of a later edit.

        Raises EditRefusedError for a file that is not UTF-8 text.
        """
        target = VaultPath.parse(path)
        beyond = await self._beyond("read", target)
        return await run_uninterrupted(self._note, target, beyond)

    async def notes(
        self,
        folder: str = "",
        *,
        tag: str | None = None,
        where: Mapping[str, object] | None = None,
        order: str = "path",
        limit: int = 100,
        cursor: str | None = None,
    ) -> NotePage:
        """A page of the readable notes, from the index, which follows a write within moments.

        For an agent's run, untrusted notes are left out and counted in `strangers_left_out`, unless
        it has read some already. Raises ActRefusedError for a cursor that is none.
        """
        query = NoteQuery(
            filters=key_filters(where or {}),
            folder=VaultPath.parse(folder.rstrip("/")) if folder.rstrip("/") else None,
            tag=tag,
            sort=order,
            limit=max(1, min(limit, _MOST_ROWS)),
            after=cursor,
        )
        return await run_uninterrupted(self._page, query)

    async def links(self, path: str) -> Links:
        target = VaultPath.parse(path)
        beyond = await self._beyond("read", target)
        return await run_uninterrupted(self._links, target, beyond)

    async def backlinks(self, path: str) -> Links:
        return await run_uninterrupted(self._backlinks, VaultPath.parse(path))

    def read_notes(self, pattern: str | Sequence[str] = "**") -> NoteStream:
        """The readable notes that match, or those at these paths, with their texts.

        A digest is the base of a later edit as long as the note does not change before it.
        """
        return NoteStream(self._batches(pattern))

    async def _batches(self, pattern: str | Sequence[str]) -> AsyncIterator[NoteBatch]:
        names: FileNames | None = None
        if isinstance(pattern, str):
            paths = [
                VaultPath(one) for one in await self._listed(pattern) if one.endswith(NOTE_SUFFIXES)
            ]
            files = await self._files("", self._bounds.may_enter, self._sees())
            names = await run_uninterrupted(FileNames, files)
        else:
            paths = list(map(VaultPath.parse, pattern))
        for first in range(0, len(paths), _BATCH):
            yield await run_uninterrupted(self._batch, paths[first : first + _BATCH], names)

    def _note(self, path: VaultPath, beyond: Sequence[str]) -> Note:
        note = make_note(
            path, self._read(path, see=True, beyond=beyond), None, self._resolver(path)
        )
        with suppress(StorageFailedError):  # which is raised when somebody needs the links
            note.links  # noqa: B018  here, in a thread: the index is asked where they lead
        return note

    def _page(self, query: NoteQuery) -> NotePage:
        self._search.settle(_PATIENCE_S)
        is_indexing = self._search.is_behind
        try:
            page = self._search.catalogue.notes(query, self._bounds.may_read)
        except ValueError as error:
            raise ActRefusedError(str(error)) from error
        kept = self._watch.hits([row.path for row in page.rows])
        self.strangers_left_out = len(page.rows) - len(kept)
        rows = tuple(make_row(row) for row in page.rows if row.path in kept)
        return NotePage(notes=rows, next=page.next, is_indexing=is_indexing)

    def _links(self, path: VaultPath, beyond: Sequence[str]) -> Links:
        note = self._note(path, beyond)
        titles = self._titles([link.path for link in note.links if link.path is not None])
        found, line, at = list[LinkRow](), 1, 0
        for link in note.links:
            line += note.text.count("\n", at, link.start)
            at = link.start
            title = None if link.path is None else titles.get(link.path)
            found.append(LinkRow(path=link.path, title=title, line=line, text=link.target))
        return found

    def _backlinks(self, path: VaultPath) -> Links:
        real = self._found(path)
        self._store.root.size(real)  # which raises where there is none
        self._search.settle(_PATIENCE_S)
        rows = self._search.catalogue.links_to(real, self._sees())
        kept = self._watch.hits(list(dict.fromkeys(row.source for row in rows)))
        titles = self._titles(sorted(kept))
        return [
            LinkRow(
                path=printable(row.source),
                title=titles.get(row.source),
                line=row.line,
                text=printable(row.text),
            )
            for row in rows
            if row.source in kept
        ]

    def _titles(self, paths: Sequence[str]) -> Mapping[str, str]:
        wanted = sorted(self._watch.hits(list(dict.fromkeys(paths))))
        found: dict[str, str] = {}
        for first in range(0, len(wanted), _BATCH):
            rows = self._search.catalogue.notes_at(wanted[first : first + _BATCH])
            found |= {path: row.title for path, row in rows.items()}
        return found

    def _batch(self, paths: Sequence[VaultPath], names: FileNames | None) -> NoteBatch:
        bounds = self._bounds
        for path in paths:
            bounds.check_read(path, path)
        try:
            indexed = self._search.catalogue.notes_at(paths)
        except StorageFailedError:  # it only saves time
            indexed = {}
        notes: list[Note] = []
        left_out: dict[str, str] = {}
        for path, content in self._store.root.read_each(paths, _LARGEST_IN_BATCH):
            try:
                if isinstance(content, ParachuteError):
                    raise content
                row = indexed.get(path)
                same = row if row is not None and row.digest == content.digest else None
                shown = content
                if may_be_private(content.data):  # of which the index has nothing
                    same, shown = None, self._shown(path, content)
                note = make_note(path, shown, same, self._resolver(path, names))
                if names is None:
                    note.links  # noqa: B018  here, in a thread
            except ParachuteError as error:
                left_out[printable(path)] = error.message
                continue
            self._watch.read(path, content)
            self._remember(path, content.digest)
            notes.append(note)
        return NoteBatch(notes=tuple(notes), left_out=left_out)

    def _resolver(self, path: VaultPath, names: FileNames | None = None) -> Resolve:
        if names is not None:
            return lambda links: [resolve(link, path, names) for link in links]
        sees, resolved = self._sees(), self._search.catalogue.resolved
        return lambda links: resolved(links, path, sees)

    def _sees(self) -> Callable[[str], bool]:
        """Whether a file is there for the reader; no run learns strangers' names by links."""
        may_read = self._bounds.may_read
        run = self._run
        if run is None:
            return may_read
        return lambda path: (
            may_read(path) and (run.is_tainted or not run.is_stranger(path, None, None))
        )
