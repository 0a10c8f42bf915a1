"""Audit of writes: each write of the vault as an event, our own and those found on the disk."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from parachuted.audit.chain import AuditEvent, AuditRecorder
from parachuted.events.changes import ON_DISK, PERSON, Change
from parachuted.vault import BRINGS_BACK, Author, Requester, Write, WriteJournal, printable

_REMEMBERED = 8192
_SOON_S = 10.0
_GONE = "gone"


class WriteAudit:
    """The daemon's own write is recorded when it is made, and skipped when it is detected."""

    def __init__(self, recorder: AuditRecorder, clock: Callable[[], datetime]) -> None:
        self._recorder, self._clock = recorder, clock
        self._ours: OrderedDict[tuple[str, str | None], float] = OrderedDict()
        self._lock = threading.Lock()

    def wrote(self, write: Write) -> None:
        now = time.monotonic()
        with self._lock:
            self._ours[write.path, write.after or _GONE] = self._ours[write.path, None] = now
            while len(self._ours) > _REMEMBERED:
                self._ours.popitem(last=False)
        self._record(write, is_late=False)

    def catch_up(self, history: WriteJournal, after: int) -> int:
        """Record what a killed daemon could not. StorageFailedError."""
        owed = history.done_after(after)
        for write in owed:
            self._record(write, is_late=True)
        return len(owed)

    def noticed(self, changes: Iterable[Change]) -> None:
        """Record what others did; ours may be seen before `wrote` is called."""
        now = self._clock()
        with self._lock:
            theirs = [
                change
                for change in changes
                if change.author.requester == ON_DISK.requester and not self._is_ours(change)
            ]
        for change in theirs:
            paths = [change.path] if change.source is None else [change.path, change.source]
            event = _event(now, change.author, change.kind, paths)
            before = change.old.digest if change.old is not None else None
            after = change.new.digest if change.new is not None else None
            self._recorder.record(event._replace(before=before, after=after))

    def _is_ours(self, change: Change) -> bool:
        """A file without a digest counts as ours for seconds after a write of it."""
        digest = change.new.digest if change.new is not None else None
        if change.new is not None and digest is None:
            return time.monotonic() - self._ours.get((change.path, None), -_SOON_S) < _SOON_S
        return (change.path, digest or _GONE) in self._ours

    def _record(self, write: Write, *, is_late: bool) -> None:
        event = _event(write.at, write.author, write.operation, [write.path])
        self._recorder.record(
            event._replace(
                run=write.author.run,
                before=write.before,
                after=write.after,
                write=write.id,
                details={"late": True} if is_late else None,
            )
        )


def _event(at: datetime, author: Author, action: str, paths: Sequence[str]) -> AuditEvent:
    source = _source(author)
    return AuditEvent(
        timestamp=at,
        event_type="write",
        source_type=source.source_type,
        source_id=source.source_id,
        target_module="vault",
        target_endpoint=f"vault.{action}",
        paths=[printable(path) for path in paths],
        request_id=source.request_id or None,
        causes=author.causes,
    )


def _source(author: Author) -> Requester:
    if author.requester is not None:
        return author.requester
    if author.run is not None and author.by not in BRINGS_BACK:
        return Requester("agent", author.by)
    return Requester("person" if author.by == PERSON.by else "daemon", author.by)
