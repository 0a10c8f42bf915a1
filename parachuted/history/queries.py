"""History queries: the versions of a file, and what a run, or a run with all that followed from it,
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from parachuted.errors import NotFoundError
from parachuted.history.undo import cascade_of
from parachuted.vault import (
    Store,
    TextVersion,
    VaultPath,
    Write,
    count_changed,
    diff_of,
    printable,
    trail_of,
)

MOST_VERSIONS = 1000
SHORT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """A version, and how it differs from the one before: lines added and removed, None where that
    is unknown.

    `kept`: its text is available.
    """

    version: TextVersion
    added: int | None
    removed: int | None
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """What runs changed in one file: from the digest before to the one after, without what others
    wrote in between; `source`: it moved.

    Where others wrote in between, a file has several. `diff` says so when a text is no longer kept.
    """

    path: str
    source: str | None
    runs: tuple[str, ...]
    before: str | None
    after: str | None
    diff: str
    added: int | None
    removed: int | None


class HistoryQueries:
    def __init__(self, store: Store) -> None:
        self._store, self._objects, self._history = store, store.objects, store.history

    def versions(self, path: VaultPath) -> list[TextVersion]:
        """All known versions of the file, oldest first.

        Raises NotFoundError when the file does not exist and never did.
        """
        present: str | None = None
        try:
            present = self._store.read(path).digest
        except NotFoundError:
            if not self._history.writes_of(path) and not self._history.sightings_of(path):
                raise
        return trail_of(self._history, path, present)

    def changes(
        self, path: VaultPath, limit: int = 50, *, sees: Callable[[str], bool] = lambda _path: True
    ) -> tuple[list[VersionChange], int]:
        """The latest versions that the caller may see, newest first, and their total number. Raises
        as `versions` does.
        """
        versions = self.versions(path)
        seen = [number for number, one in enumerate(versions) if sees(one.path)]
        latest = seen[max(0, len(seen) - min(limit, MOST_VERSIONS)) :]
        found = [
            self._change(versions[number], versions[number - 1] if number else None, sees)
            for number in latest
        ]
        return found[::-1], len(seen)

    def runs(self, run: str, *, cascade: bool) -> list[dict[str, object]]:
        """The documents of the run, with `cascade` of those that followed too, newest first.

        Raises NotFoundError.
        """
        document = self._history.run(run)
        if document is None:
            raise NotFoundError(
                f"there is no run {printable(run[:80])}; `parachute runs` lists them"
            )
        return cascade_of(document, self._history) if cascade else [document]

    def diff(self, documents: Iterable[Mapping[str, object]]) -> list[FileDiff]:
        """What these runs wrote, file by file; from the run's own document where the history no
        longer has the writes.
        """
        found: list[FileDiff] = []
        writes: list[Write] = []
        for document in documents:
            own = self._history.writes_by(str(document["id"]))
            writes += own
            if not own:
                found += _accounted(document)
        return self._net(sorted(writes, key=lambda write: write.id)) + found

    def _change(
        self, version: TextVersion, before: TextVersion | None, sees: Callable[[str], bool]
    ) -> VersionChange:
        """What a version differs from is compared with where it is seen too."""
        text = self._text(version.digest)
        last = b"" if before is None and version.kind == "created" else None
        if before is not None and sees(before.path):
            last = self._text(before.digest)
        changed = count_changed(last, text) if text is not None and last is not None else None
        added, removed = changed if changed is not None else (None, None)
        return VersionChange(
            version=version,
            added=added,
            removed=removed,
            kept=version.digest is not None and version.digest in self._objects,
        )

    def _net(self, writes: Sequence[Write]) -> list[FileDiff]:
        """Each chain of writes of which one begins where the last ended, as one difference; a move
        takes its chain along.
        """
        chains: dict[str, list[_Chain]] = {}
        left = {
            one.id
            for one in writes
            if one.after is None and self._history.other_half(one) is not None
        }
        for write in writes:
            if write.id in left:
                continue  # its other half, which came right before, has taken the chain along
            other = self._history.other_half(write)
            source = other.path if other is not None else write.path
            known = chains.get(source, [])
            before = other.before if other is not None else write.before
            if known and known[-1].after == before:
                known[-1].go_on(write)
            else:
                known = [*known, _Chain(write, source, before)]
            if source != write.path:
                chains.pop(source, None)
                known = [*chains.get(write.path, []), *known]
            chains[write.path] = known
        found = [chain for many in chains.values() for chain in many]
        return [
            self._difference(chain)
            for chain in found
            if chain.before != chain.after or chain.source != chain.path
        ]

    def _difference(self, chain: _Chain) -> FileDiff:
        texts = [self._text(digest) for digest in (chain.before, chain.after)]
        source = chain.source if chain.source != chain.path and chain.before is not None else None
        added = removed = None
        if texts[0] is None or texts[1] is None:
            diff = f"(an earlier text of {printable(chain.path)} is no longer kept)"
        else:
            diff = diff_of(texts[0], texts[1], chain.path, source=source)
            added, removed = count_changed(texts[0], texts[1]) or (None, None)
        return FileDiff(
            path=chain.path,
            source=source,
            runs=tuple(dict.fromkeys(chain.runs)),
            before=chain.before,
            after=chain.after,
            diff=diff,
            added=added,
            removed=removed,
        )

    def _text(self, digest: str | None) -> bytes | None:
        return b"" if digest is None else self._objects.get(digest)


class _Chain:
    def __init__(self, first: Write, source: str, before: str | None) -> None:
        self.source, self.before = source, before
        self.runs: list[str] = []
        self.go_on(first)

    def go_on(self, write: Write) -> None:
        self.path, self.after = write.path, write.after
        self.runs.append(str(write.author.run))


def _accounted(document: Mapping[str, object]) -> list[FileDiff]:
    """What the document of a run says of writes that are no longer in the history."""
    wrote: list[Mapping[str, str]] = document.get("wrote", [])  # type: ignore[assignment]
    return [
        FileDiff(
            path=one["path"],
            source=None,
            runs=(str(document["id"]),),
            before=one.get("before"),
            after=one.get("after"),
            diff=one.get("diff", ""),
            added=None,
            removed=None,
        )
        for one in wrote
    ]
