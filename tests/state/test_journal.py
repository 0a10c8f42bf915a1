from __future__ import annotations

import errno
import logging
import math
import os
import stat
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinydb import TinyDB, where

from parachuted.errors import StorageFailedError
from parachuted.state.journal import SYSTEM, Journal, JournalDisk, _line
from tests.state import faults

ROOT = Path(__file__).resolve().parents[2]


def put(journal: Journal, key: str, document: dict[str, object] | None) -> None:
    if document is None:
        journal.drop("t", key)
    else:
        journal.put("t", key, document)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.journal"


@pytest.fixture
def written(path: Path) -> list[dict[str, dict[str, object]]]:
    """A journal of seven batches, and what the table held after each."""
    journal = Journal(path)
    states: list[dict[str, dict[str, object]]] = [{}]
    for number, key in enumerate(("a", "b", "a", "c", "b", "a", "d")):
        put(journal, key, None if (number, key) == (4, "b") else {"n": number, "text": "ü\n"})
        states.append(dict(journal.of("t")))
    journal.close()
    return states


def test_what_was_appended_is_there_again_and_a_torn_last_line_is_dropped(path, written):
    assert Journal(path).of("t") == written[-1]
    path.write_bytes(path.read_bytes()[:-3])

    (problem,) = Journal(path).problems
    assert problem.startswith("state.journal ended within a line, as after a crash; those ")


def test_a_new_journal_and_its_folder_are_their_owners_alone(path):
    Journal(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_journal_cut_at_any_byte_holds_a_prefix_of_its_batches(path, written):
    data, whole_lines = path.read_bytes(), [0]
    for line in lines(path):
        whole_lines.append(whole_lines[-1] + len(line))
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        journal = Journal(path)
        batches = max(sum(end <= cut for end in whole_lines) - 2, 0)

        assert journal.of("t") == written[batches]
        assert bool(journal.problems) == (cut not in whole_lines or cut == 0)
        put(journal, "after", {"cut": cut})
        journal.close()
        assert Journal(path).of("t") == {**written[batches], "after": {"cut": cut}}
        assert Journal(path).problems == ()
        assert list(path.parent.iterdir()) == [path]


def test_a_garbled_line_is_set_aside_with_its_file_and_all_else_is_kept(path, written):
    damaged = lines(path)
    damaged[4] = b"\xff\x00\n"
    damaged[5] = damaged[5].replace(b'"b"', b'"d"')
    path.write_bytes(b"".join(damaged))
    journal = Journal(path)
    (aside,) = path.parent.glob("state.journal.garbled-*")

    assert aside.read_bytes() == b"".join(damaged)
    assert journal.problems == (
        (
            f"state.journal was set aside as {aside.name}: 2 of its 8 lines were unreadable, and "
            "the "
            "rest was kept"
        ),
    )
    assert journal.of("t") == {"a": written[6]["a"], "b": written[2]["b"], "d": written[7]["d"]}
    assert Journal(path).problems == ()


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "no links here")


@pytest.mark.parametrize("disk", [SYSTEM, replace(SYSTEM, link=no_links)], ids=["links", "copies"])
def test_a_second_garbled_file_does_not_replace_the_first(path, written, disk):
    for noise in (b"first\n", b"second\n"):
        path.write_bytes(noise)
        Journal(path, disk=disk).close()

    aside = sorted(aside.read_bytes() for aside in path.parent.glob("*.garbled-*"))
    assert aside == [b"first\n", b"second\n"]


@pytest.mark.parametrize(
    "content",
    [
        '["t"]',
        "[[1,2]]",
        "17",
        "{}",
        "[" * 100_000,
        '[["t",[],{}]]',
        '[["t","a"]]',
        '[["t","z",1]]',
    ],
)
def test_a_line_of_the_wrong_shape_never_stops_the_opening(path, written, content):
    with path.open("ab") as file:
        file.write(_line(content))

    journal = Journal(path)
    assert journal.read() == {"t": written[-1]}
    assert "1 of its 9 lines" in journal.problems[0]


def test_a_newer_format_is_set_aside_untouched(path, written):
    newer = path.read_bytes().replace(lines(path)[0], _line('{"format": 2}'))
    path.write_bytes(newer)
    journal = Journal(path)
    (aside,) = path.parent.glob("*.garbled-*")

    assert aside.read_bytes() == newer
    assert journal.read() == {}
    assert "a newer version" in journal.problems[0]


@given(
    garbage=st.binary(min_size=1, max_size=80),
    part=st.floats(0, 1, exclude_max=True),
    whole=st.booleans(),
)
def test_random_garbage_never_stops_the_opening_and_is_reported(
    tmp_path_factory, garbage, part, whole
):
    path = tmp_path_factory.mktemp("garbage") / "state.journal"
    journal = Journal(path)
    for key in "abcdef":
        put(journal, key, {"key": key})
    journal.close()
    data, at = path.read_bytes(), int(part * path.stat().st_size)
    path.write_bytes(garbage if whole else data[:at] + garbage + data[at + len(garbage) :])
    changed = path.read_bytes() != data
    hurt = Journal(path)

    assert bool(hurt.problems) >= changed
    assert all(document == {"key": key} for key, document in hurt.of("t").items())
    put(hurt, "z", {"key": "z"})
    hurt.close()
    assert Journal(path).of("t")["z"] == {"key": "z"}
    assert Journal(path).problems == ()


