from __future__ import annotations

import hashlib
import time

import pytest

from parachuted.sync import FileDigests
from parachuted.vault import IndexEntry, VaultPath, VaultRoot
from tests.index_entries import changed


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def old(vault):
    """A file that no one has touched for a while, and its entry in the index."""
    (vault / "a.png").write_bytes(b"picture")
    while time.time_ns() - (vault / "a.png").stat().st_ctime_ns < 25_000_000:
        pass
    return IndexEntry.of((vault / "a.png").stat(), None)


def test_a_file_is_read_once(vault, old):
    digests = FileDigests(VaultRoot(vault))

    assert digests.known("a.png", old) is None
    assert digests.learn(["a.png"]) == {"a.png": digest(b"picture")}
    assert digests.known("a.png", old) == digest(b"picture")


def test_another_state_of_the_file_is_not_known(vault, old):
    digests = FileDigests(VaultRoot(vault))
    digests.learn(["a.png"])

    assert digests.known("a.png", changed(old, size=9)) is None
    assert digests.known("a.png", changed(old, inode=9)) is None


def test_a_file_written_in_this_moment_is_reported_but_not_kept(vault):
    (vault / "a.png").write_bytes(b"fresh")
    digests = FileDigests(VaultRoot(vault))

    assert digests.learn(["a.png"]) == {"a.png": digest(b"fresh")}
    assert digests.known("a.png", IndexEntry.of((vault / "a.png").stat(), None)) is None


def test_what_cannot_be_read_is_left_out(vault, old):
    (vault / "link.png").symlink_to("/etc/passwd")
    (vault / "folder").mkdir()

    assert set(
        FileDigests(VaultRoot(vault)).learn(["none.png", "link.png", "folder", "../x.png", "a.png"])
    ) == {"a.png"}


def test_no_more_are_kept_than_agreed(vault):
    digests = FileDigests(VaultRoot(vault), most=3)
    for number in range(9):
        digests._keep(f"{number}.png", (0, 0, 0), "d")

    assert list(digests._known) == ["6.png", "7.png", "8.png"]


def test_an_open_file_s_digest_is_of_what_it_holds(vault, old):
    digests = FileDigests(VaultRoot(vault))
    with (vault / "a.png").open("rb") as file:
        assert digests.digest(VaultPath("a.png"), file.fileno()) == digest(b"picture")
        assert digests.digest(VaultPath("a.png"), file.fileno()) == digest(b"picture")
