"""Objects: a text that was kept for good is there, whole, or is said not to be."""

from __future__ import annotations

import errno
import os
from contextlib import closing

import pytest

from parachuted.errors import StorageFailedError
from parachuted.vault.objects import ObjectStore
from parachuted.vault.root import digest_of

DATA = b"what an agent replaced\r\n\xff"


@pytest.fixture
def folder(home):
    return home / "objects"


@pytest.fixture
def objects(folder):
    objects = ObjectStore(folder)
    yield objects
    objects.close()


def place(folder, digest):
    return folder / digest[:2] / digest[2:]


def refuse_to_sync(monkeypatch):
    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)


@pytest.mark.parametrize("data", [DATA, b"", b"x" * (3 << 20)])
def test_what_was_put_is_had_back_also_by_the_next_process(objects, folder, data):
    digest = objects.put(data)
    assert digest == digest_of(data)
    before = place(folder, digest).stat()
    assert place(folder, objects.put(data)).stat().st_ino == before.st_ino  # written once
    objects.close()
    with closing(ObjectStore(folder)) as again:
        assert again.get(digest) == data
        assert digest in again


def test_what_was_put_is_its_owners_and_synced_before_it_has_its_name(objects, folder, monkeypatch):
    digest = digest_of(DATA)
    target = place(folder, digest)
    synced, sync = [], os.fsync

    def watch(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, target.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    objects.put(DATA)
    assert (target.stat().st_ino, False) in synced
    assert synced[-1] == (target.parent.stat().st_ino, True)
    assert [path.stat().st_mode & 0o077 for path in (folder, target.parent, target)] == [0, 0, 0]


@pytest.mark.parametrize("damage", [b"", DATA[:-1], b"something else"])
def test_a_damaged_text_reads_as_none_and_is_whole_once_it_is_put_again(objects, folder, damage):
    assert objects.get(digest_of(DATA)) is None
    assert digest_of(DATA) not in objects
    digest = objects.put(DATA)
    place(folder, digest).write_bytes(damage)
    assert objects.get(digest) is None
    objects.put(DATA)
    assert objects.get(digest) == DATA


@pytest.mark.parametrize(
    "name", ["", "../../etc/passwd", "g" * 64, "A" * 64, "a" * 63, "a" * 64 + "\n"]
)
def test_what_is_not_a_digest_is_never_made_a_path(objects, name):
    with pytest.raises(ValueError, match="is not a digest"):
        objects.get(name)


def test_a_disk_that_refuses_leaves_nothing_that_looks_kept(objects, folder, monkeypatch):
    with monkeypatch.context() as patch:
        refuse_to_sync(patch)
        with pytest.raises(StorageFailedError, match="could not be kept") as failed:
            objects.put(DATA)
    assert failed.value.errno == errno.ENOSPC
    assert digest_of(DATA) not in objects
    assert [
        path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("seen.db")
    ] == []
    assert objects.get(objects.put(DATA)) == DATA


def test_sweeping_removes_what_was_being_written_and_nothing_else(objects, folder):
    objects.sweep()
    digest = objects.put(DATA)
    (folder / "unfinished/0123").write_bytes(b"half")
    objects.sweep()
    assert list((folder / "unfinished").iterdir()) == []
    assert objects.get(digest) == DATA


def test_what_was_only_seen_is_forgotten_and_what_was_put_never(objects):
    kept = objects.put(DATA)
    one, two, wrong = digest_of(b"1"), digest_of(b"2"), digest_of(b"3")
    objects.see([(one, b"1"), (two, b"2"), (wrong, b"4")])
    assert (objects.get(one), two in objects, objects.get(wrong)) == (b"1", True, None)
    objects.forget_seen([two])
    assert (objects.get(kept), objects.get(one), objects.get(two)) == (DATA, None, b"2")


def test_a_garbled_seen_db_is_started_again_and_costs_no_text_that_was_put(objects, folder):
    digest = objects.put(DATA)
    objects.close()
    (folder / "seen.db").write_bytes(b"garbled" * 1000)
    with closing(ObjectStore(folder)) as again:
        assert again.get(digest) == DATA
        again.see([(digest_of(b"1"), b"1")])
        assert again.get(digest_of(b"1")) == b"1"
