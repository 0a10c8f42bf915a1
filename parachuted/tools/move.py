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

    @property
    def digest(self) -> str:
        """Of the moved note, whose own links may have been rewritten."""
        own = [written for written in self.rewritten if written.path == self.written.path]
        return str((own or [self.written])[-1].after)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkScope:
    """The links that follow a move: `files` are all files of the vault, or, where they are not
    (`are_all`), all that exist for the caller; `linking` names the notes with links to a file.
    """

    files: Iterable[str]
    linking: Callable[[str], Iterable[str]]
    may_write: Callable[[str], bool]
    are_all: bool = True


def move_file(
    store: Store,
    source: VaultPath,
    target: VaultPath,
    author: Author,
    links: LinkScope,
    *,
    base: str | None,
    writing: Writing = unwatched,
) -> MoveResult:
    """Blocks on the disk. Each note is a write of its own, for which `writing` is entered. Raises
    ConflictError when the target is taken, or the note is not of digest `base`.
    """
    rewrites = LinkRewrites.of_move(source, target, links.files, are_all=links.are_all)
    old, new = store.placed(source), store.placed(target)
    steps, left = [ActStep(path=new, base=None, after=store.read(source).digest, source=old)], 0
    waiting: list[tuple[VaultPath, int]] = []
    for path, note in _linking_notes(store, rewrites, links):
        wanted = rewrites.count(note, path)
        data, still = (
            rewrites.rewritten(note, path) if links.may_write(path) else (note.data, wanted)
        )
        if data == note.data:
            left += still
            continue
        place = new if path == source else store.resolve(path)
        steps.append(ActStep(path=place, base=digest_of(note.data), after=digest_of(data)))
        waiting.append((path, wanted))
    what = f"the move of {printable(source)} to {printable(target)}"
    rewritten: list[WriteResult] = []
    with recorded_act(store, Act(what=what, author=author, steps=steps, are_all=links.are_all)):
        with writing(target) as wrote:
            written = store.move(source, target, author, base=base)
            wrote(written)
        for step, (was, wanted) in zip(steps[1:], waiting, strict=True):
            place = VaultPath(step.path)
            try:
                with writing(place) as wrote:
                    done, still = follow_links(store, rewrites, place, was, author)
                    if done.changed:
                        wrote(done)
                        rewritten.append(done)
            except ParachuteError:  # gone, or the disk refuses: the file has moved all the same
                left += wanted
            else:
                left += still
    return MoveResult(written=written, rewritten=tuple(rewritten), left=left)


def _linking_notes(
    store: Store, rewrites: LinkRewrites, links: LinkScope
) -> Iterator[tuple[VaultPath, ParsedNote]]:
    sources = rewrites.sources(links.linking)
    if not rewrites.target.endswith(NOTE_SUFFIXES):  # nothing in another file is a link
        sources -= {rewrites.source}
    for path in map(VaultPath, sorted(sources)):
        try:
            data = store.read(path).data
        except ParachuteError:
            continue  # gone since the index saw it
        yield path, parse_note(data)
