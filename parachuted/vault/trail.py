"""Trail: every text that a file is known to have had, by whom, and the documents of its runs.

What a person saved is known by what our next write found, or since it was noticed on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from parachuted.vault.objects import ObjectStore
from parachuted.vault.root import digest_of
from parachuted.vault.write_journal import WriteJournal
from parachuted.vault.write_records import ObservedWrite, Write


def run_document(
    run: str, *, watcher: str, agent: str, started: datetime, **fields: object
) -> dict[str, object]:
    """The document as JSON. What `fields` does not give is empty; `watcher` is printable."""
    return {
        "id": run,
        "task": "",
        "watcher": watcher,
        "agent": agent,
        "backend": "none",
        "model": None,
        "causes": [],
        "parents": [],
        "started": started.isoformat(),
        "ended": None,
        "outcome": "changed",
        "reason": "",
        "reviewed": [],
        "reviewed_count": 0,
        "wrote": [],
        "steps": [],
        "prompt_digest": "",
        "cost_usd": 0.0,
        "input_tokens": 0,
        "output_tokens": 0,
        "undone": None,
    } | fields


def requested(
    causes: Iterable[str], path: str, files: int, at: datetime
) -> list[dict[str, object]]:
    """The entries of `causes` that a person's request began."""
    rest = {"kind": "request", "path": path, "files": files, "at": at.isoformat()}
    return [{"id": cause, **rest} for cause in causes]


PERSON = "person"
_MOST_MOVES = 100
VersionKind: TypeAlias = Literal["created", "changed", "moved", "deleted"]
_Key: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextVersion:
    """`digest` is None where there was no file, or it was no note; `write` a write of ours."""

    path: str
    digest: str | None
    by: str
    kind: VersionKind
    at: datetime | None = None
    run: str | None = None
    causes: tuple[str, ...] = ()
    source: str | None = None
    write: int | None = None


def trail_of(history: WriteJournal, path: str, present: str | None = None) -> list[TextVersion]:
    """Oldest first. `present` is the digest there now, which may be newer than what is known."""
    steps = list(_steps_back(history, path))[::-1]
    versions: list[TextVersion] = []
    for step in steps:
        versions += _versions_of(step, versions[-1] if versions else None)
    if present is not None and (not versions or versions[-1].digest != present):
        versions.append(_by_person(path, present, versions[-1] if versions else None))
    return versions


def place_of(history: WriteJournal, write: Write) -> str | None:
    """Where that file is now; None: it was deleted, and another one was moved to its name."""
    path, now, at = write.path, (write.id, 0), None
    for _ in range(_MOST_MOVES):
        left = _left(history, path, now, at)
        if _is_replaced(history, path, now, until=left[0] if left is not None else None):
            return None
        if left is None:
            return path
        now, path, at = left
    return path


def _left(
    history: WriteJournal, path: str, now: _Key, at: datetime | None
) -> tuple[_Key, str, datetime | None] | None:
    """The first move away after a moment. Those seen `at` once do not follow one another."""
    came = history.move_away(path, now[0])
    moves: list[tuple[_Key, str, datetime | None]] = (
        [((came.id + 1, 0), came.path, None)] if came is not None else []
    )
    moves += [
        ((write.write, write.id), write.path, write.at)
        for write in history.moved_from(path, now[0])
        if write.at != at
    ]
    return min((move for move in moves if move[0] > now), key=lambda one: one[0], default=None)


def _is_replaced(history: WriteJournal, path: str, now: _Key, until: _Key | None) -> bool:
    """Deleted, then another moved there. A move alone may have been noticed after the write."""
    is_gone = False
    for key, step in _at(history, path, until):
        if key > now:
            if is_gone and step.source is not None:
                return True
            is_gone |= (
                step.what.kind == "deleted"
                if isinstance(step.what, ObservedWrite)
                else step.what.after is None
            )
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    what: Write | ObservedWrite
    source: str | None = None


