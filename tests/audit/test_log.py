"""The audit's life: batches, days, refusing disks, kills; each run of it ends with a look whether
it holds.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from parachuted.audit.chain import ChainPosition
from parachuted.audit.files import AuditFolder, ChainHead
from parachuted.audit.log import AuditBatching
from tests.audit.audit_rig import NOON, AuditRig, event

DAY = timedelta(days=1)
ROOT = Path(__file__).resolve().parents[2]


def endpoints(audit_rig: AuditRig, day: str = "2026-11-22") -> list[str]:
    return [str(line["target_endpoint"]) for line in audit_rig.lines(day)]


def reported(audit_rig: AuditRig, endpoint: str) -> list[str]:
    return [
        str(line["error"])
        for day in audit_rig.folder.days()
        for line in audit_rig.lines(day)
        if line["target_endpoint"] == endpoint
    ]


def test_what_is_recorded_stands_in_the_days_file_soon_after(audit_rig):
    log = audit_rig.open()

    log.record(event("GET /api/health"))

    audit_rig.until(
        lambda: audit_rig.file().exists() and endpoints(audit_rig) == ["GET /api/health"]
    )


def test_all_is_written_when_it_ends(audit_rig):
    log = audit_rig.open(pace=AuditBatching(gather_s=60))
    for number in range(1000):
        log.record(event(f"GET /{number}"))
    log.close()

    assert endpoints(audit_rig) == [f"GET /{number}" for number in range(1000)]
    assert audit_rig.verdict().holds


def test_a_flush_waits_for_what_was_recorded_before(audit_rig):
    log = audit_rig.open(pace=AuditBatching(gather_s=60))
    log.record(event("GET /a"))

    assert log.flush()
    assert endpoints(audit_rig) == ["GET /a"]


def test_the_chain_goes_on_over_lives_and_days(audit_rig):
    for number in range(4):
        audit_rig.write(event(f"GET /{number}", NOON + number * DAY))

    assert audit_rig.folder.days() == ["2026-11-22", "2026-11-23", "2026-11-24", "2026-11-25"]
    assert [audit_rig.lines(day)[0]["seq"] for day in audit_rig.folder.days()] == [1, 2, 3, 4]
    assert audit_rig.lines("2026-11-23")[0]["prev"] == audit_rig.lines("2026-11-22")[0]["hash"]
    assert audit_rig.verdict().holds


def test_midnight_falls_between_two_lines_of_one_batch(audit_rig):
    before = NOON.replace(hour=23, minute=59, second=59, microsecond=999_999)
    audit_rig.write(event("old", before), event("new", before + timedelta(microseconds=1)))

    assert endpoints(audit_rig, "2026-11-22") == ["old"]
    assert endpoints(audit_rig, "2026-11-23") == ["new"]
    assert audit_rig.verdict().holds


def test_a_clock_that_is_set_back_and_forth_breaks_nothing(audit_rig):
    audit_rig.write(
        *(event(f"GET /{days}", NOON + days * DAY) for days in (0, 1, 0, -400, 3650, 0, 1))
    )

    assert audit_rig.verdict().holds
    assert audit_rig.verdict().lines == 7


def test_an_event_that_cannot_be_published_keeps_no_other_from_being_published(audit_rig, caplog):
    audit_rig.write(event("a"), event("b", duration_ms="long"), event("c"))

    assert endpoints(audit_rig) == ["a", "c"]
    assert "could not be recorded" in caplog.text
    assert audit_rig.verdict().holds


def test_many_threads_record_and_none_is_lost(audit_rig):
    log = audit_rig.open()

    def work(name: int) -> None:
        for number in range(300):
            log.record(event(f"{name}/{number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()

    assert sorted(endpoints(audit_rig)) == sorted(
        f"{name}/{number}" for name in range(8) for number in range(300)
    )
    assert audit_rig.verdict().holds


def test_recording_waits_for_nothing(audit_rig):
    log = audit_rig.open(pace=AuditBatching(gather_s=60, batch=100_000, most=100_000))
    one = event()
    began = time.process_time()
    for _ in range(10_000):
        log.record(one)

    assert (time.process_time() - began) / 10_000 < 100e-6  # 1 us on a quiet machine


def test_what_is_too_much_is_counted_and_the_count_is_reported(audit_rig):
    link = audit_rig.vault / ".parachute"
    link.symlink_to(audit_rig.home)
    log = audit_rig.open(pace=AuditBatching(gather_s=0.001, retry_s=0.02, most=10))
    for number in range(25):
        log.record(event(f"GET /{number}"))
    log.flush()
    assert "; 15 events were dropped" in log.trouble

    link.unlink()
    audit_rig.until(lambda: log.trouble is None)

    assert sorted(endpoints(audit_rig)) == sorted(
        ["audit.dropped", *(f"GET /{number}" for number in range(10))]
    )
    assert reported(audit_rig, "audit.dropped") == [
        "15 events dropped, since more came than could be written"
    ]
    assert audit_rig.verdict().holds


def test_a_hostile_link_is_reported_and_not_followed_and_the_vault_stays_writable(
    audit_rig, tmp_path
):
    (tmp_path / "elsewhere").mkdir()
    (audit_rig.vault / ".parachute").symlink_to(tmp_path / "elsewhere")
    log = audit_rig.open()

    log.record(event())
    log.flush()

    assert log.trouble.startswith("the audit cannot be written (")
    assert log.refusal is None
    assert list((tmp_path / "elsewhere").iterdir()) == []


class FullAuditFolder(AuditFolder):
    """A folder on a disk that is full until it is not."""

    number: int | None = errno.ENOSPC

    def append(self, day: str, data: bytes, *, durably: bool) -> bool:
        if self.number is not None:
            raise OSError(self.number, os.strerror(self.number))
        return super().append(day, data, durably=durably)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_while_the_disk_refuses_nothing_may_be_changed_and_it_recovers_by_itself(audit_rig, number):
    audit_rig.write(event("before"))
    audit_rig.folder = full = FullAuditFolder(audit_rig.folder._root, "")
    full.number = number
    log = audit_rig.open()
    for name in ("one", "two"):
        log.record(event(name))
    audit_rig.until(lambda: log.trouble is not None)
    assert (
        log.refusal
        == f"the vault is read-only, since the audit cannot be written: {os.strerror(number)}"
    )
    assert audit_rig.verdict().holds

    full.number = None
    audit_rig.until(lambda: log.trouble is None)

    assert log.refusal is None
    assert endpoints(audit_rig) == ["before", "one", "two"]
    assert audit_rig.verdict().holds


def test_a_vault_that_is_gone_for_a_while_gets_its_lines_when_it_is_back(audit_rig):
    log = audit_rig.open()
    log.record(event("one"))
    assert log.flush()
    away = audit_rig.vault.with_name("away")
    audit_rig.vault.rename(away)
    log.record(event("two"))
    assert not log.flush()

    away.rename(audit_rig.vault)
    audit_rig.until(lambda: log.trouble is None)

    assert endpoints(audit_rig) == ["one", "two"]


def test_a_line_that_a_kill_cut_is_set_aside_and_the_next_begins_its_own(audit_rig):
    audit_rig.write(event("one"), event("two"))
    lines = audit_rig.raw()
    first, second = (ChainPosition(line["seq"], line["hash"]) for line in audit_rig.lines())
    audit_rig.head.write(ChainHead(sure=first, begun=second))
    audit_rig.file().write_bytes(lines[0] + lines[1][:57])

    audit_rig.write(event("three"))

    assert audit_rig.logs[-1].broken is None
    assert endpoints(audit_rig) == ["one", "audit.cut", "three"]
    assert audit_rig.file().with_name("2026-11-22.torn-1").read_bytes() == lines[1][:57]
    verdict = audit_rig.verdict()
    assert verdict.holds
    assert verdict.notes == [
        (
            "2026-11-22, seq 2: a line that was cut short, as by a kill, stood at the end of "
            "2026-11-22.jsonl; set aside as 2026-11-22.torn-1"
        )
    ]


def test_bytes_that_someone_added_while_nothing_was_written_are_no_cut_by_a_kill(audit_rig):
    log = audit_rig.open()
    log.record(event("one"))
    assert log.flush()
    with audit_rig.file().open("ab") as file:
        file.write(b'{"seq":2,"forged')
    log.record(event("two"))
    log.close()

    assert "bytes that no line of the audit are stood at the end of 2026-11-22.jsonl" in log.broken
    assert endpoints(audit_rig) == ["one", "two", "audit.cut"]
    assert any(
        "bytes that no line of the audit are" in found for found in audit_rig.verdict().findings
    )


def test_lines_that_went_while_nothing_ran_are_found_at_the_start_before_anything_is_written(
    audit_rig,
):
    audit_rig.write(event("one"), event("two"))
    whole = audit_rig.open()
    whole.close()
    audit_rig.file().write_bytes(audit_rig.raw()[0])
    log = audit_rig.open()
    audit_rig.until(lambda: log.broken)
    log.close()

    assert whole.broken is None
    assert log.broken == (
        "it was changed after it was written; `parachute audit verify` says where: "
        "the files end with seq 1, but seq 2 was written last; what follows goes on from there"
    )


def test_the_state_folder_may_be_deleted_and_the_chain_goes_on(audit_rig):
    audit_rig.write(event("one"))
    (audit_rig.home / "audit.head").unlink()
    audit_rig.write(event("two"))

    assert [line["seq"] for line in audit_rig.lines()] == [1, 2]
    assert audit_rig.verdict().holds


def test_days_older_than_are_kept_are_removed_and_the_rest_still_holds(audit_rig):
    audit_rig.fill(days=5, lines=3)
    audit_rig.now = NOON + 2 * DAY
    audit_rig.write(event("now", audit_rig.now), keep_days=4)

    assert audit_rig.folder.days() == ["2026-11-20", "2026-11-21", "2026-11-22", "2026-11-24"]
    verdict = audit_rig.verdict()
    assert verdict.holds, verdict.findings
    assert reported(audit_rig, "audit.removed") == [
        "files of 2 days, 2026-11-18 to 2026-11-19, are older than 4 days and are removed"
    ]
    removed = next(
        line for line in audit_rig.lines("2026-11-24") if line["target_endpoint"] == "audit.removed"
    )
    assert removed["details"]["hash"] == audit_rig.lines("2026-11-20")[0]["prev"]


def test_a_day_more_that_someone_else_removed_is_found(audit_rig):
    audit_rig.fill(days=5, lines=3)
    audit_rig.write(event("now"), keep_days=3)
    audit_rig.file("2026-11-19").unlink()

    assert any("are missing before it" in found for found in audit_rig.verdict().findings)


def test_old_days_go_at_midnight_too_and_again_and_again(audit_rig):
    log = audit_rig.open(keep_days=2)
    for _ in range(6):
        log.record(event("GET /daily", audit_rig.now))
        assert log.flush()
        audit_rig.now += DAY

    assert len(audit_rig.folder.days()) == 3
    assert audit_rig.verdict().holds


def test_when_all_was_too_old_the_chain_still_holds(audit_rig):
    audit_rig.fill(days=3, lines=2)
    audit_rig.now = NOON + 1000 * DAY
    audit_rig.write(event("now", audit_rig.now), keep_days=90)
    audit_rig.write(event("later", audit_rig.now))

    assert audit_rig.folder.days() == [audit_rig.now.date().isoformat()]
    assert audit_rig.verdict().holds


def test_a_day_that_only_looks_old_since_the_clock_was_wrong_is_kept_as_long_as_what_was_before_it(
    audit_rig,
):
    audit_rig.write(event("one"), event("at boot", NOON.replace(year=1970)), event("two"))
    audit_rig.write(event("three"), keep_days=90)

    assert audit_rig.folder.days() == ["1970-11-22", "2026-11-22"]
    assert audit_rig.verdict().holds


def test_with_zero_days_all_is_kept_for_ever(audit_rig):
    audit_rig.fill(days=3, lines=2)
    audit_rig.now = NOON + 10_000 * DAY
    audit_rig.write(event("now", audit_rig.now), keep_days=0)

    assert len(audit_rig.folder.days()) == 4


def test_the_newest_record_of_a_write_is_remembered_when_its_line_stands(audit_rig):
    audit_rig.write(event(write=7), event(write=5))
    assert audit_rig.head.read().write == 7
    assert audit_rig.open().written == 7


KILLED = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from tests.audit.audit_rig import AuditBatching, AuditRig, event
audit_rig = AuditRig(vault=Path(sys.argv[1]), home=Path(sys.argv[2]))
log = audit_rig.open(pace=AuditBatching(gather_s=0, batch=16))
print("ready", flush=True)
for number in range(10_000_000):
    log.record(event(f"GET /{number}", paths=["x" * 300] * 8))
    if number % 50 == 0:
        time.sleep(0.001)
"""


def test_however_often_it_is_killed_while_it_writes_all_lines_parse_and_the_chain_holds(
    audit_rig, torture
):
    for number in range(200 if torture else 8):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, audit_rig.vault, audit_rig.home],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        assert child.stdout.readline() == b"ready\n"
        size = audit_rig.file().stat().st_size if audit_rig.file().exists() else 0
        audit_rig.until(
            lambda: audit_rig.file().exists() and audit_rig.file().stat().st_size > size + 20_000  # noqa: B023  waited for at once
        )
        time.sleep(number % 5 * 0.003)  # so that it is met at another place each time
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        verdict = audit_rig.verdict()
        assert verdict.holds, verdict.findings

    audit_rig.write(event("after all"))
    assert endpoints(audit_rig)[-1] == "after all"
    assert audit_rig.verdict().holds
    assert audit_rig.verdict().lines > 20
