from __future__ import annotations

import errno
import hashlib
import os
import tracemalloc
from pathlib import Path

import pytest

from parachuted.errors import ConflictError, NotFoundError, PathRefusedError, StorageFailedError
from parachuted.vault import IncomingFile, Recovery, VaultPath
from parachuted.vault.incoming import keep_open
from tests.vault.conftest import Shelf

LARGE = os.urandom(5 << 20)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def come(shelf: Shelf, *pieces: bytes) -> str:
    """Keep a content that comes in these pieces; returns its digest."""
    with IncomingFile(shelf.objects) as incoming:
        for piece in pieces:
            incoming.write(piece)
        incoming.keep()
        return incoming.digest


def unfinished(shelf: Shelf) -> list[Path]:
    return list((shelf.objects._folder / "unfinished").glob("*"))


def test_what_came_in_pieces_is_kept_as_one_content(shelf: Shelf):
    assert come(shelf, b"one ", b"", b"two") == digest(b"one two")
    assert shelf.objects.get(digest(b"one two")) == b"one two"
    assert unfinished(shelf) == []


def test_what_is_not_kept_is_gone(shelf: Shelf):
    with IncomingFile(shelf.objects) as incoming:
        incoming.write(b"half")
        assert len(unfinished(shelf)) == 1

    assert unfinished(shelf) == []
    assert shelf.objects.get(digest(b"half")) is None


def test_a_content_that_was_kept_before_is_not_taken_for_new_and_a_damaged_one_is_mended(
    shelf: Shelf,
):
    shelf.objects.put(b"known")
    with IncomingFile(shelf.objects) as incoming:
        incoming.write(b"known")
        assert incoming.keep() is False
    shelf.objects._place(digest(b"known")).write_bytes(b"kno")
    with IncomingFile(shelf.objects) as incoming:
        incoming.write(b"known")
        assert incoming.keep() is True

    assert shelf.objects.get(digest(b"known")) == b"known"
    assert unfinished(shelf) == []


def test_what_a_kill_left_is_swept_at_the_next_start(shelf: Shelf):
    incoming = IncomingFile(shelf.objects)
    incoming.write(b"half")
    os.close(incoming._descriptor)

    Recovery(root=shelf.root, objects=shelf.objects, history=shelf.history, now=shelf.now).run()

    assert unfinished(shelf) == []


def test_a_disk_that_is_full_is_said_by_name(shelf: Shelf, monkeypatch):
    def full(*_given: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with IncomingFile(shelf.objects) as incoming:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StorageFailedError, match="No space left"):
            incoming.write(b"x")
        monkeypatch.undo()
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageFailedError):
            incoming.keep()
        monkeypatch.undo()
    assert unfinished(shelf) == []


def test_an_open_file_of_any_size_is_kept(shelf: Shelf):
    for data in (b"", b"small", LARGE):
        (shelf.vault / "file.bin").write_bytes(data)
        with (shelf.vault / "file.bin").open("rb") as file:
            file.read(3)
            assert keep_open(shelf.objects, file.fileno()) == digest(data)
        assert shelf.objects.get(digest(data)) == data


def test_a_placed_content_replaces_and_is_recorded_and_what_it_replaced_is_kept(shelf: Shelf):
    shelf.put("clip.wav", b"old")
    (shelf.vault / "clip.wav").chmod(0o640)
    new = come(shelf, LARGE)

    written = shelf.store.place(VaultPath("clip.wav"), new, shelf.agent, base=digest(b"old"))
    again = shelf.store.place(VaultPath("clip.wav"), new, shelf.agent)

    assert (written.before, written.after, again.changed) == (digest(b"old"), new, False)
    assert (shelf.vault / "clip.wav").read_bytes() == LARGE
    assert (shelf.vault / "clip.wav").stat().st_mode & 0o777 == 0o640
    assert shelf.objects.get(digest(b"old")) == b"old"
    assert [(write.operation, write.state) for write in shelf.history.writes_of("clip.wav")] == [
        ("ReplaceAll", "done")
    ]
    assert shelf.names() == ["clip.wav"]


def test_a_placed_content_makes_its_folders_and_holds_to_its_conditions(shelf: Shelf):
    new = come(shelf, b"new")
    path = VaultPath("A/B/clip.wav")

    with pytest.raises(NotFoundError):
        shelf.store.place(path, new, shelf.agent, base=digest(b"old"))
    assert shelf.store.place(path, new, shelf.agent, is_new=True).before is None
    for wrong in ({"is_new": True}, {"base": digest(b"old")}):
        with pytest.raises(ConflictError):
            shelf.store.place(path, come(shelf, b"newer"), shelf.agent, **wrong)
    assert (shelf.vault / path).read_bytes() == b"new"
    with pytest.raises(PathRefusedError):
        shelf.store.place(VaultPath("A/B"), new, shelf.agent)
    with pytest.raises(PathRefusedError):
        shelf.store.place(VaultPath(".claude/settings.json"), new, shelf.agent)
    assert shelf.names() == ["A/B/clip.wav"]
    assert shelf.history.intended() == []


def test_a_cut_short_placing_is_cleared_away_whatever_its_size(shelf: Shelf):
    shelf.put("clip.wav", b"old")
    new = come(shelf, LARGE)
    write = shelf.history.intend(
        at=shelf.now,
        path="clip.wav",
        author=shelf.agent,
        operation="ReplaceAll",
        before=digest(b"old"),
        after=new,
        temporary=".parachute-x.tmp",
    )
    (shelf.vault / write.temporary).write_bytes(LARGE[: 3 << 20])

    Recovery(root=shelf.root, objects=shelf.objects, history=shelf.history, now=shelf.now).run()

    assert (shelf.names(), shelf.text("clip.wav"), shelf.history.intended()) == (
        ["clip.wav"],
        "old",
        [],
    )


def test_large_files_come_are_replaced_and_go_in_constant_memory(shelf: Shelf, torture):
    size = (200 if torture else 16) << 20
    piece = os.urandom(1 << 20)
    tracemalloc.start()
    with IncomingFile(shelf.objects) as incoming:
        for _ in range(size >> 20):
            incoming.write(piece)
        incoming.keep()
        new = incoming.digest
    with (shelf.vault / "large.bin").open("wb") as file:
        file.truncate(size)

    shelf.store.place(VaultPath("large.bin"), new, shelf.agent)
    shelf.store.delete(VaultPath("large.bin"), shelf.agent)

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20
    assert new in shelf.objects
    assert shelf.names() == []
