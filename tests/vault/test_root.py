"""Root: nothing outside the vault is ever read, and nothing in it blocks."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

from parachuted.errors import (
    EditRefusedError,
    NotFoundError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.vault.paths import VaultPath
from parachuted.vault.root import VaultRoot, digest_of, named_errors

SECRET = b"outside"


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.fixture
def root(vault):
    return VaultRoot(vault)


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "vault-outside"
    folder.mkdir()
    (folder / "note.md").write_bytes(SECRET)
    return folder


@pytest.mark.parametrize("kind", ["file", "fifo", "dangling"])
def test_what_stands_in_the_place_of_a_folder_is_named(root, vault, kind):
    odd = vault / "People"
    {
        "file": lambda: odd.write_text("Mine."),
        "fifo": lambda: os.mkfifo(odd),
        "dangling": lambda: odd.symlink_to("nowhere"),
    }[kind]()
    with (
        pytest.raises(PathRefusedError, match="'People' is a file or a link"),
        named_errors("People/near/note.md"),
        root.opened_folder("People/near", create=True),
    ):
        pass


def test_a_note_is_read_with_its_digest_and_status(root, vault):
    data = os.urandom(3 << 20)
    (vault / "note.md").write_bytes(data)
    content = root.read(VaultPath("note.md"))
    assert content.data == data
    assert content.digest == digest_of(data) == hashlib.sha256(data).hexdigest()
    assert (content.status.st_size, content.status.st_ino) == (
        len(data),
        (vault / "note.md").stat().st_ino,
    )


def test_of_a_large_file_no_more_is_read_than_its_beginning(root, vault):
    with (vault / "note.md").open("wb") as file:
        file.write(b"head")
        file.truncate(1 << 40)
    assert root.read_head(VaultPath("note.md"), 4) == (b"head", 1 << 40)
    (vault / "short.md").write_bytes(b"in")
    assert root.read_head(VaultPath("short.md"), 4) == (b"in", 2)
    with pytest.raises(NotFoundError):
        root.read_head(VaultPath("none.md"), 4)
    (vault / "link.md").symlink_to("short.md")
    with pytest.raises(PathRefusedError):
        root.read_head(VaultPath("link.md"), 4)


def test_a_vault_that_is_itself_a_link_is_followed(vault, tmp_path):
    (vault / "note.md").write_bytes(b"in")
    (tmp_path / "link").symlink_to(vault)
    assert VaultRoot(tmp_path / "link").read(VaultPath("note.md")).data == b"in"


def test_what_is_not_there_is_not_found_and_no_pipe_waited_for(root, vault, monkeypatch):
    (vault / "note.md").write_bytes(b"in")
    for path in ("none.md", "none/none.md", "note.md/below.md"):
        with pytest.raises(NotFoundError):
            root.read(VaultPath(path))
    os.mkfifo(vault / "pipe.md")
    (vault / "folder.md").mkdir()
    monkeypatch.chdir(vault)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind("socket.md")
        for name in ("pipe.md", "folder.md", "socket.md"):
            with pytest.raises(PathRefusedError, match="is not a regular file of the vault"):
                root.read(VaultPath(name))


def test_links_inside_the_vault_are_followed_and_bad_ones_are_errors(root, vault):
    (vault / "real").mkdir()
    (vault / "real/note.md").write_bytes(b"in")
    (vault / "folder").symlink_to("real")
    (vault / "file.md").symlink_to(vault / "folder/note.md")
    assert root.read(VaultPath("file.md")).data == b"in"
    assert root.read(VaultPath("folder/note.md")).data == b"in"
    assert root.resolve(VaultPath("file.md")) == "real/note.md"
    (vault / "a.md").symlink_to("b.md")
    (vault / "b.md").symlink_to("a.md")
    (vault / "dangling.md").symlink_to("none.md")
    with pytest.raises(PathRefusedError):
        root.read(VaultPath("a.md"))
    with pytest.raises(NotFoundError):
        root.read(VaultPath("dangling.md"))


def test_a_link_that_leaves_the_vault_is_refused_as_file_and_as_folder(root, vault, outside):
    (vault / "file.md").symlink_to(outside / "note.md")
    (vault / "folder").symlink_to(outside)
    (vault / "relative.md").symlink_to("../vault-outside/note.md")
    (vault / "twice.md").symlink_to("file.md")
    for path in ("file.md", "folder/note.md", "relative.md", "twice.md"):
        with pytest.raises(PathRefusedError, match="leaves the vault"):
            root.read(VaultPath(path))


def test_no_link_is_followed_by_opening_alone(root, vault, outside):
    (vault / "file.md").symlink_to(outside / "note.md")
    (vault / "folder").symlink_to(outside)
    with pytest.raises(OSError, match=r".") as refused, root.opened_file(VaultPath("file.md")):
        pass
    assert refused.value.errno == errno.ELOOP
    with pytest.raises(NotADirectoryError), root.opened_folder("folder", create=True):
        pass


def test_a_folder_swapped_for_a_link_again_and_again_shows_nothing_outside(root, vault, outside):
    (vault / "folder").mkdir()
    (vault / "folder/note.md").write_bytes(b"in")
    (vault / "link").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (vault / "folder").rename(vault / "aside")
            (vault / "link").rename(vault / "folder")
            (vault / "folder").rename(vault / "link")
            (vault / "aside").rename(vault / "folder")

    thread = threading.Thread(target=swap)
    thread.start()
    read, refused = set(), 0
    deadline = time.monotonic() + 0.3
    try:
        while time.monotonic() < deadline:
            try:
                read.add(root.read(VaultPath("folder/note.md")).data)
            except (NotFoundError, PathRefusedError):
                refused += 1
    finally:
        stop.set()
        thread.join()
    assert read == {b"in"}
    assert refused


def test_a_folder_on_the_way_to_a_note_need_not_be_listed_by_who_reads_it():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        note = Path(name, "shared/mine/note.md")
        note.parent.mkdir(parents=True)
        note.write_bytes(b"mine")
        note.parents[1].chmod(0o311)
        Path(name).chmod(0o755)
        user = os.geteuid()
        os.seteuid(user or 65_534)  # root may list everything
        try:
            found = VaultRoot(Path(name)).read(VaultPath("shared/mine/note.md"))
        finally:
            os.seteuid(user)
        note.parents[1].chmod(0o755)
    assert found.data == b"mine"


def test_a_vault_that_vanished_is_a_failed_disk_and_not_a_missing_note(root, vault):
    vault.rmdir()
    with pytest.raises(StorageFailedError) as failed:
        root.read(VaultPath("note.md"))
    assert failed.value.errno == errno.ESTALE


def test_missing_folders_are_made_when_asked_for(root, vault):
    with root.opened_folder("a/b", create=True) as folder:
        assert os.path.samestat(os.fstat(folder), (vault / "a/b").stat())
    with pytest.raises(FileNotFoundError), root.opened_folder("a/c"):
        pass


def test_no_descriptor_is_left_open(root, vault):
    (vault / "a").mkdir()
    (vault / "a/note.md").write_bytes(b"in")
    (vault / "a/link.md").symlink_to("/etc/passwd")
    before = open_descriptors()
    for name in ("note.md", "link.md", "none.md"):
        with contextlib.suppress(NotFoundError, PathRefusedError):
            root.read(VaultPath(f"a/{name}"))
    assert open_descriptors() == before


def test_going_straight_no_link_is_followed_in_that_thread(root, vault):
    (vault / "real").mkdir()
    (vault / "real/note.md").write_bytes(b"text")
    (vault / "folder").symlink_to("real")
    (vault / "link.md").symlink_to("real/note.md")
    elsewhere = []
    with root.straight():
        assert root.read(VaultPath("real/note.md")).data == b"text"
        assert root.resolve(VaultPath("real/none.md")) == "real/none.md"
        for path in map(VaultPath, ("folder/note.md", "link.md", "folder/none.md")):
            for act in (root.read, root.resolve, root.size):
                with pytest.raises(PathRefusedError):
                    act(path)
        thread = threading.Thread(
            target=lambda: elsewhere.append(root.read(VaultPath("link.md")).data)
        )
        thread.start()
        thread.join()
        with root.straight():
            pass
        with pytest.raises(PathRefusedError):
            root.read(VaultPath("link.md"))

    assert (root.read(VaultPath("link.md")).data, elsewhere) == (b"text", [b"text"])


def test_many_files_are_read_as_each_alone_and_links_are_not_followed(tmp_path):
    root = VaultRoot(tmp_path)
    (tmp_path / "a").mkdir()
    for name in ("a/one.md", "a/two.md", "three.md"):
        (tmp_path / name).write_text(name)
    (tmp_path / "a/link.md").symlink_to("one.md")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "large.md").write_text("x" * 100)
    paths = [
        VaultPath(path)
        for path in ("a/one.md", "a/none.md", "a/two.md", "a/link.md", "b/one.md", "none/x.md")
    ]

    found = dict(root.read_each([*paths, VaultPath("three.md"), VaultPath("large.md")], 99))
    for path in ("a/one.md", "a/two.md", "three.md"):
        assert found[path].data == root.read(VaultPath(path)).data == path.encode()
        assert found[path].digest == root.read(VaultPath(path)).digest
    assert {path: type(one) for path, one in found.items() if isinstance(one, Exception)} == {
        "a/none.md": NotFoundError,
        "a/link.md": PathRefusedError,
        "b/one.md": NotFoundError,
        "none/x.md": NotFoundError,
        "large.md": EditRefusedError,
    }


def test_in_another_folder_in_the_vaults_place_nothing_is_written(root, vault, tmp_path):
    known = []
    root.guard(lambda _folder: bool(known))
    vault.rename(tmp_path / "away")
    vault.mkdir()
    with (
        pytest.raises(OSError, match="another folder is in the vault's place"),
        root.opened_folder("Journal", create=True),
    ):
        pass
    assert list(vault.iterdir()) == []
    known.append("the same one, on its disk again")
    with root.opened_folder("Journal", create=True):
        assert (vault / "Journal").is_dir()


def test_a_link_that_is_never_done_changing_is_refused(root, vault, monkeypatch):
    (vault / "link.md").symlink_to("note.md")

    def changing(_path):
        raise OSError(errno.EINVAL, "it is no link any more")

    monkeypatch.setattr(os.path, "realpath", changing)
    with pytest.raises(PathRefusedError, match="behind a link that is being changed"):
        root.resolve(VaultPath("link.md"))
