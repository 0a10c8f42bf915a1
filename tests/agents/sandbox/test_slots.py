import asyncio
import os
import socket
import stat

import pytest

from parachuted.agents.sandbox.slots import (
    container_user,
    drop_slot,
    drop_tree,
    make_slot,
    name_slot,
    too_much,
    watch_disk,
)
from tests.agents.sandbox.conftest import boxed


@pytest.fixture
def slot(tmp_path):
    made = name_slot(tmp_path / "slots")
    make_slot(made)
    return made


def test_the_folders_of_a_slot_are_no_one_elses(slot):
    assert stat.S_IMODE(slot.work.parent.stat().st_mode) == 0o700
    assert {folder.stat().st_uid for folder in (slot.work, slot.home, slot.outside)} == {
        container_user()[0]
    }
    assert slot.sockets.stat().st_uid == os.getuid()
    assert (slot.sockets / ".slot").read_text() == slot.id


def test_all_of_it_goes_away_and_nothing_that_a_link_led_to(slot, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (slot.work / "link").symlink_to(outside)
    (slot.work / "dangling").symlink_to("nowhere")
    os.mkfifo(slot.work / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(slot.sockets / "sock"))
    (slot.work / os.fsdecode(b"\xff\n")).mkdir()
    locked = slot.home / "locked"
    (locked / "inner").mkdir(parents=True)
    (locked / "inner" / "link").symlink_to(outside, target_is_directory=True)
    (locked / "inner").chmod(0)
    locked.chmod(0)

    drop_slot(slot)

    assert not slot.work.parent.exists()
    assert (outside / "kept").read_text() == "x"


def test_folders_deeper_than_any_path_go_away_too(slot):
    at = os.open(slot.work, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d" * 50, dir_fd=at)
        deeper = os.open("d" * 50, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(at)

    assert "deep" in (too_much(slot) or "")
    drop_slot(slot)

    assert not slot.work.parent.exists()


def test_what_is_not_there_is_removed_already(tmp_path):
    drop_tree(tmp_path / "none")


def test_a_link_in_the_place_of_a_slot_is_not_followed(slot, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("x")
    link = tmp_path / "slots" / "link"
    link.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="link"):
        drop_tree(link)

    assert (tmp_path / "elsewhere" / "kept").exists()


def test_too_much_is_what_takes_room_on_the_disk(slot):
    assert too_much(slot) is None
    with (slot.work / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert too_much(slot) is None

    (slot.home / "full").write_bytes(bytes(2 << 20))

    assert too_much(slot, most_bytes=1 << 20) == "it put more than 1 MB on the disk"


def test_too_many_files_are_too_much(slot):
    for number in range(20):
        (slot.work / str(number)).touch()

    assert too_much(slot, most_files=10) == "it made more than 10 files"


def test_a_link_to_the_whole_disk_counts_as_a_link(slot):
    (slot.work / "all").symlink_to("/usr")

    assert too_much(slot, most_files=5) is None


async def test_a_run_that_fills_the_disk_is_reported_once(tmp_path):
    slot = name_slot(tmp_path)
    make_slot(slot)
    (slot.work / "big").write_bytes(bytes(2 << 20))
    said: list[str] = []

    async with asyncio.timeout(30):
        await watch_disk(slot, said.append, most_bytes=1 << 20, every_s=0.01)

    assert said == ["it put more than 1 MB on the disk"]


async def test_what_cannot_be_looked_at_is_reported(tmp_path):
    said: list[str] = []

    async with asyncio.timeout(30):
        await watch_disk(name_slot(tmp_path), said.append, every_s=0.01)

    assert "cannot be looked at" in said[0]


async def test_a_container_that_fills_the_disk_is_ended_with_words(sandboxes):
    """At its real limit: files of 200 MB, one after the other, until it is ended."""
    line = (
        "n=0; while :; do fallocate -l 200M /vault/$n || head -c 200M /dev/zero > /vault/$n; "
        "n=$((n+1)); sleep 0.1; done"
    )
    async with boxed(sandboxes, "sh", "-c", line) as at_work:
        async with asyncio.timeout(30):
            assert await at_work.container.stdout.read() == b""
            assert await at_work.container.wait() == 137

        assert at_work.container.problem == "it put more than 512 MB on the disk"
