"""What may be done to the files, and what is found of it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from parachuted.audit.chain import ChainPosition, line_of
from parachuted.audit.files import ChainHeadFile
from tests.audit.audit_rig import NOON, AuditRig, event

FIRST, MIDDLE, LAST = "2026-11-20", "2026-11-21", "2026-11-22"


def changed(rig: AuditRig, day: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
    rig.file(day).write_bytes(b"".join(change(rig.raw(day))))


def forged(before: ChainPosition, count: int = 1) -> list[bytes]:
    """Lines as from someone who knows how, but cannot write in the state folder."""
    made = []
    for _ in range(count):
        line, before = line_of(event("GET /forged"), before)
        made.append(line)
    return made


def position(seq: int, line: bytes | None = None) -> ChainPosition:
    return ChainPosition(seq, json.loads(line)["hash"] if line else "0" * 64)


FOLLOWS = "does not follow the line before it"


def end(seq: int) -> str:
    return f"the end: seq {seq} is last, and this machine wrote seq 12 last"


TAMPERING = [
    (MIDDLE, lambda lines: [lines[0], lines[1].replace(b"/1/1", b"/1/9"), *lines[2:]],
     "21.laptop.jsonl:2 (seq 6) was changed after it was written"),
    (MIDDLE, lambda lines: lines[1:], "seq 5 to 5 are missing"),
    (MIDDLE, lambda lines: [lines[0], *lines[2:]], "(seq 7): seq 6 to 6 are missing"),
    (MIDDLE, lambda lines: lines[:-1], "seq 8 to 8 are missing"),
    (MIDDLE, lambda lines: [*lines[:3], lines[3][:40]], "seq 8 to 8 are missing"),
    (MIDDLE, lambda lines: [b"\0" * sum(map(len, lines))], "laptop.jsonl:1 is not a line"),
    (MIDDLE, lambda lines: [lines[1], lines[0], *lines[2:]], "out of its order"),
    (MIDDLE, lambda lines: [lines[0], *lines], "21.laptop.jsonl:2 (seq 5) is out of its order"),
    (MIDDLE, lambda lines: [lines[0], *forged(position(5)), *lines[1:]], FOLLOWS),
    (MIDDLE, lambda lines: [lines[0], *forged(position(5, lines[0])), *lines[2:]],
     "21.laptop.jsonl:3 (seq 7) does not follow the line before it"),
    (MIDDLE, lambda _lines: forged(position(4), 4), "does not follow"),
    (MIDDLE, lambda lines: [lines[0], b"hi\n", *lines[1:]], "jsonl:2 is not a line"),
    (MIDDLE, lambda lines: [lines[0], b"\n", *lines[1:]], "jsonl:2 is not a line"),
    (LAST, lambda lines: lines[:-1], end(11)),
    (LAST, lambda lines: [*lines[:3], lines[3][:40]], end(11)),
    (LAST, lambda lines: lines[:1], end(9)),
    (LAST, lambda _lines: [], end(8)),
    (LAST, lambda lines: [*lines, b"x"], "22.laptop.jsonl:5 is not a line of the audit"),
    (LAST, lambda lines: [*lines, *forged(position(12, lines[-1]))], end(13)),
    (LAST, lambda _lines: forged(position(8), 4), end(12)),
]  # fmt: skip


def test_what_was_written_holds(rig):
    assert (rig.verdict().holds, rig.verdict().lines) == (True, 0)
    rig.fill()

    verdict = rig.verdict()

    assert (verdict.holds, verdict.lines, verdict.days, verdict.last_seq) == (True, 12, 3, 12)
    assert verdict.findings == verdict.notes == []


@pytest.mark.parametrize(("day", "change", "finding"), TAMPERING)
def test_what_was_done_to_the_lines_is_found_and_where(rig, day, change, finding):
    rig.fill()
    changed(rig, day, change)

    verdict = rig.verdict()

    assert not verdict.holds
    assert any(finding in found for found in verdict.findings), verdict.findings


@pytest.mark.parametrize(
    ("days", "finding"),
    [
        ([FIRST], "seq 1 to 4 are missing"),
        ([MIDDLE], "seq 5 to 8 are missing"),
        ([LAST], end(8)),
        ([FIRST, MIDDLE, LAST], end(0)),
    ],
)
def test_a_day_that_is_gone_is_found(rig, days, finding):
    rig.fill()
    for day in days:
        rig.folder.remove(day)

    assert any(finding in found for found in rig.verdict().findings)


def test_a_day_with_another_days_lines_is_found(rig):
    rig.fill()
    rig.file(FIRST).write_bytes(rig.file(MIDDLE).read_bytes())

    assert len(rig.verdict().findings) == 2


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda lines: lines[:-2], "seq 11 to 12 are missing"),
        (
            lambda lines: [*lines, *forged(position(12, lines[-1]))],
            FOLLOWS,
        ),
        (lambda _lines: forged(position(8), 4), FOLLOWS),
    ],
)
def test_what_was_done_is_still_found_after_the_daemon_went_on(rig, change, finding):
    rig.fill()
    changed(rig, LAST, change)
    rig.write(event("GET /later"))

    assert rig.logs[-1].broken
    assert any(finding in found for found in rig.verdict().findings)


def test_without_the_state_folder_the_end_is_said_to_be_unknown(rig, tmp_path):
    rig.fill()
    rig.head = ChainHeadFile(tmp_path / "none")

    assert rig.verdict().holds
    assert "does not say where the chain ends" in rig.verdict().notes[0]


def test_many_findings_are_cut_short(rig):
    rig.fill(days=1, lines=200)
    changed(rig, LAST, lambda lines: [line.replace(b"GET", b"PUT") for line in lines])

    findings = rig.verdict().findings

    assert len(findings) == 101
    assert findings[-1].startswith("and ")


def test_it_holds_while_the_daemon_goes_on_writing(rig):
    log = rig.open()
    for number in range(3000):
        log.record(event(f"GET /{number}", NOON))
        if number % 300 == 0:
            verdict = rig.verdict()
            assert verdict.holds, verdict
