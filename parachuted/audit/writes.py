"""Audit writes: records our own writes and the changes found on the disk, each once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime

from parachuted.audit.events import AuditEvent, AuditRecorder
from parachuted.events.changes import PERSON, Change
from parachuted.vault import BRINGS_BACK, Author, Caller, History, Write, printable

_REMEMBERED = 8192
_SOON_S = 10.0
_GONE = "gone"
_MODULE = "vault"


class WriteAudit:
    """Records writes.

    The daemon's own write is recorded when it is made, so it is skipped when it is detected.
    """

    def __init__(self, recorder: AuditRecorder, clock: Callable[[], datetime]) -> None:
        self._recorder, self._clock = recorder, clock
        self._ours: OrderedDict[tuple[str, str | None], float] = OrderedDict()
        self._lock = threading.Lock()

    def wrote(self, write: Write) -> None:
        """Record one of our writes, in the thread that made it."""
        with self._lock:
            self._ours[write.path, write.after or _GONE] = self._ours[write.path, None] = (
                time.monotonic()
            )
            while len(self._ours) > _REMEMBERED:
                self._ours.popitem(last=False)
        self._tell(write, is_late=False)

    def catch_up(self, history: History, after: int) -> int:
        """Record the writes after that number, which a killed daemon could not. Blocks;
        StorageFailedError.
        """
        owed = history.done_after(after)
        for write in owed:
            self._tell(write, is_late=True)
        return len(owed)

    def noticed(self, changes: Iterable[Change]) -> None:
        """Record changes on the disk: those that we did not make, a person or a program of theirs
        did.
        """
        now = self._clock()
        with self._lock:
            theirs = [
                change
                for change in changes
                if change.author.by == PERSON.by
                and change.author.run is None
                and not self._is_ours(change)
            ]
        for change in theirs:
            self._recorder.record(_on_disk(change, now))

    def _is_ours(self, change: Change) -> bool:
        """Files that are not notes are detected without a digest: then a very recent write of the
        daemon's explains the change. Under the lock.
        """
        digest = change.new.digest if change.new is not None else None
        if change.new is not None and digest is None:
            at = self._ours.get((change.path, None), -_SOON_S)
            return time.monotonic() - at < _SOON_S
        return (change.path, digest or _GONE) in self._ours

    def _tell(self, write: Write, *, is_late: bool) -> None:
        who = _source(write.author)
        self._recorder.record(
            AuditEvent(
                timestamp=write.at,
                event_type="write",
                source_type=who.source_type,
                source_id=who.source_id,
                target_module=_MODULE,
                target_endpoint=f"vault.{write.operation}",
                paths=[printable(write.path)],
                request_id=who.request_id or None,
                causes=write.author.causes,
                run=write.author.run,
                before=write.before,
                after=write.after,
                write=write.id,
                details={"late": True} if is_late else None,
            )
        )


def _on_disk(change: Change, at: datetime) -> AuditEvent:
    paths = [change.path] if change.source is None else [change.path, change.source]
    return AuditEvent(
        timestamp=at,
        event_type="write",
        source_type="person",
        source_id="on disk",
        target_module=_MODULE,
        target_endpoint=f"vault.{change.kind}",
        paths=[printable(path) for path in paths],
        causes=change.author.causes,
        before=change.old.digest if change.old is not None else None,
        after=change.new.digest if change.new is not None else None,
    )


def _source(author: Author) -> Caller:
    if author.caller is not None:
        return author.caller
    if author.run is not None and author.by not in BRINGS_BACK:
        return Caller("agent", author.by)
    return Caller("person" if author.by == PERSON.by else "daemon", author.by)
