"""Undo: takes a run back, and every run that followed from it, and keeps what people wrote since."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from parachuted.bubbling import UNDO
from parachuted.errors import EditRefusedError, NotFoundError, ParachuteError
from parachuted.events import Bus
from parachuted.tools.account import RUNNING, causes_of, has_ended, save
from parachuted.tools.context_files import finished
from parachuted.vault import Author, History, Objects, Reverted, Store, VaultPath, Write, printable, revert


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What was taken back: the runs, newest first, the files changed by that, and, by file, later texts that were kept."""

    runs: tuple[str, ...]
    paths: tuple[str, ...]
    kept: Mapping[str, tuple[str, ...]]


class Undo:
    """Takes runs back. An undo is a person's act and wakes nobody: who watched has seen both texts."""

    def __init__(
        self, *, store: Store, objects: Objects, history: History, bus: Bus, clock: Callable[[], datetime],
        notice: Callable[[Iterable[str]], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._store, self._objects, self._history, self._bus = store, objects, history, bus
        self._clock, self._notice = clock, notice

    async def undo(self, run: str) -> Undone:
        """Take back a run and what followed from it, but for what was taken back before.

        Raises NotFoundError when there is no such run, EditRefusedError when it was undone already or is not over.
        """
        followed = self.followed(run)
        reverted = await finished(self.take_back, [str(one["id"]) for one in followed])
        await self._notice([item.path for item in reverted if item.changed])
        for one in followed:
            save(self._history, {**one, "undone": {"at": self._clock().isoformat(), "with": run}})
        undone = Undone(
            runs=tuple(str(one["id"]) for one in followed),
            paths=tuple(dict.fromkeys(printable(item.path) for item in reverted if item.changed)),
            kept=_kept(reverted),
        )
        kept = {path: list(texts) for path, texts in undone.kept.items()}
        self._bus.publish("run.undone", run=run, runs=list(undone.runs), paths=list(undone.paths), kept=kept)
        return undone

    def take_back(self, runs: Iterable[str]) -> list[Reverted]:
        """Revert every write of these runs, the newest first; what cannot be reverted is told as kept. Blocks on the disk."""
        writes = [write for run in runs for write in self._history.writes_by(run)]
        return [self._revert(write) for write in sorted(writes, key=lambda write: -write.id)]

    def _revert(self, write: Write) -> Reverted:
        try:
            return revert(write, self._store, self._objects, Author(by=UNDO))
        except ParachuteError as error:
            return Reverted(path=VaultPath(write.path), changed=False, kept=(error.message,))

    def followed(self, run: str) -> list[dict[str, object]]:
        """The run and all that its writes woke, directly or not, newest first. Raises as `undo` does."""
        document = self._history.run(run)
        if document is None:
            raise NotFoundError(f"there is no run {run}; `parachute runs` lists them")
        if document["undone"]:
            raise EditRefusedError(f"the run {run} has been undone already")
        cascade = _cascade(document, self._history.runs_of_causes(causes_of(document)))
        at_work = [str(one["id"]) for one in cascade if one["outcome"] == RUNNING or (one["id"] == run and not has_ended(one))]
        if at_work:
            raise EditRefusedError(f"an agent is still at work in {', '.join(at_work)}; undo {run} when that is over")
        return [one for one in cascade if has_ended(one) and not one["undone"]]


def _cascade(document: Mapping[str, object], related: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Those of the related runs that the document's run led to, with it. Clocks may have been set, so their order says nothing."""
    children: dict[str, list[str]] = {}
    for one in related:
        for parent in one["parents"]:  # type: ignore[attr-defined]
            children.setdefault(str(parent), []).append(str(one["id"]))
    taken, waiting = {str(document["id"])}, [str(document["id"])]
    while waiting:
        found = [child for child in children.get(waiting.pop(), ()) if child not in taken]
        taken.update(found)
        waiting += found
    return [one for one in related[::-1] if str(one["id"]) in taken]


def _kept(reverted: Iterable[Reverted]) -> dict[str, tuple[str, ...]]:
    kept: dict[str, tuple[str, ...]] = {}
    for item in reverted:
        if item.kept:
            path = printable(item.path)
            kept[path] = tuple(dict.fromkeys([*kept.get(path, ()), *item.kept]))
    return kept
