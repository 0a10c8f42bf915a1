"""Bounded notes: notes as values, for a module or a run of an agent, of those that it may read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress

from parachuted.access.notes import LinkRow, Links, Note, NoteBatch, NotePage, NoteStream
from parachuted.access.private_text import may_be_private
from parachuted.errors import ActRefusedError, ParachuteError, StorageFailedError
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.note_values import Resolve, key_filters, make_note, make_row
from parachuted.runs.vault_reading import VaultReading
from parachuted.search import NoteQuery
from parachuted.tools import FileNames
from parachuted.vault import NOTE_SUFFIXES, VaultPath, printable, resolve

_MOST_ROWS = 1_000
_BATCH = 200
_LARGEST_IN_BATCH = 10 << 20
_PATIENCE_S = 0.2


class BoundedNotes(VaultReading):
    """The vault's notes, as far as they may be read."""

    async def note(self, path: str) -> Note:
        """The note as it is now; its digest may be the base of a later edit.

        Raises EditRefusedError for a file that is no UTF-8 text.
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
        """The links in a note, in its order."""
        target = VaultPath.parse(path)
        beyond = await self._beyond("read", target)
        return await run_uninterrupted(self._links, target, beyond)

    async def backlinks(self, path: str) -> Links:
        """The links to a file in the readable notes, by their paths."""
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
