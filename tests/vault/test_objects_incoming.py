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


def come(rig: StoreRig, *pieces: bytes) -> str:
    with IncomingFile(rig.objects) as incoming:
        for piece in pieces:
            incoming.write(piece)
        incoming.keep()
        return incoming.digest


def unfinished(rig: StoreRig) -> list[Path]:
    return list((rig.objects._folder / "unfinished").glob("*"))


def test_what_came_in_pieces_is_one_content_and_what_is_not_kept_is_gone(rig: StoreRig):
    assert come(rig, b"one ", b"", b"two") == digest(b"one two")
    assert rig.objects.get(digest(b"one two")) == b"one two"
    with IncomingFile(rig.objects) as incoming:
        incoming.write(b"half")
        assert len(unfinished(rig)) == 1

    assert unfinished(rig) == []
    assert rig.objects.get(digest(b"half")) is None


def test_a_content_kept_before_is_not_new_and_a_damaged_one_is_mended(
    rig: StoreRig,
):
    rig.objects.put(b"known")
    with IncomingFile(rig.objects) as incoming:
        incoming.write(b"known")
        assert incoming.keep() is False
    rig.objects._place(digest(b"known")).write_bytes(b"kno")
    with IncomingFile(rig.objects) as incoming:
        incoming.write(b"known")
        assert incoming.keep() is True

    assert rig.objects.get(digest(b"known")) == b"known"
    assert unfinished(rig) == []


def test_a_disk_that_is_full_is_said_by_name(rig: StoreRig, monkeypatch):
    def full(*_given: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with IncomingFile(rig.objects) as incoming:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StorageFailedError, match="No space left"):
            incoming.write(b"x")
        monkeypatch.undo()
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageFailedError):
            incoming.keep()
        monkeypatch.undo()
    assert unfinished(rig) == []


def test_an_open_file_of_any_size_is_kept(rig: StoreRig):
    for data in (b"", b"small", LARGE):
        (rig.vault / "file.bin").write_bytes(data)
        with (rig.vault / "file.bin").open("rb") as file:
            file.read(3)
            assert keep_open(rig.objects, file.fileno()) == digest(data)
        assert rig.objects.get(digest(data)) == data


def test_a_placed_content_is_recorded_and_what_it_replaced_is_kept(rig: StoreRig):
    rig.put("clip.wav", b"old")
    (rig.vault / "clip.wav").chmod(0o640)
    new = come(rig, LARGE)

    written = rig.store.place(VaultPath("clip.wav"), new, rig.agent, base=digest(b"old"))
    again = rig.store.place(VaultPath("clip.wav"), new, rig.agent)

    assert (written.before, written.after, again.changed) == (digest(b"old"), new, False)
    assert (rig.vault / "clip.wav").read_bytes() == LARGE
    assert (rig.vault / "clip.wav").stat().st_mode & 0o777 == 0o640
    assert rig.objects.get(digest(b"old")) == b"old"
    assert [(write.operation, write.state) for write in rig.history.writes_of("clip.wav")] == [
        ("ReplaceAll", "done")
    ]
    assert rig.names() == ["clip.wav"]


def test_a_placed_content_makes_its_folders_and_holds_to_its_conditions(rig: StoreRig):
    new = come(rig, b"new")
    path = VaultPath("A/B/clip.wav")

    with pytest.raises(NotFoundError):
        rig.store.place(path, new, rig.agent, base=digest(b"old"))
    assert rig.store.place(path, new, rig.agent, is_new=True).before is None
    for wrong in ({"is_new": True}, {"base": digest(b"old")}):
        with pytest.raises(ConflictError):
            rig.store.place(path, come(rig, b"newer"), rig.agent, **wrong)
    assert (rig.vault / path).read_bytes() == b"new"
    with pytest.raises(PathRefusedError):
        rig.store.place(VaultPath("A/B"), new, rig.agent)
    with pytest.raises(PathRefusedError):
        rig.store.place(VaultPath(".claude/settings.json"), new, rig.agent)
    assert rig.names() == ["A/B/clip.wav"]
    assert rig.history.intended() == []


def test_a_cut_short_placing_is_cleared_away_whatever_its_size(rig: StoreRig):
    rig.put("clip.wav", b"old")
    new = come(rig, LARGE)
    write = rig.intend("clip.wav", before=digest(b"old"), after=new)
    (rig.vault / write.temporary).write_bytes(LARGE[: 3 << 20])

    rig.recovery.run()

    assert (rig.names(), rig.text("clip.wav"), rig.history.intended()) == (["clip.wav"], "old", [])


def test_large_files_come_are_replaced_and_go_in_constant_memory(rig: StoreRig, torture):
    size = (200 if torture else 16) << 20
    piece = os.urandom(1 << 20)
    tracemalloc.start()
    new = come(rig, *[piece] * (size >> 20))
    with (rig.vault / "large.bin").open("wb") as file:
        file.truncate(size)

    rig.store.place(VaultPath("large.bin"), new, rig.agent)
    rig.store.delete(VaultPath("large.bin"), rig.agent)

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    assert new in rig.objects
    assert rig.names() == []
