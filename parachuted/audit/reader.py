"""Audit reader: finds lines, newest first, reading no more of the files than necessary."""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from pydantic import FiniteFloat, ValidationError

from parachuted.audit.chain import (
    MOST_LINE_BYTES,
    START,
    ChainLine,
    ChainPosition,
    read_line,
    stamp,
)
from parachuted.audit.files import AuditFolder
from parachuted.texts.adapters import late_adapter
from parachuted.texts.times import Time

MOST_LOOKED_AT = 200_000
_FIRST_CHUNK, _CHUNK = 16 << 10, 256 << 10
_AGO = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A recorded event. `duration_ms` is in milliseconds, `timestamp` in UTC."""

    seq: int
    timestamp: Time
    event_type: str
    source_type: str
    source_id: str
    target_module: str
    target_endpoint: str
    para_ids_involved: list[str] = field(default_factory=list)
    duration_ms: FiniteFloat = 0.0
    success: bool
    error: str | None = None
    request_id: str | None = None
    status: int | None = None
    paths: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    run: str | None = None
    before: str | None = None
    after: str | None = None
    details: dict[str, str | int | bool] = field(default_factory=dict)
    hash: str


_ENTRY = late_adapter(AuditEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """`source` is a kind or a name, `path` a file, or a folder with all below. None: any."""

    since: datetime | None = None
    until: datetime | None = None
    type: str | None = None
    source: str | None = None
    module: str | None = None
    success: bool | None = None
    path: str | None = None

    def takes(self, entry: AuditEntry) -> bool:
        return (
            self.type in {None, entry.event_type}
            and self.success in {None, entry.success}
            and self.module in {None, entry.target_module}
            and self.source in {None, entry.source_type, entry.source_id}
            and (self.since is None or entry.timestamp >= stamp(self.since))
            and (self.until is None or entry.timestamp < stamp(self.until))
            and (
                self.path is None
                or any(f"{path}/".startswith(f"{self.path}/") for path in entry.paths)
            )
        )

    def may_be_in(self, day: str) -> bool:
        return (self.since is None or day >= stamp(self.since)[:10]) and (
            self.until is None or day <= stamp(self.until)[:10]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Some entries, newest first. `cursor`: the number to continue before, None at the end."""

    events: list[AuditEntry]
    count: int
    cursor: str | None


class AuditReader:
    """Reads the files. Blocks on the disk; OSError."""

    def __init__(self, folder: AuditFolder) -> None:
        self._folder = folder

    def page(
        self,
        wanted: AuditFilter,
        *,
        limit: int,
        before: int | None = None,
        most: int = MOST_LOOKED_AT,
    ) -> AuditPage:
        """At most `limit` matches with a number below `before`, found among `most` lines."""
        events: list[AuditEntry] = []
        looked_at, cursor = 0, None
        for line in self._backward(wanted):
            if before is not None and line.link.seq >= before:
                continue
            looked_at += 1
            entry = entry_of(line)
            if entry is not None and wanted.takes(entry):
                events.append(entry)
            if len(events) == limit or looked_at == most:
                cursor = str(line.link.seq) if line.link.seq > 1 else None
                break
        return AuditPage(events=events, count=len(events), cursor=cursor)

    def entries(self, wanted: AuditFilter, after: int = 0) -> Iterator[AuditEntry]:
        """All matching entries with a number above `after`, newest first."""
        for line in takewhile(lambda line: line.link.seq > after, self._backward(wanted)):
            entry = entry_of(line)
            if entry is not None and wanted.takes(entry):
                yield entry

    def end(self) -> ChainPosition:
        """The highest number of a sound line at the end of a file."""
        return max(map(self.end_of, self._folder.days()), default=START)

    def end_of(self, day: str) -> ChainPosition:
        return next((line.link for line in self._backward_in(day) if line.is_sound), START)

    def first_seq(self, day: str) -> int:
        """The number of a day's first line; 0 for none."""
        try:
            with self._folder.opened(day) as descriptor:
                line = read_line(os.pread(descriptor, MOST_LINE_BYTES, 0).partition(b"\n")[0])
        except FileNotFoundError:
            return 0
        return line.link.seq if line is not None else 0

    def _backward(self, wanted: AuditFilter) -> Iterator[ChainLine]:
        """All lines that may match, newest first; days that overlap are merged."""
        days = [day for day in self._folder.days() if wanted.may_be_in(day)]
        while days:
            overlapping = [days.pop()]
            first = self.first_seq(overlapping[0])
            while days and next((line.link.seq for line in self._backward_in(days[-1])), 0) > first:
                first = min(first, self.first_seq(days[-1]))
                overlapping.append(days.pop())
            merged = heapq.merge(
                *map(self._backward_in, overlapping), key=lambda line: -line.link.seq
            )
            yield from merged

    def _backward_in(self, day: str) -> Iterator[ChainLine]:
        try:
            with self._folder.opened(day) as descriptor:
                for raw in _backward(descriptor):
                    if (line := read_line(raw)) is not None:
                        yield line
        except FileNotFoundError:
            return  # removed meanwhile


def entry_of(line: ChainLine) -> AuditEntry | None:
    """None for what our writer never wrote, since files in a vault may hold anything."""
    try:
        return _ENTRY().validate_python(line.document)
    except ValidationError:
        return None


def moment_of(text: str, now: datetime) -> datetime:
    """Parse `90s`, `15m`, `24h`, `7d`, `2w` (ago), a day, or an ISO time. ValueError."""
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{text[:80]!r} is not a time; write 24h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from error


def _backward(descriptor: int) -> Iterator[bytes]:
    """The lines, last first, without their ends; one that is too long comes in pieces."""
    at, chunk, rest = os.fstat(descriptor).st_size, _FIRST_CHUNK, b""
    while at:
        start = max(0, at - chunk)
        first, *lines = (os.pread(descriptor, at - start, start) + rest).split(b"\n")
        yield from reversed(lines)
        rest, at, chunk = first[: MOST_LINE_BYTES + 1], start, _CHUNK
    yield rest
