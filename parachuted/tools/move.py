"""Move: moves a file, and rewrites every link that led to it or would now lead elsewhere.

The file moves first, then each note is written. It is one act: what is left of it when the program
dies is done at the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from parachuted.errors import ParachuteError
from parachuted.history.acts import Act, ActStep, follow_links, recorded_act
from parachuted.vault import (
    NOTE_SUFFIXES,
    Author,
    LinkRewrites,
    ParsedNote,
    Store,
    VaultPath,
    WriteResult,
    digest_of,
    parse_note,
    printable,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rewrite:
    """`data` None: it may not be written. `left` counts those of the `wanted` links that stay."""

    path: VaultPath
    note: ParsedNote
    data: bytes | None
    wanted: int
    left: int


class Mover:
    """`linking` tells which notes are known to have links to a file. Blocks on the disk."""

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
        """Each note is a write of its own, for which `writing` is entered.

        `files` are all files of the vault, or, where they are not (`are_all`), all that exist for
        the caller. Raises ConflictError when the target is taken, or the note is not of digest
        `base`.
        """
        rewrites = LinkRewrites.of_move(source, target, files, are_all=are_all)
        old, new = self._store.placed(source), self._store.placed(target)
        digest = self._store.read(source).digest
        steps, left = [ActStep(path=new, base=None, after=digest, source=old)], 0
        waiting: list[tuple[VaultPath, int]] = []
        for one in self._rewritten(rewrites, may_write):
            if one.data is None or one.data == one.note.data:
                left += one.left
                continue
            path = new if one.path == source else self._store.resolve(one.path)
            seen, after = digest_of(one.note.data), digest_of(one.data)
            steps.append(ActStep(path=path, base=seen, after=after))
            waiting.append((one.path, one.wanted))
        act = Act(
            what=f"the move of {printable(source)} to {printable(target)}",
            author=author,
            steps=steps,
            are_all=are_all,
        )
        rewritten: list[WriteResult] = []
        with recorded_act(self._store, act):
            with writing(target) as wrote:
                written = self._store.move(source, target, author, base=base)
                wrote(written)
            for step, (was, wanted) in zip(steps[1:], waiting, strict=True):
                path = VaultPath(step.path)
                try:
                    with writing(path) as wrote:
                        done, still = follow_links(self._store, rewrites, path, was, author)
                        wrote(done)
                except ParachuteError:  # gone, or the disk refuses: the file has moved all the same
                    left += wanted
                else:
                    left += still
                    rewritten += [done] if done.changed else []
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
        """What `move` would do to links as the notes are now. Raises NotFoundError."""
        self._store.root.read(source)
        rewrites = LinkRewrites.of_move(source, target, files, are_all=are_all)
        changes, left = list[LinkChange](), 0
        for one in self._rewritten(rewrites, may_write):
            left += one.left
            if one.data is not None:
                changes += _changed_lines(one.path, one.note.data, one.data)
        return MovePlan(changes=tuple(changes), left=left)

    def _rewritten(
        self, rewrites: LinkRewrites, may_write: Callable[[str], bool]
    ) -> Iterator[_Rewrite]:
        for path, note in self._notes(rewrites, VaultPath(rewrites.source)):
            wanted = rewrites.count(note, path)
            data, left = rewrites.rewritten(note, path) if may_write(path) else (None, wanted)
            yield _Rewrite(path=path, note=note, data=data, wanted=wanted, left=left)

    def _notes(
        self, rewrites: LinkRewrites, place: VaultPath
    ) -> Iterator[tuple[VaultPath, ParsedNote]]:
        """Notes to look at, by their paths before the move; the one that moves is at `place`."""
        sources = rewrites.sources(self._linking)
        if not rewrites.target.endswith(NOTE_SUFFIXES):  # nothing in another file is a link
            sources -= {rewrites.source}
        for path in map(VaultPath, sorted(sources)):
            try:
                data = self._store.read(place if path == rewrites.source else path).data
            except ParachuteError:
                continue  # gone since the index saw it
            yield path, parse_note(data)


def _changed_lines(path: VaultPath, before: bytes, after: bytes) -> Iterator[LinkChange]:
    """A link keeps to its lines when it is rewritten, so its line number identifies it."""
    texts = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
    for number, (was, becomes) in enumerate(zip(*texts, strict=False), 1):
        if was != becomes:
            yield LinkChange(path=path, line=number, was=was, becomes=becomes)
