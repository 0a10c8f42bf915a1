"""Origins: where each text of the vault came from, as far as that limits those who read it.

A text is as little trusted as the least of these says: the folders that a setting names, its own
frontmatter's `origin`, and what was recorded of it. So trust is only ever lost along the way, as in
Denning's lattice (1976). Recorded is what a run that had read strangers' texts wrote, what was seen
to say that it is a stranger's, and what was moved or copied from where strangers' texts lie. So
neither a move, nor a copy, nor an edit, nor a deleted key of the frontmatter clears it; only
`trust` does, which is a person's own act.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Protocol, cast

from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.errors import ParachuteError
from parachuted.keys import PathGlob
from parachuted.state import StateStore
from parachuted.vault import (
    NOTE_SUFFIXES,
    IndexEntry,
    VaultIndex,
    VaultPath,
    VaultRoot,
    declared_origin,
    digest_of,
    fold_name,
)

DEFAULT_UNTRUSTED = ("Inbox/**", "Clippings/**", "Imports/**")
_MOST_DIGESTS = 50
_MOST_LEFT = 10_000
_LEAST_WORDS = 5
_SHORT = 4_096
_TRUSTED, _WAS, _LEFT = "trusted", "was", "left"
_EMPTY = digest_of(b"")
_WORD = re.compile(rb"\w+")


class ScannedChange(Protocol):
    """What a scan found of one file; implemented by events/changes.py."""

    @property
    def path(self) -> str: ...

    @property
    def source(self) -> str | None: ...

    @property
    def old(self) -> IndexEntry | None: ...

    @property
    def new(self) -> IndexEntry | None:
        """None: removed."""
        ...

    @property
    def data(self) -> bytes | None:
        """Its text, if it was read."""
        ...

    @property
    def origin(self) -> object:
        """The `origin` in its frontmatter."""
        ...


class Origins:
    """Answers where texts came from.

    Thread-safe; changes are durable when a method returns, or it raises StorageFailedError.
    """

    def __init__(
        self,
        state: StateStore,
        untrusted: Iterable[str] = DEFAULT_UNTRUSTED,
        index: VaultIndex | None = None,
    ) -> None:
        """`untrusted` are patterns of paths, as the setting `agent.untrusted` names them; `index`
        is what the vault held when it was last looked at, by which copies of what lies there are
        known. Raises ValueError for what is not a pattern.
        """
        self._globs = tuple((PathGlob(pattern), _folded_glob(pattern)) for pattern in untrusted)
        self._entered: tuple[str | None, str, tuple[tuple[PathGlob, PathGlob], ...]] = None, "", ()
        self._state, self._table = state, state.table("origins")
        self._lock = threading.Lock()
        self._by_digest: dict[str, Origin] = {}
        self._trusted: set[str] = set()
        self._left: OrderedDict[str, None] = OrderedDict()
        self._here = set(self._digests_here(index)) if index is not None else set[str]()
        state.on_undone(self._learn)
        self._learn()

    def of(self, path: str, digest: str | None = None, frontmatter_origin: object = None) -> Origin:
        """The origin of the text of that digest at that path; `you` where nothing else is
        recorded.
        """
        row = self._table.get_record(path)
        if row is not None and digest is not None and row.get(_TRUSTED) == digest:
            return "you"
        declared = _declared_untrusted(frontmatter_origin)
        if declared is not None:
            return declared
        if row is not None and row["origin"] in UNTRUSTED:
            return cast("Origin", row["origin"])
        return self._of_digest(digest) or ("imported" if self._is_place(path) else "you")

    def of_text(self, path: str, data: bytes, digest: str | None = None) -> Origin:
        return self.of(path, digest or digest_of(data), declared_origin(data))

    def first_stranger(self, paths: Iterable[str]) -> tuple[str, Origin] | None:
        """The first of these paths that is untrusted by its path alone, with its origin; many paths
        cost one lookup.
        """
        recorded = {
            key: cast("Origin", row["origin"])
            for key, row in self._table.items()
            if row["origin"] in UNTRUSTED
        }
        for path in paths:
            origin = recorded.get(path) or ("imported" if self._is_place(path) else None)
            if origin is not None:
                return path, origin
        return None

    def is_trusted(self, path: str, digest: str) -> bool:
        row = self._table.get_record(path)
        return row is not None and row.get(_TRUSTED) == digest

    def of_folder(self, folder: str) -> Origin:
        """The least trusted origin recorded in that folder; for an untrusted folder, its own."""
        for path, row in self._table.items():
            if path.startswith(f"{folder}/") and row["origin"] in UNTRUSTED and _LEFT not in row:
                return cast("Origin", row["origin"])
        return "imported" if self._is_place(f"{folder}/x.md") else "you"

    def notice(self, sightings: Sequence[ScannedChange]) -> None:
        """Record what a scan found, so that untrusted texts are known wherever they go. Idempotent.

        Raises StorageFailedError, and has then recorded none of them.
        """
        here = {
            digest
            for seen in sightings
            if (digest := _digest(seen.new)) is not None and self._is_place(seen.path)
        }
        with self._lock:
            self._here |= here
            for digest in here - self._trusted:
                self._by_digest.setdefault(digest, "imported")
        with self._state.batch():
            found = ((seen.path, self._row_of(seen)) for seen in sightings)
            rows = {
                path: row
                for path, row in found
                if row is not None and row != self._table.get_record(path)
            }
            for path, row in rows.items():
                self._put(path, row)
            while len(self._left) > _MOST_LEFT:
                self._table.drop(self._left.popitem(last=False)[0])

    def wrote(self, path: str, digest: str | None, origin: Origin) -> None:
        """Record that a run or a module of that origin wrote a text there; a trusted one leaves the
        path's record unchanged.
        """
        if origin not in UNTRUSTED or digest is None:
            return
        self._put(path, _with(self._table.get_record(path), origin, digest))

    @contextmanager
    def writing(self, path: str, origin: Origin) -> Iterator[Callable[[str | None], None]]:
        """Around a write: what was written is passed to what this returns, None where nothing was.

        The record is there before it, so that no kill in between leaves a stranger's text for a
        trusted one; a write that raises or writes nothing leaves what was recorded before.
        """
        if origin not in UNTRUSTED:
            yield lambda _digest: None
            return
        before = self._table.get_record(path)

        def back() -> None:
            if before is None:
                self._table.drop(path)
            else:
                self._table.put(path, before)

        def wrote(digest: str | None) -> None:
            if digest is None:
                back()
            else:
                self.wrote(path, digest, origin)

        self._table.put(
            path,
            {
                "origin": _first(before, origin),
                "digests": [] if before is None else list(_digests(before)),
            },
        )
        try:
            yield wrote
        except BaseException:
            back()
            raise

    def moved(self, source: str, target: str, digest: str | None = None) -> None:
        """Record a move: the file's origin moves along, and so does a person's trust in the text of
        that digest.
        """
        row = self._moved_row(source, target, digest)
        if row is not None and row != self._table.get_record(target):
            self._put(target, row)

    def trust(self, path: str, digest: str) -> Origin:
        """Trust the text of that digest there until it changes; returns its former origin.

        The person's later edits there are trusted. Earlier texts of the path stay untrusted, should
        one be restored.
        """
        before, row = self.of(path, digest), self._table.get_record(path)
        earlier = [one for one in _digests(row) if one != digest] if row is not None else []
        was = (
            next((one for one in (row["origin"], row.get(_WAS)) if one in UNTRUSTED), before)
            if row is not None
            else before
        )
        self._table.put(path, {"origin": "you", "digests": earlier, _TRUSTED: digest, _WAS: was})
        self._learn()
        return before

    def recorded(self) -> dict[str, Origin]:
        return {
            key: cast("Origin", row["origin"])
            for key, row in self._table.items()
            if row["origin"] in UNTRUSTED and _LEFT not in row
        }

    def _of_digest(self, digest: str | None) -> Origin | None:
        with self._lock:
            return (
                self._by_digest.get(digest) if digest is not None and digest != _EMPTY else None
            )  # an empty text has no author

    def _is_place(self, path: str) -> bool:
        """Whether it lies in an untrusted folder, under every way in which file systems compare
        names.
        """
        folder, _, name = path.rpartition("/")
        known, folded, globs = self._entered  # a scan asks for one file of a folder after the other
        if known != folder:
            folded = _folded(folder)
            globs = self._entering(folder, folded)
            self._entered = folder, folded, globs
        if not globs:
            return False
        as_folded = f"{folded}/{fold_name(name)}" if folded else fold_name(name)
        return any(glob.matches(path) or fold.matches(as_folded) for glob, fold in globs)

    def _entering(self, folder: str, folded: str) -> tuple[tuple[PathGlob, PathGlob], ...]:
        return tuple(
            (glob, fold) for glob, fold in self._globs if glob.enters(folder) or fold.enters(folded)
        )

    def _row_of(self, seen: ScannedChange) -> Mapping[str, object] | None:
        """The new record of that file; None: unchanged."""
        old, new = _digest(seen.old), _digest(seen.new)
        if seen.new is None:
            return self._left_row(seen.path, old)
        if seen.source is not None:
            moved = self._moved_row(seen.source, seen.path, old)
            if moved is not None:
                return _with(moved, moved["origin"], new) if moved["origin"] in UNTRUSTED else moved
        if self._is_place(seen.path):
            return None
        row = self._table.get_record(seen.path)
        if row is not None and new is not None and row.get(_TRUSTED) == new:
            return None
        origin = _declared_untrusted(seen.origin) or (row["origin"] if row is not None else None)
        if (
            origin not in UNTRUSTED
            and (known := self._of_digest(new)) is not None
            and _says_enough(seen.data)
        ):
            origin = known
        return _with(row, cast("Origin", origin), new) if origin in UNTRUSTED else None

    def _left_row(self, path: str, digest: str | None) -> Mapping[str, object] | None:
        """A text that was in an untrusted folder is remembered, in case it appears elsewhere."""
        if digest is None or not self._is_place(path) or self.of(path, digest) not in UNTRUSTED:
            return None
        return {**_with(self._table.get_record(path), "imported", digest), _LEFT: True}

    def _moved_row(self, source: str, target: str, digest: str | None) -> dict[str, object] | None:
        row, there = self._table.get_record(source), self._table.get_record(target)
        if row is not None and digest is not None and row.get(_TRUSTED) == digest:
            return {
                "origin": "you",
                "digests": list(_digests(there)) if there is not None else [],
                _TRUSTED: digest,
                _WAS: row.get(_WAS),
            }
        if row is not None and row["origin"] in UNTRUSTED:
            origin = cast("Origin", row["origin"])
        elif self._is_place(source):
            origin = "imported"
        else:
            return None
        digests = [
            *(_digests(there) if there is not None else ()),
            *(_digests(row) if row is not None else ()),
            digest,
        ]
        kept = list(dict.fromkeys(one for one in digests if one is not None and one != _EMPTY))
        return {"origin": origin, "digests": kept[-_MOST_DIGESTS:]}

    def _put(self, path: str, row: Mapping[str, object]) -> None:
        self._table.put(path, row)
        with self._lock:
            if _LEFT in row:
                self._left[path] = None
            else:
                self._left.pop(path, None)
            origin = _kept_as(row)
            for digest in _digests(row) if origin is not None else ():
                self._by_digest.setdefault(digest, cast("Origin", origin))

    def _learn(self) -> None:
        rows = self._table.items()
        found = {
            digest: origin
            for _, row in rows
            if (origin := _kept_as(row)) is not None
            for digest in _digests(row)
        }
        trusted = {str(row[_TRUSTED]) for _, row in rows if row.get(_TRUSTED) is not None}
        with self._lock:
            self._trusted = trusted
            self._left = OrderedDict.fromkeys(path for path, row in rows if _LEFT in row)
            here: Origin = "imported"
            self._by_digest = dict.fromkeys(self._here - trusted, here) | found

    def _digests_here(self, index: VaultIndex) -> Iterator[str]:
        for folder in index.below(""):
            if not self._entering(folder, _folded(folder)):
                continue
            for name, entry in index.entries(folder).items():
                digest = _digest(entry)
                if digest is not None and self._is_place(f"{folder}/{name}" if folder else name):
                    yield digest


def _declared_untrusted(value: object) -> Origin | None:
    """The origin that a note's frontmatter declares, where it is untrusted: a declaration can
    remove trust, never give it.
    """
    words = [value] if isinstance(value, str) else value if isinstance(value, Sequence) else ()
    said = {word.strip().casefold() for word in words if isinstance(word, str)}
    return next((origin for origin in sorted(UNTRUSTED) if origin in said), None)


def _with(
    row: Mapping[str, object] | None, origin: Origin, digest: str | None
) -> dict[str, object]:
    before = [] if row is None else [one for one in _digests(row) if one != digest]
    added = [digest] if digest is not None and digest != _EMPTY else []
    return {"origin": _first(row, origin), "digests": [*before, *added][-_MOST_DIGESTS:]}


def _first(row: Mapping[str, object] | None, origin: Origin) -> Origin:
    """What a path counts as that was written before, and is now written by a run of that origin."""
    before = row["origin"] if row is not None else None
    return before if before in UNTRUSTED else origin


def _kept_as(row: Mapping[str, object]) -> Origin | None:
    """What the texts of a record count as; those of a path that a person trusts by now are what
    they were.
    """
    found = row["origin"] if row["origin"] in UNTRUSTED else row.get(_WAS)
    return found if found in UNTRUSTED else None


def _folded_glob(pattern: str) -> PathGlob:
    """The pattern for folded paths: as it is where folding makes no pattern of it, such as `../a`
    of wide dots or one that has become too long.
    """
    try:
        return PathGlob(_folded(pattern))
    except ValueError:
        return PathGlob(pattern)


def _folded(path: str) -> str:
    return "/".join(map(fold_name, path.split("/"))) if path else ""


def _says_enough(data: bytes | None) -> bool:
    """Whether a text is long enough that an equal one is a copy: two notes with a mere title are
    not.
    """
    return data is None or len(data) > _SHORT or len(_WORD.findall(data)) >= _LEAST_WORDS


def _digest(entry: IndexEntry | None) -> str | None:
    return entry.digest if entry is not None and entry.digest != _EMPTY else None


def _digests(row: Mapping[str, object]) -> Sequence[str]:
    return cast("Sequence[str]", row.get("digests", ()))


_HEAD = 256 << 10
_AT_ONCE = 500
_TABLE, _KEY = "control", "origins"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A `Sighting` of an unchanged note."""

    path: str
    new: IndexEntry
    origin: object
    old: IndexEntry | None = None
    source: str | None = None
    data: bytes | None = None


def is_looked_back(state: StateStore) -> bool:
    return state.table(_TABLE).get_record(_KEY) is not None


def set_looked_back(state: StateStore, at: datetime) -> None:
    """Record that it was searched, or that there was nothing to search. Raises
    StorageFailedError.
    """
    state.table(_TABLE).put(_KEY, {"at": at.isoformat()})


def look_back(
    origins: Origins, root: VaultRoot, index: VaultIndex, paths: Iterable[VaultPath]
) -> None:
    """Read the beginnings of those notes.

    Blocks on the disk, 50 µs per note. Raises StorageFailedError.
    """
    notes = (path for path in paths if path.endswith(NOTE_SUFFIXES))
    while piece := list(islice(notes, _AT_ONCE)):
        origins.notice(
            [found for path in piece if (found := _declaring(root, index, path)) is not None]
        )


def _declaring(root: VaultRoot, index: VaultIndex, path: VaultPath) -> _Known | None:
    entry = index.get(path)
    if entry is None:
        return None
    try:
        with root.straight():
            data, _size = root.read_head(path, _HEAD)
    except ParachuteError:  # it is gone, or a link by now, which the next scan sees
        return None
    origin = declared_origin(data)
    return None if not origin else _Known(path=path, new=entry, origin=origin)
