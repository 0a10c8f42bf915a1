"""Change followers: what must follow each change of the vault, in the order in which it must."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from parachuted.access.origins import Origins
from parachuted.audit.log import WriteAudit
from parachuted.bubbling import Reconciler
from parachuted.events import Bus, Change, ChangeListeners
from parachuted.hooks import HookEventListener
from parachuted.search.indexer import Indexer, IndexUpdate
from parachuted.vault import printable


class ChangeFollowers:
    """Until `end_first_contact`, changes are the vault's baseline and are not published."""

    def __init__(
        self,
        *,
        origins: Origins,
        reconciler: Reconciler,
        writes: WriteAudit,
        indexer: Indexer,
        hooks: HookEventListener,
        bus: Bus,
        is_first_contact: bool,
    ) -> None:
        self._origins, self._reconciler = origins, reconciler
        self._writes, self._indexer, self._hooks, self._bus = writes, indexer, hooks, bus
        self._first: list[Change] | None = [] if is_first_contact else None

    def listeners(self) -> ChangeListeners:
        """What the change detector calls before the index follows a change, and after it."""
        return ChangeListeners(record=self._before_index, tell=self._after_index)

    def end_first_contact(self) -> None:
        """Take what was found so far as the baseline. Raises StorageFailedError."""
        if self._first is not None:
            self._reconciler.baseline(self._first)
            self._first = None

    async def _before_index(self, changes: Sequence[Change]) -> Callable[[], None]:
        """Origins come first: the grant of a task that a change queues depends on them."""
        self._origins.notice(changes)
        if self._first is None:
            return await self._reconciler.record(changes)
        self._first += changes
        return lambda: None

    def _after_index(self, changes: Sequence[Change]) -> None:
        """The bus comes last: a listener that asks the audit or search finds the change there."""
        if self._first is not None:
            return
        with self._hooks.about(changes):
            self._writes.noticed(changes)
            self._indexer.follow(_files(changes))
            self._bus.publish_all((f"file.{change.kind}", _facts(change)) for change in changes)


def _files(changes: Sequence[Change]) -> Iterator[tuple[str, IndexUpdate]]:
    for change in changes:
        if change.source is not None:
            yield change.source, IndexUpdate(None)
        yield change.path, IndexUpdate(change.new, change.data)


def _facts(change: Change) -> dict[str, object]:
    facts: dict[str, object] = {
        "path": printable(change.path),
        "by": change.author.by,
        "run": change.author.run,
        "key": change.author.key or None,
        "causes": list(change.author.causes),
        "digest": change.new.digest if change.new is not None else None,
    }
    if change.source is not None:
        facts["from"] = printable(change.source)
    return facts