def test_a_failed_sync_counts_as_not_written_and_all_is_written_again(path, written):
    failing = [True]

    def sync(fd: int) -> None:
        os.fdatasync(fd)
        if failing.pop() if failing else False:
            raise OSError(errno.EIO, "a bad disk")

    journal = Journal(path, disk=replace(SYSTEM, fdatasync=sync))
    first = path.stat().st_ino
    with pytest.raises(
        StorageFailedError, match=r"the disk refused state\.journal: a bad disk"
    ) as failure:
        put(journal, "a", {"lost": True})

    assert failure.value.errno == errno.EIO
    assert Journal(path).of("t") == written[-1]
    put(journal, "e", {"kept": True})
    assert Journal(path).of("t") == {**written[-1], "e": {"kept": True}}
    assert path.stat().st_ino != first


FILLED = """
import resource, sys
from pathlib import Path
from parachuted.errors import StorageFailedError
from parachuted.state import open_state

path = Path(sys.argv[1])
state = open_state(path)
table = state.table("t")
table.put("a", {"n": 1})
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
try:
    table.put("big", {"text": "x" * 1000})
except StorageFailedError as error:
    print(error.errno, error, sep="|")
assert table.get_record("big") is None
assert path.stat().st_size == size
table.put("b", {"n": 2})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
table.put("big", {"text": "y"})
"""


def test_a_file_that_may_not_grow_takes_smaller_changes(path):
    reported = subprocess.run(
        [sys.executable, "-c", FILLED, path],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert reported == f"{errno.EFBIG}|the disk refused state.journal: File too large\n"
    assert Journal(path).of("t") == {"a": {"n": 1}, "b": {"n": 2}, "big": {"text": "y"}}


def test_killed_at_every_system_call_it_loses_no_acknowledged_batch(tmp_path, torture):
    size = "500" if torture else "30"
    run = subprocess.run(
        [sys.executable, "-m", faults.__name__, tmp_path, size],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert run.stderr == ""
    assert int(run.stdout) > 3 * int(size)
    print(f"killed at {run.stdout.strip()} system calls")  # noqa: T201


@pytest.mark.parametrize("midway", [False, True], ids=["instead", "midway"])
@pytest.mark.parametrize("times", [1, 2, math.inf], ids=["once", "twice", "for good"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE])
def test_with_any_call_failing_memory_and_disk_hold_what_was_acknowledged(
    tmp_path, torture, number, times, midway
):
    size = 300 if torture else 12

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    struck, at = True, 0
    while struck:
        at += 1
        path = tmp_path / f"{at}"
        fault = faults.Faults(at, fail, times=times, midway=midway)
        done, memory = faults.work_through(path, fault, size)
        struck = fault.struck

        assert memory == faults.after(done)
        more = [faults.after(done + 1)] if times == math.inf else []
        assert faults.held(path) in [memory, *more]
        assert done == size or times == math.inf
        assert list(tmp_path.iterdir()) == [path]
        path.unlink()
    assert at > 2 * size


def test_writing_again_syncs_the_file_before_it_takes_the_name(path):
    calls = []

    def reported(name):
        def call(*arguments):
            calls.append(name)
            return getattr(SYSTEM, name)(*arguments)

        return call

    journal = Journal(
        path,
        disk=JournalDisk(**{field.name: reported(field.name) for field in fields(JournalDisk)}),
    )
    put(journal, "a", {})

    assert calls == ["open", "write", "fsync", "replace", "open", "fsync", "write", "fdatasync"]


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "opened after a crash"])
def test_what_is_dead_goes_when_the_file_is_closed_or_opened(path, is_closed):
    journal = Journal(path)
    for number in range(2000):
        put(journal, "a", {"n": number})
    before = path.stat().st_size
    if is_closed:
        journal.close()
        assert path.stat().st_size < before / 10

    assert Journal(path).of("t") == {"a": {"n": 1999}}
    assert path.stat().st_size < before / 10


def test_past_the_high_water_mark_the_file_is_written_again(path):
    journal = Journal(path, high_water=1000)
    for number in range(300):
        put(journal, "a", {"n": number})

    assert path.stat().st_size <= 1000 + 100
    assert Journal(path).of("t") == {"a": {"n": 299}}


def test_a_compaction_that_fails_is_logged_and_fails_no_change(path, caplog):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    Journal(path).close()
    journal = Journal(path, disk=replace(SYSTEM, replace=refuse), high_water=200)
    descriptors = sum(1 for _ in Path("/dev/fd").iterdir())
    with caplog.at_level(logging.WARNING):
        put(journal, "a", {"text": "x" * 300})

    assert [record.getMessage() for record in caplog.records] == [
        "the state could not be compacted"
    ]
    assert sum(1 for _ in Path("/dev/fd").iterdir()) == descriptors
    assert list(path.parent.iterdir()) == [path]
    assert Journal(path).of("t") == {"a": {"text": "x" * 300}}


