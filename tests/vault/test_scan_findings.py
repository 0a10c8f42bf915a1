"""Seen: a note is read so that no change to it is missed, and nothing that is being written is
taken as it is.
"""

from __future__ import annotations

import os
import time

import pytest

from parachuted.vault.index import IndexEntry
from parachuted.vault.paths import VaultPath
from parachuted.vault.root import digest_of
from parachuted.vault.scanner import ScanFindings, compare
from tests.index_entries import changed

MINUTE_NS = 60 * 10**9
WATCHING = b'---\nwatch:\n  - "Projects/**"\n---\n# Note\n'


@pytest.fixture
def look(folder):
    """Compare one file of the vault with what is known of it."""

    def look(name: str, old=None, *, settle_ns=0, scan=None, status=None) -> ScanFindings:
        scan = ScanFindings() if scan is None else scan
        status = status or os.lstat(name, dir_fd=folder)
        compare(scan, VaultPath(name), folder, status, old, settle_ns=settle_ns)
        return scan

    return look


def known(path) -> IndexEntry:
    return IndexEntry.of(path.stat(), digest_of(path.read_bytes()))


def test_a_new_note_is_read_with_what_its_frontmatter_watches(look, vault):
    (vault / "note.md").write_bytes(WATCHING)
    (seen,) = look("note.md").seen
    assert (seen.path, seen.old, seen.data) == ("note.md", None, WATCHING)
    assert (seen.watch, seen.problems) == (("Projects/**",), ())
    assert seen.new.digest == digest_of(WATCHING)
    assert (seen.new.size, seen.new.inode) == (len(WATCHING), (vault / "note.md").stat().st_ino)


def test_a_note_as_known_is_not_read(look, vault):
    (vault / "note.md").write_bytes(b"one")
    assert look("note.md", known(vault / "note.md")) == ScanFindings()


def test_same_size_and_time_hide_neither_a_rewrite_nor_another_file(look, vault):
    note = vault / "note.md"
    note.write_bytes(b"one")
    old = known(note)
    assert [seen.data for seen in look("note.md", changed(old, inode=1)).seen] == [b"one"]
    deadline = time.monotonic() + 120
    while note.stat().st_ctime_ns == old.ctime_ns:  # which ticks every few milliseconds
        assert time.monotonic() < deadline
        note.write_bytes(b"two")
        os.utime(note, ns=(old.mtime_ns, old.mtime_ns))
    now = note.stat()
    assert (now.st_mtime_ns, now.st_size, now.st_ino) == (old.mtime_ns, old.size, old.inode)
    (seen,) = look("note.md", old).seen
    assert (seen.old, seen.data) == (old, b"two")


def test_a_note_read_within_a_tick_of_its_last_write_is_looked_at_again(look, vault):
    (vault / "note.md").write_bytes(b"one")
    status = (vault / "note.md").stat()
    (seen,) = look("note.md").seen
    if time.time_ns() - status.st_ctime_ns < 20_000_000:
        assert seen.new.ctime_ns == 0
        assert look("note.md", seen.new).seen


def test_a_file_written_just_now_is_unsettled(look, vault):
    (vault / "note.md").write_bytes(b"half")
    scan = look("note.md", settle_ns=MINUTE_NS)
    assert (scan.seen, scan.unsettled) == ([], {"note.md"})
    assert look("note.md", settle_ns=0).seen


def test_a_file_left_alone_and_one_from_the_future_are_settled(look, vault):
    for name, seconds in (("past.md", -120), ("future.md", 120)):
        (vault / name).write_bytes(b"whole")
        at = time.time_ns() + seconds * 10**9
        os.utime(vault / name, ns=(at, at))
        assert look(name, settle_ns=MINUTE_NS).seen


def test_a_note_that_grows_while_it_is_read_is_unsettled(look, vault):
    (vault / "note.md").write_bytes(b"half")
    before = (vault / "note.md").stat()
    (vault / "note.md").write_bytes(b"half and half")
    os.utime(vault / "note.md", ns=(1, 1))
    scan = look("note.md", status=before, settle_ns=1)
    assert (scan.seen, scan.unsettled) == ([], {"note.md"})
    (seen,) = look("note.md", status=before).seen
    assert look("note.md", seen.new).seen


def test_a_file_that_is_not_a_note_is_known_by_its_status_alone(look, vault):
    (vault / "photo.png").write_bytes(b"png")
    (seen,) = look("photo.png").seen
    assert (seen.new, seen.data) == (IndexEntry.of((vault / "photo.png").stat(), None), None)


def test_a_big_note_is_read_to_its_end_but_not_kept(look, vault):
    data = WATCHING + b"x" * (9 << 20)
    (vault / "big.md").write_bytes(data)
    scan = look("big.md")
    assert (scan.seen[0].new.digest, scan.seen[0].data, scan.seen[0].watch) == (
        digest_of(data),
        None,
        ("Projects/**",),
    )
    assert scan.kept_bytes == 0


def test_many_notes_are_kept_up_to_a_limit_for_all_together(look, vault):
    scan = ScanFindings()
    for name in ("one.md", "two.md", "small.markdown"):
        (vault / name).write_bytes(b"x" * (10 if name == "small.markdown" else 5 << 20))
        look(name, scan=scan)
    assert [seen.data is not None for seen in scan.seen] == [True, False, True]
    assert scan.kept_bytes == (5 << 20) + 10


def test_what_vanished_or_became_a_link_or_a_pipe_meanwhile_is_not_read(look, vault):
    note = vault / "note.md"
    note.write_bytes(b"one")
    status = note.stat()
    note.unlink()
    assert look("note.md", status=status) == ScanFindings()
    note.symlink_to("/etc/passwd")
    assert look("note.md", status=status) == ScanFindings()
    note.unlink()
    os.mkfifo(note)
    scan = look("note.md", status=status)
    assert (scan.seen, list(scan.problems)) == ([], ["note.md"])
