"""Audit reader: finds lines, newest first, reading no more of the files than necessary; verifies
that they are complete, unchanged and in order; and draws which caller called what.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby, takewhile

from pydantic import FiniteFloat, ValidationError

from parachuted.audit.chain import (
    MOST_LINE_BYTES,
    START,
    ChainLine,
    ChainPosition,
    read_line,
    stamp,
)
from parachuted.audit.files import AuditFolder, ChainHead, ChainHeadFile
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


REMOVED = "audit.removed"
_BEGIN = b'{"seq":'
_MOST_FINDINGS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerification:
    """`findings`: what is wrong, and where; `notes`: known causes, such as a kill."""

    holds: bool
    lines: int
    days: int
    last_seq: int
    last_hash: str
    findings: list[str]
    notes: list[str]


@dataclass(slots=True)
class _Run:
    """Lines that follow each other. `where` is the first, `prev` the hash before it."""

    where: str
    first: int
    prev: str
    last: ChainPosition

    def goes_on_with(self, line: ChainLine) -> bool:
        if (line.link.seq, line.prev) != (self.last.seq + 1, self.last.hash):
            return False
        self.last = line.link
        return True


def verify(folder: AuditFolder, head: ChainHeadFile) -> ChainVerification:
    """Compare each line with its hash and the line before, and the end of the files with the
    recorded one. Blocks on the disk, also while the daemon goes on writing. OSError.
    """
    before, days, lines, removed = head.read(), folder.days(), 0, 0
    findings, notes, runs = list[str](), list[str](), list[_Run]()
    for day in days:
        highest = 0
        for where, raw in _lines(folder, day):
            lines += 1
            if (line := read_line(raw)) is None:
                is_cut = raw and (raw.startswith(_BEGIN) or _BEGIN.startswith(raw))
                says = "was cut short, as by a kill" if is_cut else "is not a line of the audit"
                (notes if is_cut else findings).append(f"{where} {says}")
                continue
            seq = line.link.seq
            if not line.is_sound:
                findings.append(f"{where} (seq {seq}) was changed after it was written")
            elif line.document.get("event_type") == "audit":
                notes.append(f"{where}: {line.document.get('error')}")
                removed = max(removed, _removed_by(line.document))
            if seq <= highest:
                findings.append(f"{where} (seq {seq}) is out of its order")
            highest = seq
            if not (runs and runs[-1].goes_on_with(line)):
                runs.append(_Run(where, seq, line.prev, line.link))
    last = max((run.last for run in runs), default=START)
    findings += [*_breaks(runs, removed), *_breaks_at_end(last, before, head.read())]
    if before is None:
        notes.append("the state folder does not say where the chain ends, so a cut is not found")
    more = len(findings) - _MOST_FINDINGS
    findings[_MOST_FINDINGS:] = [f"and {more} more"] if more > 0 else []
    return ChainVerification(
        holds=not findings,
        lines=lines,
        days=len(days),
        last_seq=last.seq,
        last_hash=last.hash,
        findings=findings,
        notes=notes,
    )


def _breaks(runs: list[_Run], removed: int) -> Iterator[str]:
    at = START
    for run in sorted(runs, key=lambda run: run.first):
        is_oldest = at == START and 1 < run.first <= removed + 1  # older days are removed
        if run.first > at.seq + 1 and not is_oldest:
            yield f"{run.where} (seq {run.first}): seq {at.seq + 1} to {run.first - 1} are missing"
        elif run.first <= at.seq or (run.prev != at.hash and not is_oldest):
            yield f"{run.where} (seq {run.first}) does not follow the line before it"
        at = max(at, run.last)


def _breaks_at_end(
    last: ChainPosition, before: ChainHead | None, after: ChainHead | None
) -> Iterator[str]:
    if before is None or after is None:
        return
    ends = (before.sure, after.sure, after.pending)
    is_changed = any(last.seq == end.seq and last.hash != end.hash for end in ends)
    if is_changed or not before.sure.seq <= last.seq <= after.pending.seq:
        end = before.sure if last.seq <= before.sure.seq else after.pending
        yield f"the end: seq {last.seq} is last, and this machine wrote seq {end.seq} last"


def _removed_by(document: dict[str, object]) -> int:
    """The number of the last line of the days that the daemon removed."""
    details = document.get("details")
    if document.get("target_endpoint") != REMOVED or not isinstance(details, dict):
        return 0
    through = details.get("through")
    return through if isinstance(through, int) else 0


def _lines(folder: AuditFolder, day: str) -> Iterator[tuple[str, bytes]]:
    """Place and bytes of each line; one that is too long comes in pieces."""
    try:
        with folder.opened(day) as descriptor, open(descriptor, "rb", closefd=False) as file:
            lines = iter(lambda: file.readline(MOST_LINE_BYTES + 1), b"")
            for number, raw in enumerate(lines, 1):
                yield f"{folder.name(day)}:{number}", raw.removesuffix(b"\n")
    except FileNotFoundError:
        return  # removed meanwhile; if not by the daemon, then its lines are missing


_NAMES = {
    "local": "this machine",
    "flutter_app": "the app",
    "person": "a person",
    "daemon": "the daemon",
}
_PLAIN = {"on disk", "person", "audit", "this machine"}
_NO_CALLER = ("api_key", "nobody")
_STREAM = "GET /api/events"  # which takes as long as somebody listens
_BAR = 24


@dataclass(slots=True, kw_only=True)
class AuditEdge:
    """All calls of one source to one module, in milliseconds; a stream is not timed."""

    source: str
    module: str
    count: int = 0
    failed: int = 0
    mean_ms: float = 0.0
    slowest_ms: float = 0.0
    slowest: str = ""


def graph_of(entries: Iterable[AuditEntry]) -> list[AuditEdge]:
    """Without the audit's own notes and the starts of runs. The busiest source is first, and of
    each the module that it called most.
    """
    edges: dict[tuple[str, str], AuditEdge] = {}
    timed: dict[tuple[str, str], int] = {}
    for entry in entries:
        if entry.event_type in {"audit", "agent_start"}:
            continue
        ends = source_name(entry), entry.target_module or "(no such call)"
        edge = edges.setdefault(ends, AuditEdge(source=ends[0], module=ends[1]))
        edge.count += 1
        edge.failed += not entry.success
        if entry.target_endpoint != _STREAM:
            timed[ends] = timed.get(ends, 0) + 1
            edge.mean_ms += (entry.duration_ms - edge.mean_ms) / timed[ends]
            if entry.duration_ms >= edge.slowest_ms:
                edge.slowest_ms, edge.slowest = entry.duration_ms, entry.target_endpoint
    totals: dict[str, int] = {}
    for edge in edges.values():
        edge.mean_ms = round(edge.mean_ms, 3)
        totals[edge.source] = totals.get(edge.source, 0) + edge.count
    return sorted(edges.values(), key=lambda one: (-totals[one.source], one.source, -one.count))


def source_name(entry: AuditEntry) -> str:
    kind, name = entry.source_type, entry.source_id
    if kind in _NAMES:
        return _NAMES[kind] if name in _PLAIN else f"{_NAMES[kind]} ({name})"
    return name if (kind, name) == _NO_CALLER else f"{kind.replace('_', ' ')} {name}"


def draw(graph: Sequence[AuditEdge], span: str) -> list[str]:
    title = f"System activity, {span}"
    if not graph:
        return [title, "", "Nothing happened."]
    total, failed = sum(edge.count for edge in graph), sum(edge.failed for edge in graph)
    lines = [f"{title}: {total} events, {failed} failed", ""]
    wide, most = max(len(edge.module) for edge in graph), max(edge.count for edge in graph)
    for source, grouped in groupby(graph, key=lambda edge: edge.source):
        edges, rule = list(grouped), "─" * len(source)
        lines += [f"┌─{rule}─┐", f"│ {source} │", f"└┬{rule}─┘"]
        for edge in edges:
            corner, side = ("└", " ") if edge is edges[-1] else ("├", "│")
            bar = "█" * max(1, round(_BAR * edge.count / most))
            errors = f", {edge.failed} failed" if edge.failed else ""
            lines.append(f" {corner}──> {edge.module:<{wide}}  {edge.count:>7}  {bar}{errors}")
            if edge.slowest_ms > 0:
                took = f"mean {edge.mean_ms:.1f} ms, slowest {edge.slowest_ms:.1f} ms"
                lines.append(f" {side}      {took}: {edge.slowest}")
        lines.append("")
    return lines[:-1]
