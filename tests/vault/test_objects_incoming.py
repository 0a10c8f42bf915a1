from __future__ import annotations

import errno
import hashlib
import os
import tracemalloc
from pathlib import Path

import pytest

from parachuted.errors import ConflictError, NotFoundError, PathRefusedError, StorageFailedError
from parachuted.vault import IncomingFile, VaultPath
from parachuted.vault.objects import keep_open
from tests.vault.conftest import StoreRig

LARGE = os.urandom(5 << 20)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def come(store_rig: StoreRig, *pieces: bytes) -> str:
    """Keep a content that comes in these pieces; returns its digest."""
    with IncomingFile(store_rig.objects) as incoming:
        for piece in pieces:
            incoming.write(piece)
        incoming.keep()
        return incoming.digest


def unfinished(store_rig: StoreRig) -> list[Path]:
    return list((store_rig.objects._folder / "unfinished").glob("*"))


def test_what_came_in_pieces_is_kept_as_one_content(store_rig: StoreRig):
    assert come(store_rig, b"one ", b"", b"two") == digest(b"one two")
    assert store_rig.objects.get(digest(b"one two")) == b"one two"
    assert unfinished(store_rig) == []


def test_what_is_not_kept_is_gone(store_rig: StoreRig):
    with IncomingFile(store_rig.objects) as incoming:
        incoming.write(b"half")
        assert len(unfinished(store_rig)) == 1

    assert unfinished(store_rig) == []
    assert store_rig.objects.get(digest(b"half")) is None


def test_a_content_that_was_kept_before_is_not_taken_for_new_and_a_damaged_one_is_mended(
    store_rig: StoreRig,
):
    store_rig.objects.put(b"known")
    with IncomingFile(store_rig.objects) as incoming:
        incoming.write(b"known")
        assert incoming.keep() is False
    store_rig.objects._place(digest(b"known")).write_bytes(b"kno")
    with IncomingFile(store_rig.objects) as incoming:
        incoming.write(b"known")
        assert incoming.keep() is True

    assert store_rig.objects.get(digest(b"known")) == b"known"
    assert unfinished(store_rig) == []


def test_what_a_kill_left_is_swept_at_the_next_start(store_rig: StoreRig):
    incoming = IncomingFile(store_rig.objects)
    incoming.write(b"half")
    os.close(incoming._descriptor)

    store_rig.recovery.run()

    assert unfinished(store_rig) == []


def test_a_disk_that_is_full_is_said_by_name(store_rig: StoreRig, monkeypatch):
    def full(*_given: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with IncomingFile(store_rig.objects) as incoming:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StorageFailedError, match="No space left"):
            incoming.write(b"x")
        monkeypatch.undo()
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageFailedError):
            incoming.keep()
        monkeypatch.undo()
    assert unfinished(store_rig) == []


def test_an_open_file_of_any_size_is_kept(store_rig: StoreRig):
    for data in (b"", b"small", LARGE):
        (store_rig.vault / "file.bin").write_bytes(data)
        with (store_rig.vault / "file.bin").open("rb") as file:
            file.read(3)
            assert keep_open(store_rig.objects, file.fileno()) == digest(data)
        assert store_rig.objects.get(digest(data)) == data


def test_a_placed_content_replaces_and_is_recorded_and_what_it_replaced_is_kept(
    store_rig: StoreRig,
):
    store_rig.put("clip.wav", b"old")
    (store_rig.vault / "clip.wav").chmod(0o640)
    new = come(store_rig, LARGE)

    written = store_rig.store.place(
        VaultPath("clip.wav"), new, store_rig.agent, base=digest(b"old")
    )
    again = store_rig.store.place(VaultPath("clip.wav"), new, store_rig.agent)

    assert (written.before, written.after, again.changed) == (digest(b"old"), new, False)
    assert (store_rig.vault / "clip.wav").read_bytes() == LARGE
    assert (store_rig.vault / "clip.wav").stat().st_mode & 0o777 == 0o640
    assert store_rig.objects.get(digest(b"old")) == b"old"
    assert [
        (write.operation, write.state) for write in store_rig.history.writes_of("clip.wav")
    ] == [("ReplaceAll", "done")]
    assert store_rig.names() == ["clip.wav"]


def test_a_placed_content_makes_its_folders_and_holds_to_its_conditions(store_rig: StoreRig):
    new = come(store_rig, b"new")
    path = VaultPath("A/B/clip.wav")

    with pytest.raises(NotFoundError):
        store_rig.store.place(path, new, store_rig.agent, base=digest(b"old"))
    assert store_rig.store.place(path, new, store_rig.agent, is_new=True).before is None
    for wrong in ({"is_new": True}, {"base": digest(b"old")}):
        with pytest.raises(ConflictError):
            store_rig.store.place(path, come(store_rig, b"newer"), store_rig.agent, **wrong)
    assert (store_rig.vault / path).read_bytes() == b"new"
    with pytest.raises(PathRefusedError):
        store_rig.store.place(VaultPath("A/B"), new, store_rig.agent)
    with pytest.raises(PathRefusedError):
        store_rig.store.place(VaultPath(".claude/settings.json"), new, store_rig.agent)
    assert store_rig.names() == ["A/B/clip.wav"]
    assert store_rig.history.intended() == []


def test_a_cut_short_placing_is_cleared_away_whatever_its_size(store_rig: StoreRig):
    store_rig.put("clip.wav", b"old")
    new = come(store_rig, LARGE)
    write = store_rig.intend("clip.wav", before=digest(b"old"), after=new)
    (store_rig.vault / write.temporary).write_bytes(LARGE[: 3 << 20])

    store_rig.recovery.run()

    assert (store_rig.names(), store_rig.text("clip.wav"), store_rig.history.intended()) == (
        ["clip.wav"],
        "old",
        [],
    )


def test_large_files_come_are_replaced_and_go_in_constant_memory(store_rig: StoreRig, torture):
    size = (200 if torture else 16) << 20
    piece = os.urandom(1 << 20)
    tracemalloc.start()
    with IncomingFile(store_rig.objects) as incoming:
        for _ in range(size >> 20):
            incoming.write(piece)
        incoming.keep()
        new = incoming.digest
    with (store_rig.vault / "large.bin").open("wb") as file:
        file.truncate(size)

    store_rig.store.place(VaultPath("large.bin"), new, store_rig.agent)
    store_rig.store.delete(VaultPath("large.bin"), store_rig.agent)

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    assert new in store_rig.objects
    assert store_rig.names() == []