def _steps_back(history: WriteJournal, path: str) -> Iterator[_Step]:
    """Newest first; at a move to here it goes on at the place the file came from."""
    limit: _Key | None = None
    for _ in range(_MOST_MOVES):
        came: tuple[str, _Key] | None = None
        for key, step in _at(history, path, limit)[::-1]:
            yield step
            if step.source is not None:
                came = step.source, key
                break
        if came is None:
            return
        path, limit = came


def _at(history: WriteJournal, path: str, limit: _Key | None) -> list[tuple[_Key, _Step]]:
    """What befell that path before a moment. A move counts once: where the file came."""
    steps: list[tuple[_Key, _Step]] = []
    for write in history.writes_of(path):
        other = history.other_half(write) if write.before is None else None
        steps.append(
            ((write.id, 0), _Step(what=write, source=other.path if other is not None else None))
        )
    steps += [
        ((seen.write, seen.id), _Step(what=seen, source=seen.source))
        for seen in history.sightings_of(path)
    ]
    return sorted(
        (step for step in steps if limit is None or step[0] < limit), key=lambda one: one[0]
    )


def _versions_of(step: _Step, last: TextVersion | None) -> list[TextVersion]:
    what = step.what
    if isinstance(what, ObservedWrite):
        return _seen(what, last)
    found = []
    is_known = last is not None and last.digest == what.before
    if what.before is not None and step.source is None and not is_known:
        found.append(_by_person(what.path, what.before, last))  # for it has no other known author
    if what.before == what.after:
        return found
    version = TextVersion(
        path=what.path,
        digest=what.after,
        by=what.author.by,
        kind=_kind(step.source, is_new=what.before is None, is_gone=what.after is None),
        at=what.at,
        run=what.author.run,
        causes=what.author.causes,
        source=step.source,
        write=what.id,
    )
    return [*found, version]


def _kind(source: str | None, *, is_new: bool, is_gone: bool) -> VersionKind:
    if source is not None:
        return "moved"
    if is_new:
        return "created"
    return "deleted" if is_gone else "changed"


def _by_person(path: str, digest: str, last: TextVersion | None) -> TextVersion:
    is_new = last is None or last.digest is None
    return TextVersion(path=path, digest=digest, by=PERSON, kind="created" if is_new else "changed")


def _seen(seen: ObservedWrite, last: TextVersion | None) -> list[TextVersion]:
    if last is not None and last.digest == seen.digest and last.path == seen.path:
        return []
    kind = _kind(seen.source, is_new=seen.kind == "created", is_gone=seen.kind == "deleted")
    return [
        TextVersion(
            path=seen.path, digest=seen.digest, by=PERSON, kind=kind, at=seen.at, source=seen.source
        )
    ]


PathPredicate: TypeAlias = Callable[[str], bool]


class KnownBases:
    """Blocks on the disk; threads may share it."""

    def __init__(self, objects: ObjectStore, history: WriteJournal) -> None:
        self._objects, self._history = objects, history

    def text(self, path: str, digest: str, sees: PathPredicate | None = None) -> bytes | None:
        """If it stood at that path, or an earlier one that `sees` sees. StorageFailedError."""
        return (
            self._objects.get(digest)
            if self._stood(path, digest) or self._stood_before(path, digest, sees)
            else None
        )

    def keep(self, path: str, data: bytes) -> str:
        """Keep a text for good as one that stood there. Raises StorageFailedError."""
        digest = self._objects.put(data)
        self._objects.stood([(path, digest)])
        return digest

    def see(self, texts: Iterable[tuple[str, bytes]]) -> None:
        """Keep texts that were only read there, until a power cut. Raises OSError."""
        found = [(path, digest_of(data), data) for path, data in texts]
        self._objects.see(
            (digest, data) for _, digest, data in found if digest not in self._objects
        )
        self._objects.stood((path, digest) for path, digest, _ in found)

    def _stood(self, path: str, digest: str) -> bool:
        return self._objects.has_stood(path, digest) or self._history.knows_text(path, digest)

    def _stood_before(self, path: str, digest: str, sees: PathPredicate | None) -> bool:
        if sees is None:
            return False
        places = {version.path for version in trail_of(self._history, path)} - {path}
        return any(self._stood(place, digest) for place in places if sees(place))
