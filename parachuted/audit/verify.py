"""Audit verify: whether the lines are complete, unchanged and in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from parachuted.audit.chain import MOST_LINE_BYTES, START, ChainLine, ChainPosition, read_line
from parachuted.audit.files import AuditFolder, ChainHead, ChainHeadFile

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


def verify(folder: AuditFolder, head: ChainHeadFile) -> ChainVerification:
    """Compare each line with its hash and the line before, and the end of the files with the
    recorded one. Blocks on the disk, also while the daemon goes on writing. OSError.
    """
    before, days, lines, removed, file = head.read(), folder.days(), 0, 0, ""
    findings, notes, runs = list[str](), list[str](), list[_Run]()
    for where, raw in (line for day in days for line in _lines(folder, day)):
        lines += 1
        if (line := read_line(raw)) is None:
            if raw and (raw.startswith(_BEGIN) or _BEGIN.startswith(raw)):
                notes.append(f"{where} was cut short, as by a kill")
            else:
                findings.append(f"{where} is not a line of the audit")
            continue
        if not line.is_sound:
            findings.append(f"{where} (seq {line.link.seq}) was changed after it was written")
        elif line.document.get("event_type") == "audit":
            notes.append(f"{where}: {line.document.get('error')}")
            removed = max(removed, _removed_by(line))
        seq, known, file = line.link.seq, file, where.partition(":")[0]
        if runs and (seq, line.prev) == (runs[-1].last.seq + 1, runs[-1].last.hash):
            runs[-1].last = line.link
            continue
        if runs and file == known and seq <= runs[-1].last.seq:
            findings.append(f"{where} (seq {seq}) is out of its order")
        runs.append(_Run(where, seq, line.prev, line.link))
    last = max((run.last for run in runs), default=START)
    findings += [*_breaks(runs, removed), *_breaks_at_end(last, before, after := head.read())]
    if before is None or after is None:
        notes.append("the state folder does not say where the chain ends, so a cut is not found")
    if len(findings) > _MOST_FINDINGS:
        findings[_MOST_FINDINGS:] = [f"and {len(findings) - _MOST_FINDINGS} more"]
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
        where = f"{run.where} (seq {run.first})"
        if at == START and 1 < run.first <= removed + 1:
            pass  # older days are removed
        elif run.first <= at.seq:
            yield f"{where} is there a second time"
        elif run.first > at.seq + 1:
            yield f"{where}: {_missing(at.seq + 1, run.first - 1)} before it"
        elif run.prev != at.hash:
            yield f"{where} does not follow the line before it"
        at = max(at, run.last)


def _breaks_at_end(
    last: ChainPosition, before: ChainHead | None, after: ChainHead | None
) -> Iterator[str]:
    if before is None or after is None:
        return
    ends = (before.sure, after.sure, after.pending)
    if last.seq < before.sure.seq:
        missing = _missing(last.seq + 1, before.sure.seq)
        yield f"the end: {missing}, which this machine knows were written"
    elif last.seq > after.pending.seq:
        added = f"seq {after.pending.seq + 1} to {last.seq}"
        yield f"the end: {added} were not written by this machine's daemon"
    elif any(last.seq == end.seq and last.hash != end.hash for end in ends):
        yield f"the end: seq {last.seq} is not the line that this machine wrote"


def _removed_by(line: ChainLine) -> int:
    """The number of the last line of the days that the daemon removed."""
    details = line.document.get("details")
    if line.document.get("target_endpoint") != REMOVED or not isinstance(details, dict):
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


def _missing(first: int, last: int) -> str:
    return f"seq {first} is missing" if first == last else f"seq {first} to {last} are missing"
