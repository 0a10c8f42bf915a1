"""What a module leaves behind is removed, and nothing that its links lead to."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from parachuted.modules.hosting.module_containers import drop_tree


def test_all_of_it_goes_away_and_nothing_that_a_link_led_to(tmp_path: Path):
    left, outside = tmp_path / "left", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (left / "locked/inner").mkdir(parents=True)
    (left / "link").symlink_to(outside)
    (left / "dangling").symlink_to("nowhere")
    os.mkfifo(left / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(left / "sock"))
    (left / os.fsdecode(b"\xff\n")).mkdir()
    (left / "locked/inner/link").symlink_to(outside, target_is_directory=True)
    (left / "locked/inner").chmod(0)
    (left / "locked").chmod(0)

    drop_tree(left)
    assert not left.exists()
    drop_tree(left)
    left.symlink_to(outside)
    with pytest.raises(OSError, match="link"):
        drop_tree(left)
    assert (outside / "kept").read_text() == "x"


def test_folders_deeper_than_any_path_go_away_too(tmp_path: Path):
    left = tmp_path / "left"
    left.mkdir()
    at = os.open(left, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d" * 50, dir_fd=at)
        deeper = os.open("d" * 50, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = deeper
    os.close(at)

    drop_tree(left)

    assert not left.exists()
