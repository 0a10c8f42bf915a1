"""Audit verify: whether the lines are complete, unchanged and in order.

Three things are compared: each line with its own hash, each line with the one before, and the end
with where the state folder says that the chain stands. What a kill or the setting `audit.keep_days`
takes away is written down by the daemon, so it can be distinguished: a kill leaves less than a
line, or lines of the one batch that the state folder names as started; removed days leave a line
with the last hash of theirs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from parachuted.audit.chain import MOST_LINE_BYTES, START, AuditLine, ChainPosition, read_line
from parachuted.audit.files import AuditFolder, ChainHead, ChainHeadFile

REMOVED, CUT, GAP = "audit.removed", "audit.cut", "audit.gap"
_CHUNK = 1 << 20
_MOST_FINDINGS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainVerification:
    """`findings`: what is wrong, and where; `notes`: known causes, such as a kill."""

    lines: int
    days: int
    findings: list[str]
    notes: list[str]
    last: ChainPosition

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


@dataclass(slots=True)
class _Segment:
    """Consecutive lines of one file."""

    name: str
    number: int
    prev: str
    first: int
    last: ChainPosition


@dataclass(slots=True)
class _Look:
    """The result of one pass through the files."""

    lines: int = 0
    segments: list[_Segment] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    removed: list[ChainPosition] = field(default_factory=list)


def verify(folder: AuditFolder, head: ChainHeadFile) -> ChainVerification:
    """Check all files.

    Blocks on the disk, also while the daemon goes on writing. OSError.
    """
    look, before, days = _Look(), head.read(), folder.days()
    torn = []
    for day in days:
        try:
            if _read_day(folder, day, look):
                torn.append(folder.name(day))
        except FileNotFoundError:
            look.findings.append(f"{day}: the file went away while it was read")
    look.segments.sort(key=lambda segment: segment.first)
    _link(look)
    last = max((segment.last for segment in look.segments), default=START)
    _compare_end(look, last, torn, before, head.read())
    findings = look.findings
    if len(findings) > _MOST_FINDINGS:
        findings = [*findings[:_MOST_FINDINGS], f"and {len(findings) - _MOST_FINDINGS} more"]
    return ChainVerification(
        lines=look.lines, days=len(days), findings=findings, notes=look.notes, last=last
    )


def _read_day(folder: AuditFolder, day: str, look: _Look) -> bool:
    """Add a day's lines; returns whether the file ends within one."""
    segment: _Segment | None = None
    name = folder.name(day)
    with folder.opened(day) as descriptor:
        for number, raw, is_whole in _forward(descriptor):
            if not is_whole:
                return True
            line = read_line(raw)
            look.lines += 1
            if line is None or not line.is_sound:
                says = (
                    "is not a line of the audit"
                    if line is None
                    else f"(seq {line.link.seq}) was changed after it was written"
                )
                look.findings.append(f"{name}:{number} {says}")
            if line is None:
                continue
            _take_notes(line, day, look)
            if str(line.document.get("timestamp"))[:10] != day:
                look.findings.append(
                    f"{name}:{number} (seq {line.link.seq}) is a line of another day"
                )
            if (
                segment is None
                or line.link.seq != segment.last.seq + 1
                or line.prev != segment.last.hash
            ):
                if segment is not None and line.link.seq <= segment.last.seq + 1:
                    says = (
                        "does not follow the line before it"
                        if line.link.seq == segment.last.seq + 1
                        else "is out of its order"
                    )
                    look.findings.append(f"{name}:{number} (seq {line.link.seq}) {says}")
                segment = _Segment(name, number, line.prev, line.link.seq, line.link)
                look.segments.append(segment)
            segment.last = line.link
    return False


def _take_notes(line: AuditLine, day: str, look: _Look) -> None:
    """The daemon's own notes of cuts and removals; a line that is not sound does not count."""
    document = line.document
    details = document.get("details")
    if document.get("event_type") != "audit" or not line.is_sound or not isinstance(details, dict):
        return
    endpoint, message = (
        document.get("target_endpoint"),
        f"{day}, seq {line.link.seq}: {document.get('error') or document.get('target_endpoint')}",
    )
    through = details.get("through")
    if endpoint == REMOVED and isinstance(through, int):
        look.removed.append(ChainPosition(through, str(details.get("hash"))))
        look.notes.append(message)
    elif endpoint == CUT and details.get("in_flight") is True:
        look.notes.append(message)
    elif endpoint in {CUT, GAP}:
        look.findings.append(message)


def _link(look: _Look) -> None:
    """Whether each segment continues the one before it; `look.segments` are in order."""
    at = START
    through = max(look.removed, default=START)
    for segment in look.segments:
        where = f"{segment.name}:{segment.number}"
        if segment.first <= at.seq:
            look.findings.append(
                f"{where} has the number {segment.first} a second time, or out of its order"
            )
        elif segment.first > at.seq + 1:
            if at == START and segment.first <= through.seq + 1:
                if segment.first == through.seq + 1 and segment.prev != through.hash:
                    look.findings.append(
                        f"{where} does not follow the last line of the days that were removed"
                    )
            else:
                look.findings.append(
                    f"{where} begins with seq {segment.first}: "
                    f"{_lines(at.seq + 1, segment.first - 1)} before it"
                )
        elif segment.prev != at.hash and not any(
            f"(seq {segment.first}) does not follow" in said for said in look.findings
        ):
            look.findings.append(f"{where} (seq {segment.first}) does not follow seq {at.seq}")
        at = max(at, segment.last, key=lambda link: link.seq)


def _compare_end(
    look: _Look,
    last: ChainPosition,
    torn: list[str],
    before: ChainHead | None,
    after: ChainHead | None,
) -> None:
    """Compares the end of the files with the recorded end of the chain before and after
    the pass.
    """
    if before is None or after is None:
        look.notes.append(
            "the state folder does not say where the chain ends, so a cut at its end could not be "
            "found"
        )
        look.notes += [f"{name} ends within a line" for name in torn]
        return
    if last.seq < before.sure.seq:
        look.findings.append(
            f"the end: {_lines(last.seq + 1, before.sure.seq)}, which this machine knows were "
            "written"
        )
    elif last.seq > after.begun.seq:
        look.findings.append(
            f"the end: seq {after.begun.seq + 1} to {last.seq} were not written by this machine's "
            "daemon"
        )
    elif any(
        last.seq == link.seq and last.hash != link.hash
        for link in (before.sure, after.sure, after.begun)
    ):
        look.findings.append(f"the end: seq {last.seq} is not the line that this machine wrote")
    elif last.seq < before.begun.seq and before.begun == after.begun:
        look.notes.append(
            f"the daemon was ended while it wrote seq {last.seq + 1} to {before.begun.seq}, as by "
            "a kill"
        )
    for name in torn:
        if before.begun.seq > before.sure.seq or before != after:
            look.notes.append(
                f"{name} ends within a line, which the daemon was writing; it is set aside at the "
                "next start"
            )
        else:
            look.findings.append(f"{name} ends within a line, though nothing was being written")


def _lines(first: int, last: int) -> str:
    return f"seq {first} is missing" if first == last else f"seq {first} to {last} are missing"


def _forward(descriptor: int) -> Iterator[tuple[int, bytes, bool]]:
    """Number, bytes and completeness of each line; a longer line than the daemon writes is
    truncated.
    """
    number, rest = 1, b""
    while part := os.read(descriptor, _CHUNK):
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield number, line, True
            number += 1
        rest = rest[: MOST_LINE_BYTES + 1] if len(rest) > MOST_LINE_BYTES else rest
    if rest:
        yield number, rest, False
