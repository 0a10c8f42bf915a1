"""Why: which write put a line where it is, and what led to that write. As `git blame`: back through
every kept text, following each line while it stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from parachuted.errors import NotFoundError
from parachuted.history.undo import cascade_of
from parachuted.texts.times import StoredTime
from parachuted.vault import (
    BRINGS_BACK,
    Store,
    TextVersion,
    VaultPath,
    Write,
    count_changed,
    printable,
    trail_of,
)
from parachuted.vault.chains import WriteChain, chains_of
from parachuted.vault.merge import same_lines
from parachuted.vault.trail import PERSON

MOST_VERSIONS = 1000
SHORT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """`version` is its digest (None: there was no file). `added` and `removed` count lines against
    the version before, where both texts are kept; `kept`: it can be restored.
    """

    version: str | None
    path: VaultPath
    source: VaultPath | None
    kind: str
    at: datetime | None
    by: str
    run: str | None
    causes: tuple[str, ...]
    added: int | None
    removed: int | None
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHistory:
    """The latest versions, newest first, of `count` in all; `since`: when the newest was made of
    those no longer kept.
    """

    path: VaultPath
    versions: list[FileVersion]
    count: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """What runs changed in one file, without what others wrote in between (then a file has
    several). `diff` says so when a text is no longer kept.
    """

    path: VaultPath
    runs: tuple[str, ...]
    before: str | None
    after: str | None
    diff: str


class HistoryQueries:
    def __init__(self, store: Store) -> None:
        self._store, self._objects, self._history = store, store.objects, store.history

    def versions(self, path: VaultPath) -> list[TextVersion]:
        """All known versions, oldest first. NotFoundError when the file never existed."""
        present: str | None = None
        try:
            present = self._store.read(path).digest
        except NotFoundError:
            if not self._history.writes_of(path) and not self._history.sightings_of(path):
                raise
        return trail_of(self._history, path, present)

    def changes(
        self, path: VaultPath, limit: int = 50, *, sees: Callable[[str], bool] = lambda _path: True
    ) -> FileHistory:
        """The latest versions that the caller may see. Raises as `versions` does."""
        versions = self.versions(path)
        seen = [number for number, version in enumerate(versions) if sees(version.path)]
        latest = seen[max(0, len(seen) - min(limit, MOST_VERSIONS)) :]
        file_versions = [
            self._change(versions[number], versions[number - 1] if number else None, sees)
            for number in reversed(latest)
        ]
        since = self._history.pruned(path)
        return FileHistory(path=path, versions=file_versions, count=len(seen), since=since)

    def runs(self, run: str, *, cascade: bool) -> list[dict[str, object]]:
        """The run, with `cascade` what followed too, newest first. NotFoundError."""
        document = self._history.run(run)
        if document is None:
            raise NotFoundError(
                f"there is no run {printable(run[:80])}; `parachute runs` lists them"
            )
        return cascade_of(document, self._history) if cascade else [document]

    def diff(self, documents: Iterable[Mapping[str, object]]) -> list[FileDiff]:
        """What these runs wrote, by file; from their documents once writes are gone."""
        diffs: list[FileDiff] = []
        writes: list[Write] = []
        for document in documents:
            own = self._history.writes_by(str(document["id"]))
            writes += own
            if not own:
                diffs += _accounted(document)
        chains = chains_of(sorted(writes, key=lambda write: write.id), self._history.other_half)
        return [*map(self._difference, chains), *diffs]

    def _change(
        self, version: TextVersion, before: TextVersion | None, sees: Callable[[str], bool]
    ) -> FileVersion:
        text, source = self._text(version.digest), version.source
        last = b"" if before is None and version.kind == "created" else None
        if before is not None and sees(before.path):
            last = self._text(before.digest)
        added, removed = _counted(last, text)
        return FileVersion(
            version=version.digest,
            path=VaultPath(version.path),
            source=VaultPath(source) if source is not None and sees(source) else None,
            kind=version.kind,
            at=version.at,
            by=version.by,
            run=version.run,
            causes=version.causes,
            added=added,
            removed=removed,
            kept=version.digest is not None and version.digest in self._objects,
        )

    def _difference(self, chain: WriteChain[Write]) -> FileDiff:
        return FileDiff(
            path=VaultPath(chain.path),
            runs=tuple(dict.fromkeys(str(write.author.run) for write in chain.writes)),
            before=chain.before,
            after=chain.after,
            diff=chain.diff(self._objects),
        )

    def _text(self, digest: str | None) -> bytes | None:
        return b"" if digest is None else self._objects.get(digest)


def _counted(before: bytes | None, after: bytes | None) -> tuple[int | None, int | None]:
    """Lines that came and went; None where a text is not kept or they are too many."""
    if before is None or after is None:
        return None, None
    return count_changed(before, after) or (None, None)


def _accounted(document: Mapping[str, object]) -> list[FileDiff]:
    wrote: list[Mapping[str, str]] = document.get("wrote", [])  # type: ignore[assignment]
    return [
        FileDiff(
            path=VaultPath(one["path"]),
            runs=(str(document["id"]),),
            before=one.get("before"),
            after=one.get("after"),
            diff=one.get("diff", ""),
        )
        for one in wrote
    ]


_MOST_LINES = 5000
_MOST_VERSIONS = 1000
_LONGEST_CHAIN = 50
EARLIER = "earlier"

_Lines = Sequence[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOrigin:
    """A line of the current text, from 1. `by` is "earlier" for what is older than the history."""

    number: int
    text: str
    by: str
    at: StoredTime | None
    run: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """A text of the file, and its author; None: unknown, since the text before it is not kept."""

    digest: str | None
    lines: _Lines
    origin: TextVersion | None


_A_PERSONS = TextVersion(path="", digest=None, by=PERSON, kind="created")


class Why:
    def __init__(self, store: Store) -> None:
        self._store, self._objects, self._history = store, store.objects, store.history

    def lines(self, path: VaultPath) -> list[LineOrigin]:
        """The origin of each line, wherever the file was then. What preceded the first known write
        is a person's, unless older records were dropped. Blocks on the disk.
        """
        content = self._store.read(path)
        present = _lines_of(content.data)
        origins = _trace(self._versions(path, content.digest, present))
        return [_origin(number, line, origins.get(number)) for number, line in enumerate(present)]

    def chain(self, run: str) -> list[Mapping[str, object]]:
        """The runs that led to that one, nearest first, back to a person's change."""
        found: list[Mapping[str, object]] = []
        names = [run]
        for name in names:  # which grows meanwhile
            if (document := self._history.run(name)) is not None and len(found) < _LONGEST_CHAIN:
                found += [document] if name != run else []
                parents = map(str, document["parents"])  # type: ignore[call-overload]
                names += [parent for parent in dict.fromkeys(parents) if parent not in names]
        return found

    def _versions(self, path: VaultPath, digest: str, present: _Lines) -> list[_Version]:
        """The known texts, oldest first. A missing one hides the author of the next."""
        trail = trail_of(self._history, path, digest)
        is_hidden = len(trail) > _MOST_VERSIONS or any(
            self._history.pruned(one) for one in {path, *(one.path for one in trail)}
        )
        versions: list[_Version] = []
        known = trail[-_MOST_VERSIONS:]
        for version, following in zip_longest(known, known[1:]):
            lines = present if version.digest == digest else self._lines(version.digest)
            if lines is None:
                # what was only noticed is never kept; what our writer found or left was
                is_hidden |= version.write is not None or (
                    following is not None and following.write is not None
                )
            elif is_hidden:
                versions = [_Version(digest=version.digest, lines=lines, origin=None)]
                is_hidden = False
            elif not versions or versions[-1].digest != version.digest:
                # who moved a text did not write it
                origin = version if versions or version.kind != "moved" else _A_PERSONS
                found = _Version(digest=version.digest, lines=lines, origin=origin)
                versions = _followed_by(versions, found)
        return versions

    def _lines(self, digest: str | None) -> _Lines | None:
        text = self._objects.get(digest) if digest is not None else b""
        return None if text is None else _lines_of(text)


