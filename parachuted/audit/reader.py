"""Audit reader: finds lines of the audit, newest first, reading no more of the files than
necessary.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from parachuted.audit.chain import MOST_LINE_BYTES, START, AuditLine, ChainPosition, read_line
from parachuted.audit.files import AuditFolder, end_of_lines

MOST_LOOKED_AT = 200_000
_FIRST_CHUNK, _CHUNK = 16 << 10, 256 << 10
_TEXTS = ("timestamp", "event_type", "source_type", "source_id", "target_module", "target_endpoint")
_MAYBE_TEXTS = ("error", "request_id", "run", "before", "after")
_LISTS = ("para_ids_involved", "paths", "names", "causes")
_AGO = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which lines.

    `source` is a kind of source or one's name, `path` a file or a folder with everything below it.
    None: any.
    """

    since: datetime | None = None
    until: datetime | None = None
    type: str | None = None
    source: str | None = None
    module: str | None = None
    success: bool | None = None
    path: str | None = None

    def takes(self, event: dict[str, object]) -> bool:
        """Whether an event, as `event_of` returns it, matches."""
        return (
            (self.type is None or event["event_type"] == self.type)
            and (self.success is None or event["success"] is self.success)
            and (self.module is None or event["target_module"] == self.module)
            and (self.source is None or self.source in (event["source_type"], event["source_id"]))
            and (self.since is None or str(event["timestamp"]) >= stamp(self.since))
            and (self.until is None or str(event["timestamp"]) < stamp(self.until))
            and (
                self.path is None or any(_is_below(str(path), self.path) for path in event["paths"])  # type: ignore[attr-defined]
            )
        )

    def may_be_in(self, day: str) -> bool:
        """Whether that day's file could hold a match."""
        return (self.since is None or day >= stamp(self.since)[:10]) and (
            self.until is None or day <= stamp(self.until)[:10]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Some events, newest first. `cursor`: where to continue, None at the end."""

    events: list[dict[str, object]]
    cursor: int | None


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
        """At most `limit` matching events with a number below `before`, found among
        `most` lines.
        """
        events: list[dict[str, object]] = []
        looked_at = 0
        for line in self.backward(wanted):
            if before is not None and line.link.seq >= before:
                continue
            looked_at += 1
            event = event_of(line)
            if event is not None and wanted.takes(event):
                events.append(event)
            if len(events) == limit or looked_at == most:
                return AuditPage(events=events, cursor=line.link.seq if line.link.seq > 1 else None)
        return AuditPage(events=events, cursor=None)

    def backward(self, wanted: AuditFilter) -> Iterator[AuditLine]:
        """All lines of the days that may hold matches, newest first.

        Days that overlap, after a clock was set, are merged.
        """
        days = [day for day in self._folder.days() if wanted.may_be_in(day)]
        while days:
            overlapping = [days.pop()]
            first = self._first_seq(overlapping[0])
            while days and self._last_seq(days[-1]) > first:
                first = min(first, self._first_seq(days[-1]))
                overlapping.append(days.pop())
            yield from heapq.merge(
                *map(self.backward_in, overlapping), key=lambda line: -line.link.seq
            )

    def backward_in(self, day: str) -> Iterator[AuditLine]:
        """The lines of one day, last first; others than the audit's are skipped."""
        try:
            with self._folder.opened(day) as descriptor:
                for raw in _backward(descriptor):
                    line = read_line(raw)
                    if line is not None:
                        yield line
        except FileNotFoundError:
            return  # removed meanwhile

    def last_link(self) -> ChainPosition:
        """The end of the chain in the files: the highest number of a sound line at the end of a
        file.
        """
        return max(map(self.last, self._folder.days()), default=START)

    def first(self, day: str) -> AuditLine | None:
        """The first line of a day, if it is one."""
        try:
            with self._folder.opened(day) as descriptor:
                return read_line(os.pread(descriptor, MOST_LINE_BYTES, 0).partition(b"\n")[0])
        except FileNotFoundError:
            return None

    def last(self, day: str) -> ChainPosition:
        """The last sound line of a day."""
        return next((line.link for line in self.backward_in(day) if line.is_sound), START)

    def _last_seq(self, day: str) -> int:
        return next((line.link.seq for line in self.backward_in(day)), 0)

    def _first_seq(self, day: str) -> int:
        line = self.first(day)
        return line.link.seq if line is not None else 0


class AuditFollower:
    """New lines as they are written, oldest first."""

    def __init__(self, folder: AuditFolder) -> None:
        self._folder = folder
        self._read: dict[str, int] = {day: self._size(day) for day in folder.days()}

    def more(self) -> list[dict[str, object]]:
        """The events since the last call."""
        found = []
        for day in self._folder.days():
            start, size = self._read.get(day, 0), self._size(day)
            if size <= start:
                self._read[day] = size
                continue
            with self._folder.opened(day) as descriptor:
                end = min(end_of_lines(descriptor, size), start + _CHUNK)
                data = os.pread(descriptor, end - start, start) if end > start else b""
            whole = data[: data.rfind(b"\n") + 1]
            self._read[day] = start + (len(whole) or (len(data) if len(data) == _CHUNK else 0))
            found += [
                event
                for raw in whole.split(b"\n")
                if (line := read_line(raw)) is not None and (event := event_of(line)) is not None
            ]
        return sorted(found, key=lambda event: int(str(event["seq"])))

    def _size(self, day: str) -> int:
        try:
            with self._folder.opened(day) as descriptor:
                return os.fstat(descriptor).st_size
        except FileNotFoundError:
            return 0


def event_of(line: AuditLine) -> dict[str, object] | None:
    """The event of a line with every field, each of its type; None for what our writer never wrote,
    since files in a vault may hold anything.
    """
    document = line.document
    if not all(isinstance(document.get(name), str) for name in _TEXTS) or not isinstance(
        document.get("success"), bool
    ):
        return None
    duration, status, details = (
        document.get("duration_ms"),
        document.get("status"),
        document.get("details"),
    )
    event: dict[str, object] = {
        "seq": line.link.seq,
        **{name: _valid(str(document[name])) for name in _TEXTS},
    }
    event["duration_ms"] = (
        float(duration) if isinstance(duration, int | float) and abs(duration) < 1e15 else 0.0  # noqa: PLR2004
    )
    event["success"] = document["success"]
    event |= {
        name: _valid(text) if isinstance(text := document.get(name), str) else None
        for name in _MAYBE_TEXTS
    }
    event["status"] = status if type(status) is int and 0 <= status < 1000 else None  # noqa: PLR2004
    event |= {name: _texts(document.get(name)) for name in _LISTS}
    event["details"] = (
        {_valid(key): _plain(value) for key, value in details.items()}
        if isinstance(details, dict)
        else {}
    )
    event["hash"] = line.link.hash
    return event


def stamp(moment: datetime) -> str:
    """A moment in UTC in the format of the lines, in which texts sort as moments do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_of(text: str, now: datetime) -> datetime:
    """Parse `90s`, `15m`, `24h`, `7d`, `2w` (ago), a day, or an ISO time, in UTC unless it says
    otherwise.

    Raises ValueError.
    """
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
    """The complete lines, last first, without their ends.

    A longer line than the daemon writes comes in pieces, which are not lines of the audit.
    """
    at, chunk, rest = end_of_lines(descriptor, os.fstat(descriptor).st_size), _FIRST_CHUNK, b""
    while at:
        start = max(0, at - chunk)
        pieces: Sequence[bytes] = (os.pread(descriptor, at - start, start) + rest).split(b"\n")
        yield from (piece for piece in reversed(pieces[1:]) if piece)
        rest, at, chunk = pieces[0], start, _CHUNK
        if len(rest) > MOST_LINE_BYTES:
            rest = rest[: MOST_LINE_BYTES + 1]
    if rest:
        yield rest


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _texts(value: object) -> list[str]:
    return [_valid(one) for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _plain(value: object) -> str | int | bool:
    return (
        value
        if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 1 << 53)
        else _valid(str(value)[:300])
    )


def _valid(text: str) -> str:
    """JSON may hold lone surrogates, which no answer can."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
