"""Actors: what other programs do to a vault.

They run in a process of their own, so that the daemon is not held by them.
"""

from __future__ import annotations

import os
from pathlib import Path


def make_nested_folders(vault: Path, count: int) -> None:
    for number in range(count):
        folder = vault / f"d{number}/sub/deeper"
        folder.mkdir(parents=True)
        (folder / "note.md").write_text(f"# {number}\n")


def write_many(vault: Path, count: int) -> None:
    for number in range(10):
        (vault / str(number)).mkdir()
    for number in range(count):
        (vault / f"{number % 10}/note {number}.md").write_text(f"# {number}\n")


def replace_all(vault: Path, times: int) -> None:
    paths = sorted(vault.rglob("*.md"))
    for turn in range(times):
        for path in paths:
            temporary = path.with_name(f".{path.name}.new")
            temporary.write_text(f"replaced {turn} {path.name}\n")
            temporary.replace(path)


def make_noise(vault: Path, count: int) -> None:
    """So many hints about two files that no one looks at.

    (The same hint twice in a row would count once.)
    """
    names = [os.fspath(vault / f".noise {number}") for number in range(2)]
    for number in range(count):
        os.close(os.open(names[number % 2], os.O_WRONLY | os.O_CREAT, 0o644))
