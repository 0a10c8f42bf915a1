"""Hostile folder: what an agent's programs leave behind is read without harm and mended without
reaching anything else.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.tools.hostile_folder import HostileFolder, ReadRefusedError, shown


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (tmp_path / "secret").write_text("secret")
    return made


@pytest.fixture
def folder(work: Path) -> Iterator[HostileFolder]:
    made = HostileFolder(work)
    yield made
    made.close()


def test_things_that_are_no_files_are_reported_and_never_waited_for(
    work: Path, folder: HostileFolder, tmp_path: Path
):
    (work / "link.md").symlink_to(tmp_path / "secret")
    (work / "folder").symlink_to(tmp_path)
    os.mkfifo(work / "pipe.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(work / "socket.md"))
    (work / "bad\nname.md").write_text("x")
    (work / "note.md").write_text("x")

    walked = folder.walk(100)
    assert list(walked.files) == ["note.md"]
    assert walked.odd["link.md"] == walked.odd["folder"] == "a link"
    assert (walked.odd["pipe.md"], walked.odd["socket.md"]) == ("a pipe", "a socket")
    assert "control characters" in walked.odd["bad\nname.md"]
    for path in ("link.md", "pipe.md", "socket.md", "folder/secret", "folder"):
        with pytest.raises((ReadRefusedError, OSError)):
            folder.read(path, 100)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_read(work: Path, folder: HostileFolder):
    os.mknod(work / "zero.md", 0o600 | 0o020000, os.makedev(1, 5))

    assert folder.walk(10).odd == {"zero.md": "a device"}
    with pytest.raises(ReadRefusedError):
        folder.read("zero.md", 100)


def test_a_huge_file_of_holes_is_refused_by_its_size(work: Path, folder: HostileFolder):
    with (work / "huge.md").open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(ReadRefusedError, match="larger than 1 MB"):
        folder.read("huge.md", 1 << 20)


def test_a_file_of_several_names_is_refused(work: Path, folder: HostileFolder):
    (work / "a.md").write_text("x")
    os.link(work / "a.md", work / "b.md")

    with pytest.raises(ReadRefusedError, match="several names"):
        folder.read("a.md", 100)


def test_a_flood_of_files_ends_the_walk_and_nothing_is_taken_for_gone(
    work: Path, folder: HostileFolder
):
    for number in range(300):
        (work / f"{number}.md").write_text("")

    walked = folder.walk(100)
    assert len(walked.files) <= 100
    assert not walked.is_known("note.md")
    assert "more than 100 files" in walked.closed[""]


def test_folders_as_deep_as_can_be_are_passed_over_and_taken_away(
    work: Path, folder: HostileFolder
):
    place = os.open(work, os.O_RDONLY)
    for _ in range(1_000):
        os.mkdir("d", dir_fd=place)
        deeper = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = deeper
    os.close(place)

    walked = folder.walk(10_000)
    assert len(walked.closed) == 1
    assert walked.is_known("a.md")
    folder.empty()
    assert list(work.iterdir()) == []


def test_what_is_put_replaces_whatever_stands_in_its_way_and_nothing_that_a_link_leads_to(
    work: Path, folder: HostileFolder, tmp_path: Path
):
    (work / "a").symlink_to(tmp_path)
    (work / "b").write_text("in the way")
    (work / "c.md").mkdir()
    (work / "c.md/full").write_text("x")
    (work / "d.md").symlink_to(tmp_path / "secret")
    for path in ("a/secret", "b/deep/x.md", "c.md", "d.md"):
        folder.put(path, b"mine")

    assert {
        path: (work / path).read_text() for path in ("a/secret", "b/deep/x.md", "c.md", "d.md")
    } == dict.fromkeys(("a/secret", "b/deep/x.md", "c.md", "d.md"), "mine")
    assert (tmp_path / "secret").read_text() == "secret"


def test_taking_away_follows_no_link(work: Path, folder: HostileFolder, tmp_path: Path):
    (work / "a").symlink_to(tmp_path)
    (work / "b").mkdir()
    (work / "b/link").symlink_to(tmp_path)
    folder.remove("a/secret")
    folder.remove("a")
    folder.remove("b")
    folder.remove("not/there.md")

    assert list(work.iterdir()) == []
    assert (tmp_path / "secret").exists()


def test_links_swapped_in_while_it_works_lead_nowhere(
    work: Path, folder: HostileFolder, tmp_path: Path, torture
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "note.md").write_text("secret")
    (work / "real").mkdir()
    (work / "real/note.md").write_text("mine")
    (work / "swapped").symlink_to(outside)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for one, other in (
                ("real", "x"),
                ("swapped", "real"),
                ("real", "swapped"),
                ("x", "real"),
            ):
                with contextlib.suppress(OSError):
                    (work / one).rename(work / other)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(10_000 if torture else 500):
            with contextlib.suppress(ReadRefusedError, OSError):
                assert folder.read("real/note.md", 100)[0] != b"secret"
            with contextlib.suppress(OSError):
                folder.put("real/note.md", b"mine")
                if number % 5 == 0:
                    folder.remove("real/note.md")
                    folder.walk(100)
    finally:
        done.set()
        swapper.join()
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"note.md": "secret"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root opens what is shut")
def test_a_folder_that_its_owner_shut_is_opened_again(work: Path, folder: HostileFolder):
    (work / "shut").mkdir()
    (work / "shut/a.md").write_text("x")
    (work / "shut").chmod(0)

    assert list(folder.walk(10).files) == ["shut/a.md"]


def test_what_is_reported_of_a_name_is_bounded_and_printable():
    assert (
        shown("a\x1b[2J\n" + "x" * 500)
        == "a\\x1b[2J\\x0a" + "x" * (200 - len("a\\x1b[2J\\x0a")) + "…"
    )
