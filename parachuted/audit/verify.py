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
