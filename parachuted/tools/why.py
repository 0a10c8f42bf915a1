"""Why: which write put a line where it is, and what led to that write.

The method is that of `git blame`: from the present text back through every text the history holds, following each line while it
stays the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parachuted.vault import BRINGS_BACK, History, Objects, Store, VaultPath, Write

_MOST_LINES = 5000
_MOST_VERSIONS = 1000
_MOST_COMPARED = 4_000_000
PERSON = "person"

_Lines = Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOrigin:
    """One line of the present text: its number from 1, and who wrote it; `run` names the agent's run."""

    number: int
    text: str
    by: str
    at: str | None
    run: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """A text the file had, and the write that made it; None: a person did."""

    digest: str | None
    lines: _Lines
    write: Write | None


class Why:
    """Explains lines."""

    def __init__(self, store: Store, objects: Objects, history: History) -> None:
        self._store, self._objects, self._history = store, objects, history

    def lines(self, path: VaultPath) -> list[LineOrigin]:
        """Where each line of the file comes from. What was there before the first known write is a person's. Blocks on the disk."""
        content = self._store.read(path)
        present = _lines_of(content.data)
        versions = self._versions(path)
        if not versions or versions[-1].digest != content.digest:
            versions = _followed_by(versions, _Version(digest=content.digest, lines=present, write=None))
        writes = _Tracing(versions).trace()
        return [_origin(number, line, writes.get(number)) for number, line in enumerate(present)]

    def run(self, run: str) -> Mapping[str, object] | None:
        """The document of a run."""
        return self._history.run(run)

    def _versions(self, path: VaultPath) -> list[_Version]:
        """The texts the history holds, oldest first: before and after each write; between two writes a person may have edited."""
        versions: list[_Version] = []
        for write in self._history.writes_of(path)[-_MOST_VERSIONS:]:
            for digest, author in ((write.before, None), (write.after, write)):
                if not versions or versions[-1].digest != digest:
                    versions = _followed_by(versions, _Version(digest=digest, lines=self._lines(digest), write=author))
        return versions

    def _lines(self, digest: str | None) -> _Lines:
        return _lines_of(self._objects.get(digest) or b"") if digest is not None else ()


class _Tracing:
    """Goes back through the versions. A line belongs to the write after the oldest version that has it."""

    def __init__(self, versions: Sequence[_Version]) -> None:
        self._versions = versions
        self._writes: dict[int, Write | None] = {}
        self._restored: list[tuple[_Version, dict[int, int]]] = []

    def trace(self) -> dict[int, Write | None]:
        """For each line of the last version, by number from 0, the write that it came with."""
        last = self._versions[-1]
        places = {number: number for number in range(len(last.lines))}
        for older, newer in zip(self._versions[-2::-1], self._versions[::-1], strict=False):
            places = self._step_back(places, newer, older)
            places |= self._find_again(older)
        for number in places:
            self._writes[number] = self._versions[0].write
        for version, lost in self._restored:
            self._writes |= dict.fromkeys(lost, version.write)
        return self._writes

    def _step_back(self, places: Mapping[int, int], newer: _Version, older: _Version) -> dict[int, int]:
        """Follow lines into the text before; those that are not there came with the newer one. An undo brings back older ones."""
        same = _same_lines(older.lines, newer.lines)
        came = {number: place for number, place in places.items() if place not in same}
        if came and newer.write is not None and newer.write.author.by in BRINGS_BACK:
            self._restored.append((newer, came))
        else:
            self._writes |= dict.fromkeys(came, newer.write)
        return {number: same[place] for number, place in places.items() if place in same}

    def _find_again(self, older: _Version) -> dict[int, int]:
        """Lines that an undo brought back, in an older text that has them."""
        found: dict[int, int] = {}
        for version, lost in self._restored:
            same = _same_lines(older.lines, version.lines) if lost else {}
            for number in [number for number, place in lost.items() if place in same]:
                found[number] = same[lost.pop(number)]
        return found


def _followed_by(versions: Sequence[_Version], version: _Version) -> list[_Version]:
    """A text that comes back takes out what lay between, so that its lines are again who wrote them first."""
    place = next((number for number, known in enumerate(versions) if known.digest == version.digest), None)
    return [*versions, version] if place is None else list(versions[: place + 1])


def _same_lines(older: _Lines, newer: _Lines) -> dict[int, int]:
    """For each line of the newer text that stands in the older one too, its place there."""
    start = _common(older, newer)
    stop = _common(older[start:][::-1], newer[start:][::-1])
    same = {place: place for place in range(start)}
    same |= {len(newer) - 1 - place: len(older) - 1 - place for place in range(stop)}
    middle, new_middle = older[start : len(older) - stop], newer[start : len(newer) - stop]
    if len(middle) * len(new_middle) <= _MOST_COMPARED:
        for block in difflib.SequenceMatcher(None, middle, new_middle, autojunk=False).get_matching_blocks():
            same |= {start + block.b + step: start + block.a + step for step in range(block.size)}
    return same


def _common(one: _Lines, other: _Lines) -> int:
    return next((number for number, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other)))


def _lines_of(data: bytes) -> _Lines:
    """Lines as editors count them, so that a line end of another system is no difference."""
    lines = data.split(b"\n", _MOST_LINES)[:_MOST_LINES]
    return [line.removesuffix(b"\r") for line in (lines if lines[-1] else lines[:-1])]


def _origin(number: int, line: bytes, write: Write | None) -> LineOrigin:
    text = line.decode("utf-8", "replace")
    if write is None:
        return LineOrigin(number=number + 1, text=text, by=PERSON, at=None, run=None)
    return LineOrigin(number=number + 1, text=text, by=write.author.by, at=write.at.isoformat(), run=write.author.run)
