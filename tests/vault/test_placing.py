"""Placing: what came in pieces stands whole in the vault, or nothing does."""

from __future__ import annotations

import pytest

from parachuted.errors import ConflictError
from parachuted.vault import Author, IncomingFile, VaultPath, digest_of, place_incoming
from tests.vault.conftest import StoreRig

ME = Author(by="person", causes=("c",))
LARGE = b"x" * (2 << 20)


def place(rig: StoreRig, path: str, data: bytes, **more: object):
    with IncomingFile(rig.objects) as incoming:
        incoming.write(data[:10])
        incoming.write(data[10:])
        return place_incoming(rig.store, VaultPath(path), incoming, ME, **more)


@pytest.mark.parametrize(
    ("path", "data", "is_kept"),
    [("a.bin", b"small", True), ("a.bin", LARGE, False), ("a.md", LARGE, True)],
)
def test_a_file_is_placed_and_a_large_one_does_not_take_its_room_twice(
    rig: StoreRig, path, data, is_kept
):
    written = place(rig, path, data, is_new=True)

    assert (written.before, written.after) == (None, digest_of(data))
    assert (rig.vault / path).read_bytes() == data
    assert (digest_of(data) in rig.objects) is is_kept


def test_what_is_there_is_not_replaced_by_a_new_file(rig: StoreRig):
    rig.put("a.bin", b"old")

    with pytest.raises(ConflictError):
        place(rig, "a.bin", LARGE, is_new=True)
    assert (rig.vault / "a.bin").read_bytes() == b"old"
    assert digest_of(LARGE) not in rig.objects


def test_a_content_that_another_upload_needs_is_not_dropped(rig: StoreRig):
    with rig.objects.needed(digest_of(LARGE)):
        place(rig, "a.bin", LARGE)
        assert digest_of(LARGE) in rig.objects
        written = rig.store.place(VaultPath("b.bin"), digest_of(LARGE), ME)
    assert written.after == digest_of(LARGE)
    assert (rig.vault / "b.bin").read_bytes() == LARGE