def _trace(versions: Sequence[_Version]) -> dict[int, TextVersion | None]:
    """Whose each line is, by its number in the last text: the oldest version's that has it."""
    origins: dict[int, TextVersion | None] = {}
    restored: list[tuple[_Version, dict[int, int]]] = []
    places = {number: number for number in range(len(versions[-1].lines))}
    for older, newer in zip(versions[-2::-1], versions[::-1], strict=False):
        same = same_lines(older.lines, newer.lines)
        came = {number: place for number, place in places.items() if place not in same}
        places = {number: same[place] for number, place in places.items() if place in same}
        if came and newer.origin is not None and newer.origin.by in BRINGS_BACK:
            restored.append((newer, came))
        else:
            origins |= dict.fromkeys(came, newer.origin)
        for version, lost in restored:  # what was brought back may be in this older text
            same = same_lines(older.lines, version.lines) if lost else {}
            for number in [number for number, place in lost.items() if place in same]:
                places[number] = same[lost.pop(number)]
    origins |= dict.fromkeys(places, versions[0].origin)
    for version, lost in restored:
        origins |= dict.fromkeys(lost, version.origin)
    return origins


def _followed_by(versions: Sequence[_Version], version: _Version) -> list[_Version]:
    """A text that comes back drops what lay between: its lines are again who wrote them first."""
    place = next(
        (number for number, known in enumerate(versions) if known.digest == version.digest), None
    )
    return [*versions, version] if place is None else list(versions[: place + 1])


def _lines_of(data: bytes) -> _Lines:
    """Lines as editors count them, so that a line end of another system makes no difference."""
    lines = data.split(b"\n", _MOST_LINES)[:_MOST_LINES]
    return [line.removesuffix(b"\r") for line in (lines if lines[-1] else lines[:-1])]


def _origin(number: int, line: bytes, origin: TextVersion | None) -> LineOrigin:
    text = line.decode("utf-8", "replace")
    if origin is None:
        return LineOrigin(number=number + 1, text=text, by=EARLIER, at=None, run=None)
    at = origin.at.isoformat() if origin.at is not None else None
    return LineOrigin(number=number + 1, text=text, by=origin.by, at=at, run=origin.run)
