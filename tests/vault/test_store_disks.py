"""The writer on real disks that fill up, turn read-only or go away, and on files with owners, links
and odd names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError, ParachuteError, PathRefusedError, StorageFailedError
from parachuted.vault import AppendToSection, Store, VaultPath
from parachuted.vault.swap import exchange
from tests.vault.rig.work import (
    FILES,
    ME,
    NOTE,
    OPERATIONS,
    Opened,
    TrialFolder,
    arrived,
    left_behind,
)


def mount(*arguments: str | Path) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()[:200]}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", folder)
    yield folder
    while not subprocess.run(["umount", "-l", folder], capture_output=True, check=False).returncode:
        pass


def elsewhere(folder: Path, *, vault: Path | None = None, state: Path | None = None) -> TrialFolder:
    """A place whose vault, or state, is on another disk."""
    folder.mkdir(exist_ok=True)
    for name, other in (("vault", vault), ("state", state)):
        if other is not None:
            other.mkdir()
            (folder / name).symlink_to(other)
    return TrialFolder(folder).made(OPERATIONS[0])


@pytest.fixture
def place(tmp_path: Path) -> TrialFolder:
    return TrialFolder(tmp_path / "place").made(OPERATIONS[0])


@pytest.fixture
def opened(place: TrialFolder) -> Iterator[Opened]:
    with place.opened() as opened:
        yield opened


def fill(disk: Path) -> Path:
    """Take all of a disk's room."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):  # noqa: PT012
        while file.write(bytes(4096)):
            pass
    return ballast


def refused(place: TrialFolder, opened: Opened, code: int | None) -> None:
    """Every operation is refused with that error, and nothing has changed."""
    for operation in OPERATIONS:
        if operation.name == "merge":
            continue
        with pytest.raises(ParachuteError) as caught:
            operation.act(opened.store)
        if code is not None:
            assert isinstance(caught.value, StorageFailedError)
            assert caught.value.errno == code
        assert str(caught.value).strip()
        assert place.files() == dict(FILES)
    assert left_behind(place) == []


def work_again(place: TrialFolder, store: Store) -> None:
    """The same store writes again, now that it can."""
    store.edit(VaultPath("note.md"), AppendToSection(section="History", content="- on"), ME)

    assert b"- on" in place.files()["note.md"]
    assert left_behind(place) == []


def test_a_full_vault_refuses_what_needs_room_until_there_is_some(tmp_path, disk):
    place = elsewhere(tmp_path / "place", vault=disk / "v")
    growing = {"replace-section", "append", "set-key", "create", "create-in-new-folder"}
    with place.opened() as opened:
        ballast = fill(disk)
        for operation in OPERATIONS:
            if operation.name in growing:
                with pytest.raises(StorageFailedError) as caught:
                    operation.act(opened.store)
                assert caught.value.errno == errno.ENOSPC
                assert place.files() == dict(FILES)
        ballast.unlink()

        assert left_behind(place) == []
        work_again(place, opened.store)
        assert opened.history.intended() == []


def test_a_full_state_disk_refuses_every_write_before_the_vault_is_touched(tmp_path, disk):
    place = elsewhere(tmp_path / "place", state=disk / "s")
    with place.opened() as opened:
        ballast = fill(disk)
        refused(place, opened, None)
        assert opened.store.read(VaultPath("note.md")).data == NOTE
        ballast.unlink()

        work_again(place, opened.store)
        assert opened.history.intended() == []


def test_a_read_only_vault_refuses_every_write_until_it_is_not(tmp_path, disk):
    place = elsewhere(tmp_path / "place", vault=disk / "v")
    with place.opened() as opened:
        arrived(opened.store)
        mount("-o", "remount,ro", disk)
        refused(place, opened, errno.EROFS)
        mount("-o", "remount,rw", disk)

        work_again(place, opened.store)
        assert opened.history.intended() == []


def test_a_vault_that_was_unmounted_refuses_every_edit_until_it_is_back(tmp_path):
    image, stick = tmp_path / "image", tmp_path / "stick"
    image.write_bytes(bytes(8 << 20))
    stick.mkdir()
    mkfs = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if mkfs is None:
        pytest.skip("there is no mkfs.ext4 on this machine")
    subprocess.run([mkfs, "-q", image], capture_output=True, check=True)
    mount("-o", "loop", image, stick)
    place = elsewhere(tmp_path / "place", vault=stick / "v")
    with place.opened() as opened:
        arrived(opened.store)
        subprocess.run(["umount", "-l", stick], check=True)
        for operation in OPERATIONS:
            with pytest.raises(StorageFailedError):
                operation.act(opened.store)
        assert list(stick.iterdir()) == []
        mount("-o", "loop", image, stick)

        try:
            assert place.files() == dict(FILES)
            work_again(place, opened.store)
        finally:
            subprocess.run(["umount", "-l", stick], check=True)