def test_a_compaction_whose_folder_was_not_synced_is_done_again(path):
    syncs = [None, OSError(errno.EIO, "bad"), None, None]

    def sync(_: int) -> None:
        if error := syncs.pop(0):
            raise error

    Journal(path).close()
    journal = Journal(path, disk=replace(SYSTEM, fsync=sync), high_water=200)
    put(journal, "a", {"text": "x" * 300})
    compacted = path.stat().st_ino
    put(journal, "b", {})

    assert path.stat().st_ino != compacted
    assert Journal(path).of("t") == {"a": {"text": "x" * 300}, "b": {}}


def test_a_compaction_cut_off_leaves_no_temporary_file_at_the_next_opening(path, written):
    path.with_name("state.journal.tmp").write_bytes(b"half")
    Journal(path)

    assert list(path.parent.iterdir()) == [path]


def test_a_closed_journal_takes_no_more_and_a_place_without_a_file_is_said(path, tmp_path):
    journal = Journal(path)
    journal.close()
    journal.close()
    with pytest.raises(StorageFailedError, match="closed"):
        put(journal, "a", {})

    (tmp_path / "folder.journal").mkdir()
    with pytest.raises(StorageFailedError, match=r"the disk refused folder\.journal"):
        Journal(tmp_path / "folder.journal")


@pytest.fixture
def records(path: Path) -> Journal:
    return Journal(path)


def on_disk(path: Path) -> dict[str, object]:
    return {name: table for name, table in Journal(path).read().items() if table}


def test_a_batch_is_one_line_with_the_last_word_on_each_key(records, path):
    before = len(lines(path))
    with records.batch():
        records.put("t", "a", {"n": 1})
        records.put("t", "a", {"n": 2})
        records.put("u", "b", {})
        records.drop("u", "b")
        assert on_disk(path) == {}

    assert len(lines(path)) == before + 1
    assert on_disk(path) == {"t": {"a": {"n": 2}}}


def test_a_batch_that_raises_leaves_everything_as_it_was(records, path):
    records.put("t", "a", {"n": 1})
    records.put("t", "b", {"n": 1})
    size = path.stat().st_size
    with pytest.raises(ZeroDivisionError), records.batch():  # noqa: PT012
        records.put("t", "a", {"n": 2})
        records.drop("t", "b")
        records.put("t", "c", {})
        raise ZeroDivisionError

    assert records.of("t") == {"a": {"n": 1}, "b": {"n": 1}}
    assert path.stat().st_size == size


def test_an_inner_batch_that_raises_undoes_its_own_part_only(records, path):
    with records.batch():
        records.put("t", "a", {"n": 1})
        with pytest.raises(ZeroDivisionError), records.batch():  # noqa: PT012
            records.put("t", "a", {"n": 2})
            records.put("t", "b", {"n": 2})
            raise ZeroDivisionError
        records.put("t", "c", {"n": 3})

    assert records.of("t") == {"a": {"n": 1}, "c": {"n": 3}}
    assert on_disk(path) == {"t": {"a": {"n": 1}, "c": {"n": 3}}}


def test_memory_holds_what_a_reload_would_give(records, path):
    records.put("t", "é\n\udcff", {"pair": (1, 2), 3: None, "text": "\u2028\udcfe\0"})

    assert records.of("t") == {"é\n\udcff": {"pair": [1, 2], "3": None, "text": "\u2028\udcfe\0"}}
    assert on_disk(path) == {"t": records.of("t")}


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", object()])
def test_what_is_not_json_is_refused_and_changes_nothing(records, path, value):
    records.put("t", "a", {"n": 1})
    with pytest.raises((TypeError, ValueError)):
        records.put("t", "a", {"value": value})

    assert records.of("t") == {"a": {"n": 1}}


def test_writing_what_is_there_and_dropping_what_is_not_writes_nothing(records, path):
    records.put("t", "a", {"n": 1})
    size = path.stat().st_size
    records.put("t", "a", {"n": 1})
    assert not records.drop("t", "b")

    assert path.stat().st_size == size
    records.put("t", "a", {"n": True})
    assert on_disk(path)["t"]["a"]["n"] is True


def test_a_caller_who_changes_a_document_later_changes_no_record(records):
    document = {"list": [1]}
    records.put("t", "a", document)
    document["list"].append(2)
    records.read()["t"]["a"]["list"].append(3)

    assert records.of("t") == {"a": {"list": [1]}}


def test_a_tinydb_with_its_own_tables_works_on_it_too(path):
    with TinyDB(storage=lambda: Journal(path)) as database:
        database.insert_multiple([{"n": 1}, {"n": 2}])
        database.update({"n": 3}, where("n") == 2)
        database.table("gone").insert({})
        database.drop_table("gone")

    assert on_disk(path) == {"_default": {"1": {"n": 1}, "2": {"n": 3}}}
