"""Chains: writes of runs that followed one another in a file, with nothing of others in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from parachuted.vault.edit_request import WriteResult
from parachuted.vault.merge import diff_of
from parachuted.vault.objects import ObjectStore
from parachuted.vault.paths import printable
from parachuted.vault.write_journal import WriteJournal
from parachuted.vault.write_records import Write

_Write = TypeVar("_Write", bound=Write | WriteResult)


class WriteChain(Generic[_Write]):
    """`source` is where the file was before it: `path`, unless it was moved."""

    def __init__(self, first: _Write, source: str, before: str | None) -> None:
        self.source, self.before = source, before
        self.writes: list[_Write] = []
        self.go_on(first)

    def go_on(self, write: _Write) -> None:
        self.path, self.after = str(write.path), write.after
        self.writes.append(write)

    @property
    def is_move(self) -> bool:
        return self.source != self.path and self.before is not None

    def diff(self, objects: ObjectStore) -> str:
        """It says so when a text is no longer kept."""
        before, after = (
            b"" if digest is None else objects.get(digest) for digest in (self.before, self.after)
        )
        if before is None or after is None:
            return f"(an earlier text of {printable(self.path)} is no longer kept)"
        return diff_of(before, after, self.path, source=self.source if self.is_move else None)


def chains_of(
    writes: Iterable[_Write],
    other_half: Callable[[Any], Write | None] = lambda _write: None,
) -> list[WriteChain[_Write]]:
    """What these writes, oldest first, changed: each unbroken chain, along the moves whose halves
    `other_half` knows.
    """
    chains: dict[str, list[WriteChain[_Write]]] = {}
    for write in writes:
        other = other_half(write)
        if other is not None and write.after is None:
            continue  # its other half, which came right before, has taken the chain along
        path = str(write.path)
        source = other.path if other is not None else path
        known: list[WriteChain[_Write]] = chains.get(source, [])
        before = other.before if other is not None else write.before
        if known and known[-1].after == before:
            known[-1].go_on(write)
        else:
            known = [*known, WriteChain(write, source, before)]
        if source != path:
            chains.pop(source, None)
            known = [*chains.get(path, []), *known]
        chains[path] = known
    write_chains = [chain for many in chains.values() for chain in many]
    return [one for one in write_chains if one.before != one.after or one.source != one.path]


def wrote(
    writes: Iterable[Write], history: WriteJournal, objects: ObjectStore
) -> list[dict[str, object]]:
    """The entries of `wrote`: a file, the digests before and after, and the difference. What others
    wrote in between is in none: then the file has several. A place that a file left has one, too.
    """
    entries: list[dict[str, object]] = []
    for chain in chains_of(writes, history.other_half):
        places = [(chain.path, chain.after)]
        places += [(chain.source, None)] if chain.is_move else []
        entries += [
            {"path": printable(path), "before": chain.before, "after": after, "diff": diff}
            for diff in [chain.diff(objects)]
            for path, after in places
        ]
    return entries
