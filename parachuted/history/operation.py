"""Operation: an undo or a restore by a person, recorded as a run of its own that can be undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from parachuted.access.quoted import QuotedPaths
from parachuted.history.run_account import RUNNING, save
from parachuted.vault import (
    Author,
    History,
    ObjectStore,
    VaultPath,
    Write,
    diff_of,
    new_id,
    printable,
)


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

    @property
    def author(self) -> Author:
        return Author(by=self.by, run=self.run, causes=self.causes)

    def begin(self, history: History) -> None:
        """Record the start: a crash leaves a failed run, whose writes can be undone."""
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
        wrote = net_of(writes, objects)
        quoted = QuotedPaths([self.watcher, *quotes, *(printable(write.path) for write in writes)])
        document = {
            **self._document(),
            "ended": at.isoformat(),
            "outcome": "changed" if wrote else "unchanged",
            "reason": reason,
            "wrote": wrote,
            "quotes": quoted.document(),
        }
        save(history, document)
        return document

    def _document(self) -> dict[str, object]:
        causes = [
            {
                "id": cause,
                "kind": "request",
                "path": self.watcher,
                "files": 1,
                "at": self.at.isoformat(),
            }
            for cause in self.causes
        ]
        return {
            "id": self.run,
            "task": "",
            "watcher": self.watcher,
            "agent": self.by,
            "backend": "none",
            "model": None,
            "causes": causes,
            "parents": [],
            "started": self.at.isoformat(),
            "ended": None,
            "outcome": RUNNING,
            "reason": self.reason,
            "reviewed": [],
            "reviewed_count": 0,
            "wrote": [],
            "steps": [],
            "quotes": [self.watcher],
            "prompt_digest": "",
            "cost_usd": 0.0,
            "input_tokens": 0,
            "output_tokens": 0,
            "undone": None,
            "takes_back": list(self.takes_back),
        }


def new_act(
    by: str,
    at: datetime,
    *,
    watcher: str,
    reason: str,
    takes_back: Iterable[str] = (),
    carries: bool = False,
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
    )


def net_of(writes: Sequence[Write], objects: ObjectStore) -> list[dict[str, object]]:
    """The net effect of writes, oldest first: each file that differs after the last of them from
    before the first, with the difference.
    """
    net: dict[str, tuple[str | None, str | None]] = {}
    for write in writes:
        net[write.path] = (net[write.path][0] if write.path in net else write.before, write.after)
    return [
        _wrote(path, digests, objects) for path, digests in net.items() if digests[0] != digests[1]
    ]


def _wrote(
    path: str, digests: tuple[str | None, str | None], objects: ObjectStore
) -> dict[str, object]:
    before, after = (b"" if digest is None else objects.get(digest) or b"" for digest in digests)
    return {
        "path": printable(path),
        "before": digests[0],
        "after": digests[1],
        "diff": diff_of(before, after, VaultPath(path)),
    }


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
