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
from tests.audit.audits import NOON, Book, event

DAY = timedelta(days=1)
ROOT = Path(__file__).resolve().parents[2]


def endpoints(book: Book, day: str = "2026-11-22") -> list[str]:
    return [str(line["target_endpoint"]) for line in book.lines(day)]


def told(book: Book, endpoint: str) -> list[str]:
    return [
        str(line["error"])
        for day in book.folder.days()
        for line in book.lines(day)
        if line["target_endpoint"] == endpoint
    ]


def test_what_is_recorded_stands_in_the_days_file_soon_after(book):
    log = book.open()

    log.record(event("GET /api/health"))

    book.until(lambda: book.file().exists() and endpoints(book) == ["GET /api/health"])


def test_all_is_written_when_it_ends(book):
    log = book.open(pace=AuditBatching(gather_s=60))
    for number in range(1000):
        log.record(event(f"GET /{number}"))
    log.close()

    assert endpoints(book) == [f"GET /{number}" for number in range(1000)]
    assert book.verdict().holds


def test_a_flush_waits_for_what_was_recorded_before(book):
    log = book.open(pace=AuditBatching(gather_s=60))
    log.record(event("GET /a"))

    assert log.flush()
    assert endpoints(book) == ["GET /a"]


def test_the_chain_goes_on_over_lives_and_days(book):
    for number in range(4):
        book.write(event(f"GET /{number}", NOON + number * DAY))

    assert book.folder.days() == ["2026-11-22", "2026-11-23", "2026-11-24", "2026-11-25"]
    assert [book.lines(day)[0]["seq"] for day in book.folder.days()] == [1, 2, 3, 4]
    assert book.lines("2026-11-23")[0]["prev"] == book.lines("2026-11-22")[0]["hash"]
    assert book.verdict().holds


def test_midnight_falls_between_two_lines_of_one_batch(book):
    before = NOON.replace(hour=23, minute=59, second=59, microsecond=999_999)
    book.write(event("old", before), event("new", before + timedelta(microseconds=1)))

    assert endpoints(book, "2026-11-22") == ["old"]
    assert endpoints(book, "2026-11-23") == ["new"]
    assert book.verdict().holds


def test_a_clock_that_is_set_back_and_forth_breaks_nothing(book):
    book.write(*(event(f"GET /{days}", NOON + days * DAY) for days in (0, 1, 0, -400, 3650, 0, 1)))

    assert book.verdict().holds
    assert book.verdict().lines == 7


def test_an_event_that_cannot_be_told_keeps_no_other_from_being_told(book, caplog):
    book.write(event("a"), event("b", duration_ms="long"), event("c"))

    assert endpoints(book) == ["a", "c"]
    assert "could not be told" in caplog.text
    assert book.verdict().holds


