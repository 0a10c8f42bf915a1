"""Operation: an undo or a restore by a person, recorded as a run of its own that can be undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from parachuted.access.run_records import QuotedPaths
from parachuted.history.run_account import RUNNING, save
from parachuted.vault import Author, Caller, History, ObjectStore, Write, new_id, printable
from parachuted.vault.run_document import Digests, requested, run_document, wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation.

    `takes_back` are the runs that it undoes; undoing the operation puts them in force again.

    `watcher` is the file that it is about. All methods block on the disk, and raise
    StorageFailedError.
    """

    by: str
    run: str
    at: datetime
    watcher: str
    reason: str
    takes_back: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    caller: Caller | None = None

    @property
    def author(self) -> Author:
        key = self.caller.limited_key if self.caller is not None else ""
        return Author(by=self.by, run=self.run, causes=self.causes, key=key, caller=self.caller)

    def begin(self, history: History) -> None:
        """Record the start: after a crash it is a failed run, whose writes can be undone."""
        save(history, {**self._document(), "outcome": RUNNING})

    def end(
        self,
        history: History,
        objects: ObjectStore,
        at: datetime,
        reason: str,
        *,
        quotes: Iterable[str] = (),
    ) -> dict[str, object]:
        """Record the end.

        `quotes` are the files, as they are printed, that the reason mentions. Returns the document.
        """
        writes = history.writes_by(self.run)
        net = net_of(writes, objects)
        quoted = QuotedPaths([self.watcher, *quotes, *(printable(write.path) for write in writes)])
        document = {
            **self._document(),
            "ended": at.isoformat(),
            "outcome": "changed" if net else "unchanged",
            "reason": reason,
            "wrote": net,
            "quotes": quoted.document(),
        }
        save(history, document)
        return document

    def _document(self) -> dict[str, object]:
        return run_document(
            self.run,
            watcher=self.watcher,
            agent=self.by,
            started=self.at,
            causes=requested(self.causes, self.watcher, 1, self.at),
            outcome=RUNNING,
            reason=self.reason,
            takes_back=list(self.takes_back),
        )


def new_act(
    by: str,
    at: datetime,
    *,
    watcher: str,
    reason: str,
    takes_back: Iterable[str] = (),
    carries: bool = False,
    caller: Caller | None = None,
) -> Operation:
    """An operation that starts now; with `carries` it is a new cause for those whom it wakes."""
    causes = (new_id("c", at),) if carries else ()
    return Operation(
        by=by,
        run=new_id("r", at),
        at=at,
        watcher=watcher,
        reason=reason,
        takes_back=tuple(takes_back),
        causes=causes,
        caller=caller,
    )


def net_of(writes: Sequence[Write], objects: ObjectStore) -> list[dict[str, object]]:
    """The net effect of writes, oldest first: each file that differs after the last of them from
    before the first, with the difference.
    """
    net: dict[str, Digests] = {}
    for write in writes:
        net[write.path] = (net[write.path][0] if write.path in net else write.before, write.after)
    return [
        wrote(path, digests, objects) for path, digests in net.items() if digests[0] != digests[1]
    ]


def in_force(
    history: History, document: Mapping[str, object], undone: Mapping[str, object] | None
) -> None:
    """Record that a run was undone, or (None) that it is in force again; for an undo, the reverse
    for what it undid, however deep.
    """
    save(history, {**document, "undone": None if undone is None else dict(undone)})
    again = (
        {"at": document["started"], "with": document["id"], "run": document["id"]}
        if undone is None
        else None
    )
    for name in document.get("takes_back", ()):  # type: ignore[attr-defined]
        taken = history.run(str(name))
        if taken is not None:
            in_force(history, taken, again)