def test_a_vault_moved_away_refuses_every_write_as_a_disk_that_fails(tmp_path, place, opened):
    arrived(opened.store)
    place.vault.rename(tmp_path / "away")
    for operation in OPERATIONS:
        with pytest.raises(StorageFailedError):
            operation.act(opened.store)
    assert not place.vault.exists()
    (tmp_path / "away").rename(place.vault)

    work_again(place, opened.store)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_and_the_group_of_a_note_stay(place, opened):
    note = place.vault / "note.md"
    os.chown(note, 12345, 23456)
    note.chmod(0o604)
    work_again(place, opened.store)

    status = note.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (12345, 23456, 0o604)


def test_a_hard_link_to_a_note_keeps_the_text_from_before(place, opened):
    (place.vault / "second.md").hardlink_to(place.vault / "note.md")
    work_again(place, opened.store)

    assert (place.vault / "second.md").read_bytes() == NOTE


ODD_NAMES = [
    "a" * 252 + ".md",
    "ü" * 125 + ".md",
    "-rf",
    "plan\u202egpj.md",
    "عربي.md",
    "🪂.md",
    "ends in a dot.",
    "ends in a space ",
    "zero\u200bwidth.md",
    "Plan.md",
    "PLAN.md",
    "e\u0301.md",
    "\u00e9.md",
    os.fsdecode(b"\xff\xfe.md"),
    "CON",
    "*?[x].md",
    "$(id).md",
    "'\";.md",
]


def test_notes_of_every_name_are_written_moved_and_removed(place, opened):
    store, texts = opened.store, []
    paths = [(VaultPath.parse(name), VaultPath.parse(f"odd/{name}")) for name in ODD_NAMES]
    for number, (path, _) in enumerate(paths):
        store.create(path, b"# %d\n\n## Facts\n" % number, ME)
    for number, (path, moved) in enumerate(paths):
        store.edit(path, AppendToSection(section="Facts", content=f"- {number}"), ME)
        store.move(path, moved, ME)
        assert [write.path for write in opened.history.writes_of(moved)] == [moved]
    for _, moved in paths:
        texts.append(store.read(moved).data)
        store.delete(moved, ME)

    for number, text in enumerate(texts):
        assert b"# %d\n" % number in text
        assert text.rstrip().endswith(b"- %d" % number)
    assert place.files() == dict(FILES)


def test_folders_swapped_for_links_while_it_writes_lead_no_write_outside(
    tmp_path, place, opened, torture
):
    outside, inside, link = tmp_path / "outside", place.vault / "Sub", place.vault / "link"
    outside.mkdir()
    (outside / "inner.md").write_bytes(FILES["Sub/inner.md"])
    link.symlink_to(outside)
    stop, written = threading.Event(), []

    def swap() -> None:
        folder = os.open(place.vault, os.O_RDONLY | os.O_DIRECTORY)
        while not stop.is_set():
            exchange(folder, inside.name, link.name)
        os.close(folder)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(2000 if torture else 60):
            line, new = f"- n{number}.", VaultPath(f"Sub/new{number}.md")
            edit = AppendToSection(section="Facts", content=line)
            try:
                opened.store.edit(VaultPath("Sub/inner.md"), edit, ME)
                written.append(line.encode())
                opened.store.create(new, b"new\n", ME)
                opened.store.delete(new, ME)
            except (NotFoundError, PathRefusedError, StorageFailedError):
                continue
    finally:
        stop.set()
        swapping.join()

    found = {path.name: path.read_bytes() for path in outside.iterdir()}
    assert found == {"inner.md": FILES["Sub/inner.md"]}
    text = ((link if inside.is_symlink() else inside) / "inner.md").read_bytes()
    assert [line for line in written if line not in text] == []


def test_devices_pipes_and_sockets_are_refused_at_once(place, opened):
    store, names = opened.store, ["pipe.md"]
    os.mkfifo(place.vault / "pipe.md")
    with contextlib.suppress(PermissionError):  # only root makes devices
        os.mknod(place.vault / "zero.md", 0o600 | 0o020000, os.makedev(1, 5))
        names.append("zero.md")
    for path in map(VaultPath, names):
        for act in (
            lambda path=path: store.read(path),
            lambda path=path: store.replace(path, b"x", ME),
            lambda path=path: store.move(path, VaultPath("elsewhere.md"), ME),
            lambda path=path: store.delete(path, ME),
        ):
            with pytest.raises(PathRefusedError):
                act()
        assert (place.vault / path).exists()
