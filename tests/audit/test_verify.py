"""The table of what may be done to the files, and what is found of it; and what is known of and is
no harm.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from parachuted.audit.chain import START, ChainPosition, line_of
from parachuted.audit.files import ChainHead, ChainHeadFile
from tests.audit.audit_rig import NOON, AuditRig, event

MIDDLE, LAST = "2026-11-21", "2026-11-22"


def changed(audit_rig: AuditRig, day: str, change: Callable[[list[bytes]], list[bytes]]) -> None:
    audit_rig.file(day).write_bytes(b"".join(change(audit_rig.raw(day))))


def rehashed(lines: list[bytes], before: ChainPosition = START) -> list[bytes]:
    """The lines as one writes them who knows how, but cannot write in the state folder."""
    made = []
    for _ in lines:
        line, before = line_of(event("GET /forged"), before)
        made.append(line)
    return made


TAMPERING = {
    "a word is another": (
        MIDDLE,
        lambda lines: [lines[0], lines[1].replace(b"/1/1", b"/1/9"), *lines[2:]],
        "21.jsonl:2 (seq 6) was changed after it was written",
    ),
    "a first line is gone": (MIDDLE, lambda lines: lines[1:], "seq 5 is missing"),
    "a line in the middle is gone": (
        MIDDLE,
        lambda lines: [lines[0], *lines[2:]],
        "seq 6 is missing",
    ),
    "the last line of a day is gone": (MIDDLE, lambda lines: lines[:-1], "seq 8 is missing"),
    "the last line of all is gone": (LAST, lambda lines: lines[:-1], "the end: seq 12 is missing"),
    "the last lines of all are gone": (
        LAST,
        lambda lines: lines[:1],
        "the end: seq 10 to 12 are missing",
    ),
    "the last file is empty": (LAST, lambda _lines: [], "the end: seq 9 to 12 are missing"),
    "two lines changed places": (
        MIDDLE,
        lambda lines: [lines[1], lines[0], *lines[2:]],
        "out of its order",
    ),
    "a line stands twice": (MIDDLE, lambda lines: [lines[0], *lines], "21.jsonl:2"),
    "a line was put in": (
        MIDDLE,
        lambda lines: [lines[0], *rehashed(lines[:1], ChainPosition(5, "0" * 64)), *lines[1:]],
        "21.jsonl:2",
    ),
    "a line in the middle was written anew": (
        MIDDLE,
        lambda lines: [
            lines[0],
            line_of(event("GET /forged"), ChainPosition(5, json.loads(lines[0])["hash"]))[0],
            *lines[2:],
        ],
        "21.jsonl:3 (seq 7) does not follow the line before it",
    ),
    "a word was put in": (
        MIDDLE,
        lambda lines: [lines[0], b"hello\n", *lines[1:]],
        "21.jsonl:2 is not a line of the audit",
    ),
    "an empty line was put in": (
        MIDDLE,
        lambda lines: [lines[0], b"\n", *lines[1:]],
        "21.jsonl:2 is not a line of the audit",
    ),
    "the middle is cut within a line": (
        MIDDLE,
        lambda lines: [*lines[:3], lines[3][:40]],
        "21.jsonl ends within a line",
    ),
    "the end is cut within a line": (
        LAST,
        lambda lines: [*lines[:3], lines[3][:40]],
        "the end: seq 12 is missing",
    ),
    "a line was added": (
        LAST,
        lambda lines: [
            *lines,
            line_of(event(), ChainPosition(12, json.loads(lines[-1])["hash"]))[0],
        ],
        "seq 13 to 13 were not written",
    ),
    "a day was written anew": (
        MIDDLE,
        lambda lines: rehashed(lines, ChainPosition(4, "0" * 64)),
        "does not follow",
    ),
    "the last day was written anew": (
        LAST,
        lambda lines: rehashed(lines, ChainPosition(8, "0" * 64)),
        "is not the line that this machine wrote",
    ),
    "bytes without an end were added": (
        LAST,
        lambda lines: [*lines, b"x"],
        "ends within a line, though nothing was being written",
    ),
    "it is all zeros": (
        MIDDLE,
        lambda lines: [b"\0" * sum(map(len, lines))],
        "21.jsonl ends within a line",
    ),
}


def test_what_was_written_holds(audit_rig):
    audit_rig.fill()

    verdict = audit_rig.verdict()

    assert (verdict.holds, verdict.lines, verdict.days, verdict.findings, verdict.notes) == (
        True,
        12,
        3,
        [],
        [],
    )
    assert verdict.last.seq == 12


@pytest.mark.parametrize("name", TAMPERING)
def test_what_was_done_to_the_lines_is_found_and_where(audit_rig, name):
    day, change, finding = TAMPERING[name]
    audit_rig.fill()
    changed(audit_rig, day, change)

    verdict = audit_rig.verdict()

    assert not verdict.holds
    assert any(finding in found for found in verdict.findings), verdict.findings


@pytest.mark.parametrize(
    ("day", "finding"),
    [
        ("2026-11-20", "seq 1 to 4 are missing"),
        (MIDDLE, "seq 5 to 8 are missing"),
        (LAST, "seq 9 to 12"),
    ],
)
def test_a_day_that_is_gone_is_found(audit_rig, day, finding):
    audit_rig.fill()
    audit_rig.file(day).unlink()

    assert any(finding in found for found in audit_rig.verdict().findings)


def test_all_days_gone_are_found(audit_rig):
    audit_rig.fill()
    for day in audit_rig.folder.days():
        audit_rig.folder.remove(day)

    assert audit_rig.verdict().findings == [
        "the end: seq 1 to 12 are missing, which this machine knows were written"
    ]


def test_a_day_with_another_days_lines_is_found(audit_rig):
    audit_rig.fill()
    audit_rig.file("2026-11-20").write_bytes(audit_rig.file(MIDDLE).read_bytes())

    assert any("is a line of another day" in found for found in audit_rig.verdict().findings)


def test_the_whole_audit_written_again_is_found_by_the_end_that_this_machine_knows(audit_rig):
    audit_rig.fill(days=1, lines=12)
    audit_rig.file().write_bytes(b"".join(rehashed(audit_rig.raw())))

    assert audit_rig.verdict().findings == [
        "the end: seq 12 is not the line that this machine wrote"
    ]


def test_what_was_done_is_still_found_after_the_daemon_went_on(audit_rig):
    audit_rig.fill()
    changed(audit_rig, LAST, lambda lines: lines[:-2])
    audit_rig.write(event("GET /later"))

    findings = audit_rig.verdict().findings

    assert any("seq 11 to 12 are missing" in found for found in findings)
    assert any(
        "the files end with seq 10, but seq 12 was written last" in found for found in findings
    )


def test_lines_that_were_added_are_still_found_after_the_daemon_went_on(audit_rig):
    audit_rig.fill()
    changed(audit_rig, LAST, TAMPERING["a line was added"][1])
    audit_rig.write(event("GET /later"))

    assert any(
        "the files end with seq 13, but seq 12 was written last" in found
        for found in audit_rig.verdict().findings
    )


def test_a_kill_within_the_writing_of_a_batch_is_known_and_no_harm(audit_rig):
    audit_rig.fill()
    known = audit_rig.head.read()
    audit_rig.head.write(
        ChainHead(sure=ChainPosition(10, str(audit_rig.lines()[1]["hash"])), begun=known.begun)
    )
    changed(audit_rig, LAST, lambda lines: [*lines[:2], lines[2][:100]])

    verdict = audit_rig.verdict()

    assert verdict.holds
    assert verdict.notes == [
        "the daemon was ended while it wrote seq 11 to 12, as by a kill",
        (
            "2026-11-22.jsonl ends within a line, which the daemon was writing; it is set aside at "
            "the next start"
        ),
    ]


def test_without_the_state_folder_the_chain_is_held_and_its_end_is_reported_to_be_unknown(
    audit_rig, tmp_path
):
    audit_rig.fill()
    audit_rig.head = ChainHeadFile(tmp_path / "none")

    verdict = audit_rig.verdict()

    assert verdict.holds
    assert verdict.notes == [
        "the state folder does not say where the chain ends, so a cut at its end could not be found"
    ]


def test_an_audit_that_no_one_began_holds(audit_rig):
    assert (audit_rig.verdict().holds, audit_rig.verdict().lines) == (True, 0)


def test_many_findings_are_cut_short(audit_rig):
    audit_rig.fill(days=1, lines=200)
    changed(audit_rig, LAST, lambda lines: [line.replace(b"GET", b"PUT") for line in lines])

    findings = audit_rig.verdict().findings

    assert len(findings) == 101
    assert findings[-1].startswith("and ")


def test_it_holds_while_the_daemon_goes_on_writing(audit_rig):
    log = audit_rig.open()
    for number in range(3000):
        log.record(event(f"GET /{number}", NOON))
        if number % 300 == 0:
            verdict = audit_rig.verdict()
            assert verdict.holds, verdict
