"""Granted index: what the indexes know of files and notes, as far as one user may see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from parachuted.access.notes import (
    Hit,
    Hits,
    LinkRow,
    Links,
    Note,
    NoteBatch,
    NotePage,
    Paths,
)
from parachuted.access.private_text import may_be_private
from parachuted.access.strangers import says_stranger
from parachuted.errors import ActRefusedError, ParachuteError, StorageFailedError
from parachuted.keys import PathGlob
from parachuted.runs.granted_files import GrantedFiles
from parachuted.runs.note_values import Resolve, make_note, make_row
from parachuted.search import NoteQuery, ParsedQuery, Search
from parachuted.vault import FileNames, VaultPath, printable, resolve

BATCH = 200
_LARGEST_IN_BATCH, _LARGEST_READ = 10 << 20, 64 << 20
_INDEX_S, _LINKS_S = 0.2, 5.0


class GrantedIndex:
    def __init__(self, search: Search, files: GrantedFiles) -> None:
        self._search, self._files = search, files
        self.strangers_left_out = 0

    def listed(self, wanted: PathGlob, paths: Iterable[str]) -> Paths:
        """In a run strangers' files only where the pattern names a folder."""
        may_read = self._files.bounds.may_read
        found = [path for path in paths if wanted.matches(path) and may_read(path)]
        left_out = set() if wanted.folder else set(filter(self._is_hidden, found))
        self.strangers_left_out = len(left_out)
        found = sorted((path for path in found if path not in left_out), key=printable)
        self._record(filter(self._files.user.strangers.is_place, found))  # names are texts, too
        return found

    def names(self, paths: Iterable[str]) -> FileNames:
        return FileNames(filter(self.can_see(), paths))

    def search(self, query: ParsedQuery, limit: int) -> Hits:
        hits = self._search.engine.find(query, limit, self._files.bounds.may_read).hits
        visible = self.visible([hit.path for hit in hits])
        return [
            Hit(path=printable(hit.path), title=hit.title, snippet=hit.snippet)
            for hit in hits
            if hit.path in visible
        ]

    def note(self, path: VaultPath, beyond: Sequence[str]) -> Note:
        content = self._files.read(path, see=True, beyond=beyond)
        note = make_note(path, content, None, self._resolver(path))
        with suppress(StorageFailedError):  # which is raised when somebody needs the links
            note.links  # noqa: B018  here, in a thread: the index is asked where they lead
        return note

    def batch(self, paths: Sequence[VaultPath], names: FileNames | None) -> NoteBatch:
        bounds = self._files.bounds
        for path in paths:
            bounds.check_read(path, path)
        try:
            indexed = self._search.catalogue.notes_at(paths)
        except StorageFailedError:  # it only saves time
            indexed = {}
        notes: list[Note] = []
        left_out: dict[str, str] = {}
        for path, content in self._files.store.root.read_each(paths, _LARGEST_IN_BATCH):
            try:
                if isinstance(content, ParachuteError):
                    raise content
                row = indexed.get(path)
                if (row is not None and row.digest != content.digest) or may_be_private(
                    content.data  # of which the index has nothing
                ):
                    row = None
                visible = self._files.disclosed(path, content)
                note = make_note(path, visible, row, self._resolver(path, names))
                if names is None:
                    note.links  # noqa: B018  here, in a thread
            except ParachuteError as error:
                left_out[printable(path)] = error.message
                continue
            notes.append(note)
        return NoteBatch(notes=tuple(notes), left_out=left_out)

    def page(self, query: NoteQuery, *, is_asked: bool) -> NotePage:
        self._search.settle(_INDEX_S)
        is_indexing = self._search.is_behind
        try:
            page = self._search.catalogue.notes(query, self._files.bounds.may_read)
        except ValueError as error:
            raise ActRefusedError(str(error)) from error
        visible = self.visible([row.path for row in page.rows], is_asked=is_asked)
        rows = tuple(make_row(row) for row in page.rows if row.path in visible)
        return NotePage(notes=rows, next=page.next, is_indexing=is_indexing)

    def backlinks(self, path: VaultPath) -> Links:
        real = self._files.existing(path)
        self._search.settle(_INDEX_S)
        rows = self._search.catalogue.links_to(real, self.can_see())
        visible = self.visible([row.source for row in rows])
        sources, titles = sorted(visible), dict[str, str]()
        for first in range(0, len(sources), BATCH):
            found = self._search.catalogue.notes_at(sources[first : first + BATCH])
            titles |= {path: row.title for path, row in found.items()}
        return [
            LinkRow(
                path=printable(row.source),
                title=titles.get(row.source),
                line=row.line,
                text=printable(row.text),
            )
            for row in rows
            if row.source in visible
        ]

    def linking(self, path: str) -> set[str]:
        """Waits until search knows the notes that were just saved."""
        self._search.settle(_LINKS_S)
        may_read = self._files.bounds.may_read
        return {row.source for row in self._search.catalogue.links_to(path, may_read)}

    def visible(self, paths: Sequence[str], *, is_asked: bool = False) -> set[str]:
        """The notes whose words may be shown: all to a module's code, which that taints; to a run
        trusted ones, or all once it is tainted or asks for strangers' too (`is_asked`).
        """
        user, found = self._files.user, set(paths)
        strangers = [] if user.taint else list(self._of_strangers(sorted(found)))
        if user.run is None or is_asked:
            self._record(strangers)
            strangers = []
        self.strangers_left_out = len(strangers)
        return found.difference(strangers)

    def _of_strangers(self, paths: Iterable[str]) -> Iterator[str]:
        """Also what is gone, too large, or a link by now."""
        is_place = self._files.user.strangers.is_place
        notes = map(VaultPath, paths)
        for path, content in self._files.store.root.read_each(notes, _LARGEST_READ):
            if isinstance(content, ParachuteError) or is_place(path) or says_stranger(content.data):
                yield path

    def _record(self, strangers: Iterable[str]) -> None:
        """Before the names of these are handed out."""
        found = next(iter(strangers), None)
        if found is not None and not self._files.user.taint:
            self._files.record_strangers(found)

    def _is_hidden(self, path: str) -> bool:
        """Whether a run may not learn yet that the file exists, as strangers may have named it."""
        user = self._files.user
        return user.run is not None and not user.taint and user.strangers.is_place(path)

    def can_see(self) -> Callable[[str], bool]:
        """Whether a file is there for the reader; no run learns strangers' names by links."""
        may_read = self._files.bounds.may_read
        return lambda path: may_read(path) and not self._is_hidden(path)

    def _resolver(self, path: VaultPath, names: FileNames | None = None) -> Resolve:
        if names is not None:
            return lambda links: [resolve(link, path, names) for link in links]
        can_see, resolved = self.can_see(), self._search.catalogue.resolved
        return lambda links: resolved(links, path, can_see)
