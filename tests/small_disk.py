"""A small disk, and how to fill it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A disk of that size; the test is skipped where none can be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if (
        sys.platform != "linux"
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> None:
    with (disk / "fill").open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    assert os.statvfs(disk).f_bavail == 0


def make_room(disk: Path) -> None:
    (disk / "fill").unlink()
