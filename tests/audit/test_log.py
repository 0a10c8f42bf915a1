"""The audit's life: batches, days, refusing disks, kills."""

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

from parachuted.audit.chain import NullAuditRecorder
from parachuted.audit.files import AuditFolder, ChainHead
from tests.audit.audit_rig import NOON, AuditRig, event

DAY = timedelta(days=1)
ROOT = Path(__file__).resolve().parents[2]


def endpoints(rig: AuditRig, day: str = "2026-11-22") -> list[str]:
    return [str(line["target_endpoint"]) for line in rig.lines(day)]


def test_all_that_many_threads_record_is_written_in_its_order(rig):
    log = rig.open()

    def work(name: int) -> None:
        for number in range(300):
            log.record(event(f"{name}/{number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    rig.until(rig.file().exists)  # without a flush
    for thread in threads:
        thread.join()
    log.close()

    found = endpoints(rig)
    for name in range(8):
        assert [one for one in found if one.startswith(f"{name}/")] == [
            f"{name}/{number}" for number in range(300)
        ]
    assert rig.verdict().holds
    assert len(found) == 2400


def test_a_flush_writes_what_was_recorded_before(rig):
    log = rig.open(gather_s=60)
    log.record(event("GET /a"))

    assert log.flush()
    assert endpoints(rig) == ["GET /a"]
    assert NullAuditRecorder.refusal is None


def test_the_chain_goes_on_over_lives_days_and_a_lost_state_folder(rig):
    before = NOON.replace(hour=23, minute=59, second=59, microsecond=999_999)
    rig.write(event("old", before), event("new", before + timedelta(microseconds=1)))
    (rig.home / "audit.head").unlink()
    for days in (2, 3, 0, -400, 3650, 0):  # a clock that is set
        rig.write(event(f"GET /{days}", NOON + days * DAY))

    assert endpoints(rig, "2026-11-22") == ["old", "GET /0", "GET /0"]
    assert endpoints(rig, "2026-11-23") == ["new"]
    assert rig.lines("2026-11-23")[0]["prev"] == rig.lines("2026-11-22")[0]["hash"]
    assert rig.verdict().holds
    assert rig.verdict().lines == 8


def test_an_event_that_cannot_be_written_keeps_no_other_from_it(rig, caplog):
    rig.write(event("a"), event("b", duration_ms="long"), event("c"))

    assert endpoints(rig) == ["a", "c"]
    assert "could not be recorded" in caplog.text
    assert rig.verdict().holds


def test_a_hostile_link_is_not_followed_and_what_is_too_much_is_counted(rig, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = rig.vault / ".parachute"
    link.symlink_to(tmp_path / "elsewhere")
    log = rig.open(most_waiting=10)
    for number in range(25):
        log.record(event(f"GET /{number}"))
    assert not log.flush()
    assert log.trouble.startswith("the audit cannot be written (")
    assert log.trouble.endswith("; 15 events were dropped")
    assert log.refusal is None

    link.unlink()
    assert log.flush()

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert endpoints(rig) == ["audit.dropped", *(f"GET /{number}" for number in range(10))]
    assert rig.lines()[0]["error"] == ("15 events dropped, since more came than could be written")
    assert rig.verdict().holds


class FullAuditFolder(AuditFolder):
    """A folder on a disk that is full until it is not."""

    number: int | None = errno.ENOSPC

    def append(self, day: str, lines: bytes, *, durably: bool) -> None:
        if self.number is not None:
            raise OSError(self.number, os.strerror(self.number))
        super().append(day, lines, durably=durably)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_while_the_disk_refuses_nothing_may_be_changed(rig, monkeypatch, number):
    monkeypatch.setattr("parachuted.audit.log._RETRY_S", 0.05)
    rig.write(event("before"))
    rig.folder = full = FullAuditFolder(rig.folder._root, "laptop")
    full.number = number
    log = rig.open()
    for name in ("one", "two"):
        log.record(event(name))
    rig.until(lambda: log.trouble is not None)
    assert log.refusal == (
        f"the vault is read-only, since the audit cannot be written: {os.strerror(number)}"
    )
    assert rig.verdict().holds

    full.number = None
    rig.until(lambda: log.trouble is None)  # by itself

    assert log.refusal is None
    assert endpoints(rig) == ["before", "one", "two"]
    assert rig.verdict().holds


def test_a_vault_that_is_gone_for_a_while_gets_its_lines_later(rig):
    log = rig.open()
    log.record(event("one"))
    assert log.flush()
    away = rig.vault.with_name("away")
    rig.vault.rename(away)
    log.record(event("two"))
    assert not log.flush()

    away.rename(rig.vault)
    assert log.flush()

    assert endpoints(rig) == ["one", "two"]


@pytest.mark.parametrize("cut", [1, 5, 57, -1])
def test_a_line_that_a_kill_cut_is_ended_and_named_by_verify(rig, cut):
    rig.write(event("one"))
    head = rig.head.read()
    rig.write(event("two"))
    first, second = rig.raw()
    rig.head.write(ChainHead(sure=head.sure, pending=rig.head.read().pending))
    rig.file().write_bytes(first + second[:cut])
    is_whole = cut == -1  # all but the end of the line
    assert rig.verdict().holds

    rig.write(event("three"))

    lines = rig.raw()
    assert lines[1] == second[:cut] + b"\n"
    assert rig.logs[-1].broken is None
    verdict = rig.verdict()
    assert verdict.holds
    assert verdict.last_seq == (3 if is_whole else 2)
    assert verdict.notes == (
        [] if is_whole else ["2026-11-22.laptop.jsonl:2 was cut short, as by a kill"]
    )


def test_where_the_chain_will_end_is_kept_before_lines_are_written(rig):
    heads = []

    class WatchedFolder(AuditFolder):
        def append(self, day: str, lines: bytes, *, durably: bool) -> None:
            heads.append(rig.head.read())
            super().append(day, lines, durably=durably)

    rig.folder = WatchedFolder(rig.folder._root, "laptop")
    rig.write(event("one"), event("two"))

    assert all(head.sure.seq < head.pending.seq for head in heads)
    assert heads[-1].pending.seq == 2
    assert rig.head.read().sure.seq == 2


def test_lines_that_went_while_nothing_ran_are_found_at_the_start(rig):
    rig.write(event("one"), event("two"))
    rig.file().write_bytes(rig.raw()[0])
    log = rig.open()
    rig.until(lambda: log.broken)
    log.close()

    assert log.broken == (
        "it was changed after it was written; `parachute audit verify` says where: "
        "the files end with seq 1, but seq 2 was written last"
    )


def test_days_older_than_are_kept_are_removed_and_the_rest_still_holds(rig):
    rig.fill(days=5, lines=3)
    rig.now = NOON + 2 * DAY
    log = rig.open(keep_days=4)
    log.record(event("now", rig.now))
    assert log.flush()

    assert sorted(file.name for file in rig.file().parent.iterdir()) == [
        f"2026-11-{day}.laptop.jsonl" for day in (20, 21, 22, 24)
    ]
    assert rig.verdict().holds, rig.verdict().findings
    (note,) = rig.verdict().notes
    assert "files of 2 days, 2026-11-18 to 2026-11-19, are older than 4 days" in note
    removed = rig.lines("2026-11-24")[0]["details"]
    assert removed == {"through": 6, "hash": rig.lines("2026-11-20")[0]["prev"]}

    for _ in range(6):  # at midnight too, again and again, until all of the above is too old
        rig.now += DAY
        log.record(event("daily", rig.now))
        assert log.flush()
    assert rig.folder.days()[0] == "2026-11-26"
    assert rig.verdict().holds

    rig.file("2026-11-26").unlink()
    assert any("are missing" in found for found in rig.verdict().findings)


@pytest.mark.parametrize(("keep_days", "days"), [(0, 4), (90, 1)])
def test_when_all_is_too_old_the_chain_still_holds(rig, keep_days, days):
    rig.fill(days=3, lines=2)
    rig.now = NOON + 1000 * DAY
    rig.write(event("now", rig.now), keep_days=keep_days)
    rig.write(event("later", rig.now))

    assert len(rig.folder.days()) == days
    assert rig.verdict().holds


def test_a_day_that_only_looks_old_is_kept_with_what_was_before_it(rig):
    rig.write(event("one"), event("at boot", NOON.replace(year=1970)), event("two"))
    rig.write(event("three"), keep_days=90)

    assert rig.folder.days() == ["1970-11-22", "2026-11-22"]
    assert rig.verdict().holds


def test_the_newest_record_of_a_write_is_remembered(rig):
    rig.write(event(write=7), event(write=5))
    assert rig.head.read().write == 7
    assert rig.open().written == 7


KILLED = """
import sys, time
from pathlib import Path
from tests.audit.audit_rig import AuditRig, event
rig = AuditRig(vault=Path(sys.argv[1]), home=Path(sys.argv[2]))
log = rig.open(gather_s=0)
print("ready", flush=True)
for number in range(10_000_000):
    log.record(event(f"GET /{number}", paths=["x" * 300] * 8))
    if number % 50 == 0:
        time.sleep(0.001)
"""


def test_however_often_it_is_killed_while_it_writes_the_chain_holds(rig, torture):
    for number in range(200 if torture else 3):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, rig.vault, rig.home], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert child.stdout.readline() == b"ready\n"
        size = rig.file().stat().st_size if rig.file().exists() else 0
        rig.until(
            lambda: rig.file().exists() and rig.file().stat().st_size > size + 20_000  # noqa: B023  waited for at once
        )
        time.sleep(number % 5 * 0.003)  # so that it is met at another place each time
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        verdict = rig.verdict()
        assert verdict.holds, verdict.findings

    rig.write(event("after all"))
    assert b"after all" in rig.raw()[-1]
    assert rig.verdict().holds
    assert rig.verdict().lines > 20