def test_many_threads_record_and_none_is_lost(book):
    log = book.open()

    def work(name: int) -> None:
        for number in range(300):
            log.record(event(f"{name}/{number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()

    assert sorted(endpoints(book)) == sorted(
        f"{name}/{number}" for name in range(8) for number in range(300)
    )
    assert book.verdict().holds


def test_recording_waits_for_nothing(book):
    log = book.open(pace=AuditBatching(gather_s=60, batch=100_000, most=100_000))
    one = event()
    began = time.process_time()
    for _ in range(10_000):
        log.record(one)

    assert (time.process_time() - began) / 10_000 < 20e-6  # 1 us on a quiet machine


def test_what_is_too_much_is_counted_and_the_count_is_told(book):
    link = book.vault / ".parachute"
    link.symlink_to(book.home)
    log = book.open(pace=AuditBatching(gather_s=0.001, retry_s=0.02, most=10))
    for number in range(25):
        log.record(event(f"GET /{number}"))
    log.flush()
    assert "; 15 events were dropped" in log.trouble

    link.unlink()
    book.until(lambda: log.trouble is None)

    assert sorted(endpoints(book)) == sorted(
        ["audit.dropped", *(f"GET /{number}" for number in range(10))]
    )
    assert told(book, "audit.dropped") == [
        "15 events dropped, since more came than could be written"
    ]
    assert book.verdict().holds


def test_a_hostile_link_is_told_and_not_followed_and_the_vault_stays_writable(book, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (book.vault / ".parachute").symlink_to(tmp_path / "elsewhere")
    log = book.open()

    log.record(event())
    log.flush()

    assert log.trouble.startswith("the audit cannot be written (")
    assert log.refusal is None
    assert list((tmp_path / "elsewhere").iterdir()) == []


class Full(AuditFolder):
    """A folder on a disk that is full until it is not."""

    number: int | None = errno.ENOSPC

    def append(self, day: str, data: bytes, *, durably: bool) -> bool:
        if self.number is not None:
            raise OSError(self.number, os.strerror(self.number))
        return super().append(day, data, durably=durably)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_while_the_disk_refuses_nothing_may_be_changed_and_it_recovers_by_itself(book, number):
    book.write(event("before"))
    book.folder = full = Full(book.folder._root, "")
    full.number = number
    log = book.open()
    for name in ("one", "two"):
        log.record(event(name))
    book.until(lambda: log.trouble is not None)
    assert (
        log.refusal
        == f"the vault is read-only, since the audit cannot be written: {os.strerror(number)}"
    )
    assert book.verdict().holds

    full.number = None
    book.until(lambda: log.trouble is None)

    assert log.refusal is None
    assert endpoints(book) == ["before", "one", "two"]
    assert book.verdict().holds


def test_a_vault_that_is_gone_for_a_while_gets_its_lines_when_it_is_back(book):
    log = book.open()
    log.record(event("one"))
    assert log.flush()
    away = book.vault.with_name("away")
    book.vault.rename(away)
    log.record(event("two"))
    assert not log.flush()

    away.rename(book.vault)
    book.until(lambda: log.trouble is None)

    assert endpoints(book) == ["one", "two"]


def test_a_line_that_a_kill_cut_is_set_aside_and_the_next_begins_its_own(book):
    book.write(event("one"), event("two"))
    lines = book.raw()
    first, second = (ChainPosition(line["seq"], line["hash"]) for line in book.lines())
    book.head.write(ChainHead(sure=first, begun=second))
    book.file().write_bytes(lines[0] + lines[1][:57])

    book.write(event("three"))

    assert book.logs[-1].broken is None
    assert endpoints(book) == ["one", "audit.cut", "three"]
    assert book.file().with_name("2026-11-22.torn-1").read_bytes() == lines[1][:57]
    verdict = book.verdict()
    assert verdict.holds
    assert verdict.notes == [
        (
            "2026-11-22, seq 2: a line that was cut short, as by a kill, stood at the end of "
            "2026-11-22.jsonl; set aside as 2026-11-22.torn-1"
        )
    ]


def test_bytes_that_someone_added_while_nothing_was_written_are_no_cut_by_a_kill(book):
    log = book.open()
    log.record(event("one"))
    assert log.flush()
    with book.file().open("ab") as file:
        file.write(b'{"seq":2,"forged')
    log.record(event("two"))
    log.close()

    assert "bytes that no line of the audit are stood at the end of 2026-11-22.jsonl" in log.broken
    assert endpoints(book) == ["one", "two", "audit.cut"]
    assert any("bytes that no line of the audit are" in found for found in book.verdict().findings)


def test_lines_that_went_while_nothing_ran_are_found_at_the_start_before_anything_is_written(book):
    book.write(event("one"), event("two"))
    whole = book.open()
    whole.close()
    book.file().write_bytes(book.raw()[0])
    log = book.open()
    book.until(lambda: log.broken)
    log.close()

    assert whole.broken is None
    assert log.broken == (
        "it is not as it was written, `parachute audit verify` says where: "
        "the files end with seq 1, but seq 2 was written last; what follows goes on from there"
    )


def test_the_state_folder_may_be_deleted_and_the_chain_goes_on(book):
    book.write(event("one"))
    (book.home / "audit.head").unlink()
    book.write(event("two"))

    assert [line["seq"] for line in book.lines()] == [1, 2]
    assert book.verdict().holds


def test_days_older_than_are_kept_are_removed_and_the_rest_still_holds(book):
    book.fill(days=5, lines=3)
    book.now = NOON + 2 * DAY
    book.write(event("now", book.now), keep_days=4)

    assert book.folder.days() == ["2026-11-20", "2026-11-21", "2026-11-22", "2026-11-24"]
    verdict = book.verdict()
    assert verdict.holds, verdict.findings
    assert told(book, "audit.removed") == [
        "files of 2 days, 2026-11-18 to 2026-11-19, are older than 4 days and are removed"
    ]
    removed = next(
        line for line in book.lines("2026-11-24") if line["target_endpoint"] == "audit.removed"
    )
    assert removed["details"]["hash"] == book.lines("2026-11-20")[0]["prev"]


def test_a_day_more_that_someone_else_removed_is_found(book):
    book.fill(days=5, lines=3)
    book.write(event("now"), keep_days=3)
    book.file("2026-11-19").unlink()

    assert any("are missing before it" in found for found in book.verdict().findings)


def test_old_days_go_at_midnight_too_and_again_and_again(book):
    log = book.open(keep_days=2)
    for _ in range(6):
        log.record(event("GET /daily", book.now))
        assert log.flush()
        book.now += DAY

    assert len(book.folder.days()) == 3
    assert book.verdict().holds


def test_when_all_was_too_old_the_chain_still_holds(book):
    book.fill(days=3, lines=2)
    book.now = NOON + 1000 * DAY
    book.write(event("now", book.now), keep_days=90)
    book.write(event("later", book.now))

    assert book.folder.days() == [book.now.date().isoformat()]
    assert book.verdict().holds


def test_a_day_that_only_looks_old_since_the_clock_was_wrong_is_kept_as_long_as_what_was_before_it(
    book,
):
    book.write(event("one"), event("at boot", NOON.replace(year=1970)), event("two"))
    book.write(event("three"), keep_days=90)

    assert book.folder.days() == ["1970-11-22", "2026-11-22"]
    assert book.verdict().holds


def test_with_zero_days_all_is_kept_for_ever(book):
    book.fill(days=3, lines=2)
    book.now = NOON + 10_000 * DAY
    book.write(event("now", book.now), keep_days=0)

    assert len(book.folder.days()) == 4


def test_the_newest_record_of_a_write_is_remembered_when_its_line_stands(book):
    book.write(event(write=7), event(write=5))
    assert book.head.read().write == 7
    assert book.open().written == 7


KILLED = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from tests.audit.audits import AuditBatching, Book, event
book = Book(vault=Path(sys.argv[1]), home=Path(sys.argv[2]))
log = book.open(pace=AuditBatching(gather_s=0, batch=16))
print("ready", flush=True)
for number in range(10_000_000):
    log.record(event(f"GET /{number}", paths=["x" * 300] * 8))
    if number % 50 == 0:
        time.sleep(0.001)
"""


def test_however_often_it_is_killed_while_it_writes_all_lines_parse_and_the_chain_holds(
    book, torture
):
    for number in range(200 if torture else 8):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, book.vault, book.home], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert child.stdout.readline() == b"ready\n"
        size = book.file().stat().st_size if book.file().exists() else 0
        book.until(lambda: book.file().exists() and book.file().stat().st_size > size + 20_000)  # noqa: B023  waited for at once
        time.sleep(number % 5 * 0.003)  # so that it is met at another place each time
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        verdict = book.verdict()
        assert verdict.holds, verdict.findings

    book.write(event("after all"))
    assert endpoints(book)[-1] == "after all"
    assert book.verdict().holds
    assert book.verdict().lines > 20
