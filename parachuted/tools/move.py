"""Moves a file, and rewrites every link that led to it or would now lead elsewhere.

The file moves first, then each note is written. It is one act: what is left of it when the program
dies is done at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from parachuted.access.origin import Origin
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.history.acts import Act, ActStep, recorded_act
from parachuted.vault import (
    NOTE_SUFFIXES,
    Author,
    Link,
    ParsedNote,
    Store,
    VaultPath,
    WriteResult,
    digest_of,
    leads_straight,
    links_in,
    name_key,
    parse_note,
    place_of,
    printable,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rewrite:
    """A note, at its path before the move, with what is to become of it: None where it may not be
    written. `wanted` counts the links that are to change, `left` those of them that will not.
    """

    path: VaultPath
    note: ParsedNote
    data: bytes | None
    wanted: int
    left: int


class Mover:
    """Moves notes.

    `linking` tells, as far as it is known, which notes have links to a file. Blocks on the disk.
    """

    def __init__(self, store: Store, linking: Callable[[str], Iterable[str]]) -> None:
        self._store, self._linking = store, linking

    def move(  # noqa: PLR0913  who moves, what they may, and what is told of it
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
        origin: Origin = "you",
    ) -> MoveResult:
        """Move the file and rewrite links, each note a write of its own, in those that `may_write`
        allows. `writing` is entered for each write, and gives what is called with its result;
        `origin` is what these count as where a crash leaves them to the next start.

        `files` are all files of the vault, or, where they are not (`are_all`), all that exist for
        the caller. Raises ConflictError when the target is taken, or the note is not of digest
        `base`.
        """
        rewriting = _rewrites(source, target, files, are_all=are_all)
        old, new = self._store.placed(source), self._store.placed(target)
        digest = self._store.read(source).digest
        steps, left = [ActStep(path=new, base=None, after=digest, source=old)], 0
        wanted: list[int] = []
        for one in self._rewritten(rewriting, source, target, may_write, keep=True):
            left += one.left
            if one.data not in {None, one.note.data}:
                steps.append(self._step(one, source, new))
                wanted.append(one.wanted - one.left)
        what = f"the move of {printable(source)} to {printable(target)}"
        rewritten: list[WriteResult] = []
        with recorded_act(self._store, Act(what=what, author=author, steps=steps, origin=origin)):
            with writing(target) as wrote:
                written = self._store.move(source, target, author, base=base)
                wrote(written)
            for step, links in zip(steps[1:], wanted, strict=True):
                try:
                    done = self._write(step, author, writing)
                # changed in the same place meanwhile, gone, or the disk refuses: the note has moved
                # all the same
                except ParachuteError:
                    left += links
                else:
                    rewritten += [done] if done.changed else []
        return MoveResult(written=written, rewritten=tuple(rewritten), left=left)

    def moved_before(
        self, source: VaultPath, target: VaultPath, *, base: str | None
    ) -> MoveResult | None:
        """The result of a move that was done already, for who asks again since the answer was lost;
        None where the file did not come from there, or is not there any more.
        """
        history, root = self._store.history, self._store.root
        old, new = self._store.placed(source), self._store.placed(target)
        last = next(iter(history.writes_of(old)[::-1]), None)
        came = history.other_half(last) if last is not None and last.after is None else None
        if came is None or root.is_there(old) or base not in {None, came.after}:
            return None
        if came.path != new or place_of(history, came) != new or not root.is_there(new):
            return None
        written = WriteResult(path=new, before=None, after=self._store.read(new).digest)
        return MoveResult(written=written, rewritten=(), left=0)

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
        for one in self._rewritten(rewriting, source, target, may_write, keep=False):
            left += one.left
            if one.data is not None:
                changes += _changed_lines(one.path, one.note.data, one.data)
        return MovePlan(changes=tuple(changes), left=left)

    def _rewritten(
        self,
        rewriting: LinkRewrites,
        source: VaultPath,
        target: VaultPath,
        may_write: Callable[[str], bool],
        *,
        keep: bool,
    ) -> Iterator[_Rewrite]:
        """Each note that is concerned; `keep` keeps the text of what is to be written."""
        sources = rewriting.sources(self._linking)
        if not target.endswith(NOTE_SUFFIXES):  # nothing in a file of another kind is a link
            sources -= {source}
        for name in sorted(sources):
            path, is_allowed = VaultPath(name), may_write(name)
            try:
                note = parse_note(self._store.read(path, keep=keep and is_allowed).data)
            except ParachuteError:
                continue  # gone since the index saw it
            wanted = rewriting.count(note, path)
            if is_allowed:
                data, left = rewriting.rewritten(note, path)
                yield _Rewrite(path=path, note=note, data=data, wanted=wanted, left=left)
            else:
                yield _Rewrite(path=path, note=note, data=None, wanted=wanted, left=wanted)

    def _step(self, one: _Rewrite, source: VaultPath, new: VaultPath) -> ActStep:
        """Its text is kept, so that it can be written in another life."""
        path = new if one.path == source else self._store.resolve(one.path)
        after = self._store.objects.put(one.data or b"")
        return ActStep(path=path, base=digest_of(one.note.data), after=after)

    def _write(self, step: ActStep, author: Author, writing: Writing) -> WriteResult:
        path = VaultPath(step.path)
        data = self._store.objects.get(str(step.after))
        if data is None:
            raise NotFoundError(f"what {printable(path)} was to say is no longer kept")
        with writing(path) as wrote:
            written = self._store.replace(path, data, author, base=step.base)
            wrote(written)
        return written


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
