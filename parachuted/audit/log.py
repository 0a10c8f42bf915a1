"""Audit log: accepts events from any thread at once and writes them as lines in a thread of its
own.

What cannot be written waits, up to a bound; beyond it events are counted, and the count is itself
an event.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby

from parachuted.audit.chain import AuditEvent, AuditRecorder, ChainPosition, line_of
from parachuted.audit.files import AuditFolder, ChainHead, ChainHeadFile
from parachuted.audit.reader import AuditReader
from parachuted.audit.verify import CUT, GAP, REMOVED
from parachuted.events.changes import ON_DISK, PERSON, Change
from parachuted.vault import BRINGS_BACK, Author, Caller, History, Write, printable

log = logging.getLogger(__name__)

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
DROPPED = "audit.dropped"
_BROKEN = "it was changed after it was written; `parachute audit verify` says where: "


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditBatching:
    """How events become lines: after `gather_s` seconds or with `batch` events; `most` may wait; a
    failing disk is retried each `retry_s`.

    Lines are made durable at most each `durable_s`; whether the day is over is checked each
    `tend_s`.
    """

    gather_s: float = 0.05
    batch: int = 256
    most: int = 16_384
    retry_s: float = 1.0
    durable_s: float = 1.0
    tend_s: float = 30.0


class AuditLog:
    """Writes the audit.

    `trouble` says why lines wait, `refusal` the same where no change may be made meanwhile.

    `broken` says how the files differ from how they were left; `verify` finds all that is wrong
    with them.
    """

    def __init__(
        self,
        folder: AuditFolder,
        head: ChainHeadFile,
        clock: Callable[[], datetime],
        *,
        keep_days: int,
        written: int = 0,
        pace: AuditBatching | None = None,
        elapsed: Callable[[], datetime] | None = None,
    ) -> None:
        """`keep_days`: days whose files are kept; 0 for ever.

        `written`: the newest record of a write, where no audit was kept before.

        `elapsed` is the time by which files grow old, where that is not `clock`: no jump of the
        wall clock may move it.
        """
        self.folder, self.head, self._clock, self._keep_days = folder, head, clock, keep_days
        self._elapsed = elapsed if elapsed is not None else clock
        self._pace = pace or AuditBatching()
        self._queue: deque[AuditEvent] = deque()
        self._own: deque[AuditEvent] = deque()
        self._awake, self._hurried, self._lock = (
            threading.Event(),
            threading.Event(),
            threading.Lock(),
        )
        self._flushes: list[threading.Event] = []
        self._dropped = 0
        self._standing: ChainHead | None = None
        known = head.read()
        self.written = known.write if known is not None else written
        self._tended = ""
        self._durable_at = 0.0
        self._is_closing = False
        self.trouble: str | None = None
        self.refusal: str | None = None
        self.broken: str | None = None
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)

    def start(self) -> None:
        """Check that the files are as they were left, and start to write."""
        self._awake.set()
        self._thread.start()

    def record(self, event: AuditEvent) -> None:
        """Queue an event: a microsecond, from any thread."""
        waiting = len(self._queue)
        if waiting >= self._pace.most:
            with self._lock:
                self._dropped += 1
            return
        self._queue.append(event)
        if not self._awake.is_set():
            self._awake.set()
        if waiting >= self._pace.batch and self.trouble is None and not self._hurried.is_set():
            self._hurried.set()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until earlier events are in the files; returns whether they are. Blocks."""
        done = threading.Event()
        with self._lock:
            self._flushes.append(done)
        self._awake.set()
        self._hurried.set()
        return done.wait(timeout_s) and self.trouble is None

    def close(self) -> None:
        """Write what waits, as far as possible, and stop."""
        self._is_closing = True
        self._awake.set()
        self._hurried.set()
        if self._thread.is_alive():
            self._thread.join()
        self.head.close()
        self.folder.close()
        if self._queue:
            log.error(
                "the audit could not be written",
                extra={"events": len(self._queue) + self._dropped, "reason": self.trouble},
            )

    def _work(self) -> None:
        while True:
            self._awake.wait(self._pace.retry_s if self.trouble else self._pace.tend_s)
            if not self._is_closing:
                self._hurried.wait(
                    self._pace.gather_s if self.trouble is None else self._pace.retry_s
                )
            is_closing = self._is_closing
            self._hurried.clear()
            self._awake.clear()
            with self._lock:
                flushes, self._flushes = self._flushes, []
            self._try_write()
            for flush in flushes:
                flush.set()
            if is_closing:
                return

    def _try_write(self) -> None:
        try:
            self._drain()
        except OSError as error:
            reason = error.strerror or str(error)
            lost = (
                f"{self._dropped} events were dropped"
                if self._dropped
                else "new lines wait until it can"
            )
            if self.trouble is None:
                log.warning("the audit cannot be written", extra={"reason": reason})
            self.trouble = f"the audit cannot be written ({reason}); {lost}"
            self.refusal = (
                f"the vault is read-only, since the audit cannot be written: {reason}"
                if error.errno in _FULL
                else None
            )
            self._awake.set()
        else:
            if self.trouble is not None:
                log.warning("the audit is written again")
            self.trouble = self.refusal = None

    def _drain(self) -> None:
        if self._standing is None:
            self._standing = self._begin()
        self._tend()
        while self._queue or self._own or self._dropped:
            if self._dropped:
                self._own.append(self._dropped_event())
            waiting = self._own or self._queue
            batch = [waiting[number] for number in range(min(len(waiting), self._pace.batch))]
            for day, events in groupby(batch, key=_day_of):
                written = list(events)
                self._write(day.isoformat(), written)
                for _ in written:
                    waiting.popleft()

    def _begin(self) -> ChainHead:
        """Find the end of the chain: the end of the files, unless that differs from what this
        machine recorded.
        """
        known = self.head.read()
        found = AuditReader(self.folder).last_link()
        if known is not None and found.seq < known.sure.seq:
            earlier = AuditReader(self.folder.earlier()).last_link()
            if known.sure.seq <= earlier.seq <= known.begun.seq:
                self.folder.take_over_earlier()
                found = earlier
        link, own = found, []
        if (
            known is not None
            and found not in (known.sure, known.begun)
            and not known.sure.seq < found.seq < known.begun.seq
        ):
            link = known.sure if found.seq <= known.sure.seq else known.begun
            says = (
                f"the files end with seq {found.seq}, but seq {link.seq} was written last; "
                "what follows goes on from there"
            )
            own.append(self._event(GAP, says, found=found.seq, written=link.seq))
            self.broken = _BROKEN + says
        in_flight = known is None or known.begun != known.sure
        own += [
            self._set_aside(day, in_flight=in_flight)
            for day in self.folder.days()
            if self.folder.is_torn(day)
        ]
        self._own.extend(own)
        return ChainHead(sure=link, begun=link, write=self.written)

    def _write(self, day: str, events: Sequence[AuditEvent]) -> None:
        before = self._standing or self._begin()
        lines, link = _lines_of(events, before.sure)
        is_durable = time.monotonic() >= self._durable_at or self._is_closing
        self.head.write(replace(before, begun=link))
        while not self.folder.append(day, b"".join(lines), durably=is_durable):
            self._own.append(self._set_aside(day, in_flight=False))
        write = max((event.write for event in events if event.write is not None), default=0)
        self._standing = ChainHead(sure=link, begun=link, write=max(before.write, write))
        self.head.write(self._standing)
        if is_durable:
            self._durable_at = time.monotonic() + self._pace.durable_s

    def _set_aside(self, day: str, *, in_flight: bool) -> AuditEvent:
        torn = self.folder.set_torn_aside(day)
        says = (
            "a line that was cut short, as by a kill,"
            if in_flight
            else "bytes that no line of the audit are"
        )
        log.warning(
            "the end of an audit file was set aside",
            extra={"day": day, "bytes": torn.size, "in_flight": in_flight},
        )
        says = f"{says} stood at the end of {self.folder.name(day)}; set aside as {torn.name}"
        if not in_flight:
            self.broken = _BROKEN + says
        return self._event(
            CUT, says, in_flight=in_flight, bytes=torn.size, sha256=torn.digest, kept=torn.name
        )

    def _tend(self) -> None:
        """Once a day, remove what is older than the limit, after writing a line that says so."""
        today = self._elapsed().astimezone(UTC).date()
        if self._tended == today.isoformat():
            return
        if self._keep_days:
            self._remove(
                (today - timedelta(days=self._keep_days)).isoformat(),
                self._clock().astimezone(UTC).date(),
            )
        self._tended = today.isoformat()

    def _remove(self, before: str, now: date) -> None:
        """Files of days before that one, as far as they hold the oldest lines."""
        reader, days = AuditReader(self.folder), self.folder.days()
        firsts = [
            line.link.seq
            for day in days
            if day >= before and (line := reader.first(day)) is not None
        ]
        ends = {day: reader.last(day) for day in days if day < before}
        going = [day for day, end in ends.items() if not firsts or end.seq < min(firsts)]
        if not going:
            return
        last = max(ends[day] for day in going)
        says = (
            f"files of {len(going)} days, {going[0]} to {going[-1]}, are older than "
            f"{self._keep_days} days and are removed"
        )
        event = self._event(
            REMOVED, says, first=going[0], last=going[-1], through=last.seq, hash=last.hash
        )
        self._write(now.isoformat(), [event._replace(success=True)])
        for day in going:
            self.folder.remove(day)

    def _dropped_event(self) -> AuditEvent:
        with self._lock:
            count, self._dropped = self._dropped, 0
        return self._event(
            DROPPED, f"{count} events dropped, since more came than could be written", count=count
        )

    def _event(self, endpoint: str, says: str, **details: str | int | bool) -> AuditEvent:
        return AuditEvent(
            timestamp=self._clock(),
            event_type="audit",
            source_type="daemon",
            source_id="audit",
            target_module="system",
            target_endpoint=endpoint,
            success=False,
            error=says,
            details=details,
        )


def _lines_of(
    events: Sequence[AuditEvent], link: ChainPosition
) -> tuple[list[bytes], ChainPosition]:
    """What cannot be encoded is our own error, and must not keep the others from being written."""
    lines = []
    for event in events:
        try:
            line, link = line_of(event, link)
        except (ValueError, TypeError, AttributeError):
            log.exception(
                "an event could not be recorded in the audit",
                extra={"endpoint": event.target_endpoint[:80]},
            )
        else:
            lines.append(line)
    return lines, link


def _day_of(event: AuditEvent) -> date:
    at = event.timestamp
    return (at if at.tzinfo is UTC else at.astimezone(UTC)).date()


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
        did. One that the history explains may be detected before `wrote` is called for it.
        """
        now = self._clock()
        with self._lock:
            theirs = [
                change
                for change in changes
                if change.author.caller == ON_DISK.caller and not self._is_ours(change)
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
    who = _source(change.author)
    return AuditEvent(
        timestamp=at,
        event_type="write",
        source_type=who.source_type,
        source_id=who.source_id,
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
