"""A home on a full disk: what to do is said in a sentence, by every command, before and while a
daemon runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.small_disk import fill, make_room, mounted_disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of eight megabytes."""
    with mounted_disk(tmp_path / "disk", 8) as disk:
        yield disk


def test_nothing_starts_on_a_full_disk_and_each_command_says_what_to_do(
    command_line: CommandLine, small_disk: Path
):
    there = replace(command_line, home=small_disk / "home")
    fill(small_disk)
    for words in (("start",), ("start", "--foreground")):
        said = there.fails(1, *words, "--vault", str(command_line.vault), "--port", "0")
        assert said.startswith(f"parachute: the disk of {there.home} is full")
        assert "make room for 4 MB there, then start again" in said
    assert "No space left on device" in there.fails(1, "keys", "create", "phone")
    assert "No space left on device" in there.fails(1, "config", "set", "port", "4444")


def test_a_disk_that_fills_up_meanwhile_is_reported_with_no_traceback(
    command_line: CommandLine, small_disk: Path
):
    """The daemon goes on, also when it is to start again."""
    there = replace(command_line, home=small_disk / "home")
    there.start()
    pid = there.json("status")["pid"]
    try:
        fill(small_disk)
        (command_line.vault / "a.md").write_text("# A\n")
        assert "No space left on device" in there.fails(1, "keys", "create", "phone")
        assert "make room for 4 MB there" in there.fails(1, "restart")
        assert there.json("status")["pid"] == pid
    finally:
        make_room(small_disk)
        there.does("stop")
    for log in ("daemon.log", "start.log"):
        text = (there.home / "logs" / log).read_text()
        assert "Traceback" not in text, text
