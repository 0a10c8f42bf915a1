"""Audit log: takes events from any thread and writes them as lines in a thread of its own. What
cannot be written waits; beyond a bound events are counted, and the count is itself an event.

Each write of the vault is an event, our own and those found on the disk.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from parachuted.audit.chain import AuditEvent, AuditRecorder, ChainPosition, line_of, stamp
from parachuted.audit.files import AuditFolder, ChainHead, ChainHeadFile
from parachuted.audit.reader import REMOVED, AuditReader
from parachuted.events.changes import ON_DISK, PERSON, Change
from parachuted.vault import BRINGS_BACK, Author, Requester, Write, WriteJournal, printable

log = logging.getLogger(__name__)

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
_BATCH = 256
_RETRY_S, _DURABLE_S, _TEND_S = 1.0, 1.0, 30.0


class AuditLog:
    """`trouble`, `refusal`: why lines, or changes, wait; `broken`: what a start found changed."""

    def __init__(
        self,
        folder: AuditFolder,
        head: ChainHeadFile,
        clock: Callable[[], datetime],
        *,
        keep_days: int,
        written: int = 0,
        elapsed: Callable[[], datetime] | None = None,
        gather_s: float = 0.05,
        most_waiting: int = 16_384,
    ) -> None:
        """`keep_days`: 0 for ever. `written`: the newest record of a write, where there is no audit
        yet. `elapsed`: the time by which files grow old, which no jump of the wall clock moves.
        """
        self.folder, self.head, self._clock, self._keep_days = folder, head, clock, keep_days
        self._elapsed = elapsed or clock
        self._gather_s, self._most_waiting = gather_s, most_waiting
        self._queue: deque[AuditEvent] = deque()
        self._dropped = 0
        self._counting, self._writing = threading.Lock(), threading.Lock()
        self._awake, self._closing = threading.Event(), threading.Event()
        self._standing: ChainHead | None = None
        known = head.read()
        self.written = known.write if known is not None else written
        self._tended, self._durable_at = "", 0.0
        self.trouble: str | None = None
        self.refusal: str | None = None
        self.broken: str | None = None
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)

    def start(self) -> None:
        self._awake.set()
        self._thread.start()

    def record(self, event: AuditEvent) -> None:
        if len(self._queue) >= self._most_waiting:
            with self._counting:
                self._dropped += 1
            return
        self._queue.append(event)
        if not self._awake.is_set():
            self._awake.set()

    def flush(self) -> bool:
        """Write what waits; returns whether all of it is in the files. Blocks on the disk."""
        with self._writing:
            try:
                self._drain()
            except OSError as error:
                self._fail(error)
            else:
                if self.trouble is not None:
                    log.warning("the audit is written again")
                self.trouble = self.refusal = None
            return self.trouble is None

    def close(self) -> None:
        self._closing.set()
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join()
        if not self.flush():
            waiting = len(self._queue) + self._dropped
            log.error(
                "the audit could not be written",
                extra={"events": waiting, "reason": self.trouble},
            )

    def _work(self) -> None:
        while not self._closing.is_set():
            self._awake.wait(_TEND_S)
            self._closing.wait(self._gather_s if self.trouble is None else _RETRY_S)
            self._awake.clear()
            self.flush()

    def _fail(self, error: OSError) -> None:
        reason = error.strerror or str(error)
        if self.trouble is None:
            log.warning("the audit cannot be written", extra={"reason": reason})
        waits = (
            f"{self._dropped} events were dropped" if self._dropped else "lines wait until it can"
        )
        self.trouble = f"the audit cannot be written ({reason}); {waits}"
        self.refusal = (
            f"the vault is read-only, since the audit cannot be written: {reason}"
            if error.errno in _FULL
            else None
        )
        self._awake.set()

    def _drain(self) -> None:
        if self._standing is None:
            self._standing = self._begin()
        self._tend()
        if dropped := self._dropped:
            says = f"{dropped} events dropped, since more came than could be written"
            self._write([self._event("audit.dropped", says, success=False, count=dropped)])
            with self._counting:
                self._dropped -= dropped
        while self._queue:
            # by index: an iterator raises when another thread records an event meanwhile
            batch = [self._queue[index] for index in range(min(len(self._queue), _BATCH))]
            for _day, events in groupby(batch, key=_day_of):
                written = list(events)
                self._write(written)
                for _ in written:
                    self._queue.popleft()

    def _begin(self) -> ChainHead:
        """The end of the files, or what this machine recorded where that differs."""
        known, found = self.head.read(), AuditReader(self.folder).end()
        end = found
        if known is not None and not (
            found in (known.sure, known.pending) or known.sure.seq < found.seq < known.pending.seq
        ):
            end = known.sure if found.seq <= known.sure.seq else known.pending
            self.broken = (
                "it was changed after it was written; `parachute audit verify` says where: "
                f"the files end with seq {found.seq}, but seq {end.seq} was written last"
            )
        return ChainHead(sure=end, pending=end, write=self.written)

    def _write(self, events: Sequence[AuditEvent]) -> None:
        before = self._standing or self._begin()
        lines, end = _lines_of(events, before.sure)
        is_durable = self._closing.is_set() or time.monotonic() >= self._durable_at
        self.head.write(ChainHead(sure=before.sure, pending=end, write=before.write))
        self.folder.append(_day_of(events[0]), b"".join(lines), durably=is_durable)
        write = max((event.write or 0 for event in events), default=0)
        self._standing = ChainHead(sure=end, pending=end, write=max(before.write, write))
        self.head.write(self._standing)
        if is_durable:
            self._durable_at = time.monotonic() + _DURABLE_S

    def _tend(self) -> None:
        """Once a day, remove what is older than the limit, after writing a line that says so."""
        today = self._elapsed().astimezone(UTC).date()
        if self._tended == today.isoformat():
            return
        if self._keep_days:
            self._remove((today - timedelta(days=self._keep_days)).isoformat())
        self._tended = today.isoformat()

    def _remove(self, before: str) -> None:
        """Files of days before that one, as far as they hold the oldest lines."""
        reader, days = AuditReader(self.folder), self.folder.days()
        later = [first for day in days if day >= before and (first := reader.first_seq(day))]
        ends = {day: reader.end_of(day) for day in days if day < before}
        going = [day for day, end in ends.items() if not later or end.seq < min(later)]
        if not going:
            return
        last = max(ends[day] for day in going)
        says = (
            f"files of {len(going)} days, {going[0]} to {going[-1]}, are older than "
            f"{self._keep_days} days and are removed"
        )
        self._write([self._event(REMOVED, says, success=True, through=last.seq, hash=last.hash)])
        for day in going:
            self.folder.remove(day)

    def _event(
        self, endpoint: str, says: str, *, success: bool, **details: str | int
    ) -> AuditEvent:
        return AuditEvent(
            timestamp=self._clock(),
            event_type="audit",
            source_type="daemon",
            source_id="audit",
            target_module="system",
            target_endpoint=endpoint,
            success=success,
            error=says,
            details=details,
        )


def _lines_of(
    events: Sequence[AuditEvent], end: ChainPosition
) -> tuple[list[bytes], ChainPosition]:
    """An event that cannot be encoded is our own error, and must not keep the others back."""
    lines = []
    for event in events:
        try:
            line, end = line_of(event, end)
        except (ValueError, TypeError, AttributeError):
            log.exception(
                "an event could not be recorded in the audit",
                extra={"endpoint": event.target_endpoint[:80]},
            )
        else:
            lines.append(line)
    return lines, end


def _day_of(event: AuditEvent) -> str:
    return stamp(event.timestamp)[:10]


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
