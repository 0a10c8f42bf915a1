"""Moves a file, and rewrites every link that led to it or would now lead elsewhere.

The file moves first. If the program dies before the last link is rewritten, nothing is lost: the
remaining links are listed as broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.vault import (
    NOTE_SUFFIXES,
    Author,
    Link,
    ParsedNote,
    Store,
    VaultPath,
    WriteResult,
    leads_straight,
    links_in,
    name_key,
    parse_note,
    resolve,
    rewrite_links,
    spelled,
)

Writing: TypeAlias = Callable[[VaultPath], AbstractContextManager[Callable[[WriteResult], None]]]


def unwatched(_path: VaultPath) -> AbstractContextManager[Callable[[WriteResult], None]]:
    return nullcontext(lambda _written: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """What a move did: the note's new place, the notes that were rewritten, and how many links
    could not be.
    """

    written: WriteResult
    rewritten: tuple[WriteResult, ...]
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """A line of a note, before and after a move; lines count from 1."""

    path: VaultPath
    line: int
    was: str
    becomes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """What a move would do to links, and how many it would leave."""

    changes: tuple[LinkChange, ...]
    left: int


class FileNames:
    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        for path in self._paths:
            self._by_name.setdefault(name_key(path.rpartition("/")[2]), []).append(path)

    def by_name(self, key: str) -> Iterable[str]:
        return self._by_name.get(key, ())

    def exists(self, path: str) -> bool:
        return path in self._paths

    def moved(self, source: str, target: str) -> FileNames:
        return FileNames((self._paths - {source}) | {target})


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRewrites:
    """What a move means for links: pure.

    `are_all`: whether `before` and `after` are all files of the vault.
    """

    source: str
    target: str
    before: FileNames
    after: FileNames
    are_all: bool = True

    def rewritten(self, note: ParsedNote, path: str) -> tuple[bytes, int]:
        """The note, which was at `path`, with each link meaning what it meant, and the number of
        links for which that cannot be written.
        """
        left = 0

        def replaced(link: Link) -> str | None:
            nonlocal left
            want = self._wanted(link, path)
            if want is None:
                return None
            was, now = (path, self._was(want)), (self._now(path), want)
            text = spelled(
                link, was=was, now=now, names=self.after, data=note.data, whole=not self.are_all
            )
            left += text is None
            return text

        return rewrite_links(note, replaced), left

    def count(self, note: ParsedNote, path: str) -> int:
        return sum(self._wanted(link, path) is not None for link in links_in(note))

    def sources(self, linking: Callable[[str], Iterable[str]]) -> set[str]:
        """The notes to look at: those with links to the note, or to a file whose name it takes from
        now on.
        """
        name = name_key(self.target.rpartition("/")[2])
        rivals = {
            rival for key in (name, name.rpartition(".")[0]) for rival in self.before.by_name(key)
        }
        return {note for file in {self.source, *rivals} for note in linking(file)} | {self.source}

    def _wanted(self, link: Link, path: str) -> str | None:
        """The file that the link is to name from now on, where it does not do so as it stands."""
        was = resolve(link, path, self.before)
        if was is None:
            return None
        want = self._now(was)
        is_straight = leads_straight(link, path, was)
        stays = resolve(link, self._now(path), self.after) == want and (
            not is_straight or leads_straight(link, self._now(path), want)
        )
        return None if stays else want

    def _now(self, path: str) -> str:
        return self.target if path == self.source else path

    def _was(self, path: str) -> str:
        return self.source if path == self.target else path


class Mover:
    """Moves notes.

    `linking` tells, as far as it is known, which notes have links to a file. Blocks on the disk.
    """

    def __init__(self, store: Store, linking: Callable[[str], Iterable[str]]) -> None:
        self._store, self._linking = store, linking

    def move(
        self,
        source: VaultPath,
        target: VaultPath,
        author: Author,
        *,
        base: str | None,
        files: Iterable[str],
        may_write: Callable[[str], bool],
        are_all: bool = True,
        writing: Writing = unwatched,
    ) -> MoveResult:
        """Move the file and rewrite links, each note a write of its own, in those that `may_write`
        allows. `writing` is entered for each write, and gives what is called with its result.

        `files` are all files of the vault, or, where they are not (`are_all`), all that exist for
        the caller. Raises ConflictError when the target is taken, or the note is not of digest
        `base`.
        """
        rewriting = _rewrites(source, target, files, are_all=are_all)
        sources = self._sources(rewriting, source, target)
        with writing(target) as wrote:
            written = self._store.move(source, target, author, base=base)
            wrote(written)
        rewritten, left = [], 0
        for note in sorted(sources):
            done, stays = self._rewrite(
                VaultPath(note), rewriting, author, may_write=may_write(note), writing=writing
            )
            rewritten += [done] if done is not None and done.changed else []
            left += stays
        return MoveResult(written=written, rewritten=tuple(rewritten), left=left)

    def plan(
        self,
        source: VaultPath,
        target: VaultPath,
        *,
        files: Iterable[str],
        may_write: Callable[[str], bool],
        are_all: bool = True,
    ) -> MovePlan:
        """What `move` would do to links as the notes are now; nothing is written.

        Raises NotFoundError for a note that is gone.
        """
        self._store.root.read(source)
        rewriting = _rewrites(source, target, files, are_all=are_all)
        changes, left = list[LinkChange](), 0
        for name in sorted(self._sources(rewriting, source, target)):
            path = VaultPath(name)
            try:
                note = parse_note(self._store.root.read(path).data)
            except NotFoundError:
                continue  # gone since the index saw it
            if not may_write(name):
                left += rewriting.count(note, path)
                continue
            data, stays = rewriting.rewritten(note, path)
            left += stays
            changes += _changed_lines(path, note.data, data)
        return MovePlan(changes=tuple(changes), left=left)

    def _sources(self, rewriting: LinkRewrites, source: VaultPath, target: VaultPath) -> set[str]:
        found = rewriting.sources(self._linking)
        # Nothing in a file of another kind is a link.
        return found if target.endswith(NOTE_SUFFIXES) else found - {source}

    def _rewrite(
        self,
        path: VaultPath,
        rewriting: LinkRewrites,
        author: Author,
        *,
        may_write: bool,
        writing: Writing,
    ) -> tuple[WriteResult | None, int]:
        place = VaultPath(rewriting.target) if path == rewriting.source else path
        wanted = 0
        try:
            content = self._store.read(place, keep=may_write)
            note = parse_note(content.data)
            wanted = rewriting.count(note, path)
            if not wanted or not may_write:
                return None, wanted
            data, left = rewriting.rewritten(note, path)
            with writing(place) as wrote:
                written = self._store.replace(place, data, author, base=content.digest)
                wrote(written)
                return written, left
        # changed in the same place meanwhile, gone, or the disk refuses: the note has moved all the
        # same
        except ParachuteError:
            return None, wanted


def _rewrites(
    source: VaultPath, target: VaultPath, files: Iterable[str], *, are_all: bool
) -> LinkRewrites:
    before = FileNames({source, *files})
    after = before.moved(source, target)
    return LinkRewrites(source=source, target=target, before=before, after=after, are_all=are_all)


def _changed_lines(path: VaultPath, before: bytes, after: bytes) -> Iterator[LinkChange]:
    """A link keeps to its lines when it is rewritten, so its line number identifies it."""
    lines = zip(_lines(before), _lines(after), strict=False)
    for number, (was, becomes) in enumerate(lines, 1):
        if was != becomes:
            yield LinkChange(path=path, line=number, was=was, becomes=becomes)


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").splitlines()
