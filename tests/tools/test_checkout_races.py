"""Races: a program in the vault or beside it that swaps files and folders for links, while they are
copied and checked in, has no byte of another file read and none written.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.keys import AccessGrant, PathGlob
from tests.runs.test_outside_folders import copy_into
from tests.tools.checkout_rig import at_desk

pytestmark = pytest.mark.on_disk
SECRET = "CANARY-OF-ANOTHER-FILE"  # noqa: S105  what no one else may see
ROUNDS = 10_000
SLICE = 80
# Swaps two ways: the thing for a link to another, by one rename, and a folder for a link, so that
# all moments are met.
SWAPPER = """
import os, sys
counter = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
places = [(one, target) for one, target in zip(sys.argv[2::2], sys.argv[3::2])]
for one, target in places:
    os.symlink(target, one + ".link~")
count = 0
while True:
    for one, target in places:
        try:
            os.rename(one, one + ".real~"); os.rename(one + ".link~", one)
            os.rename(one, one + ".link~"); os.rename(one + ".real~", one)
        except OSError:
            for back in (".real~", ".link~"):
                try:
                    if not os.path.lexists(one) and back == ".real~": os.rename(one + back, one)
                except OSError:
                    pass
            try:
                if not os.path.lexists(one + ".link~"): os.symlink(target, one + ".link~")
            except OSError:
                pass
        count += 1
        os.pwrite(counter, b"%d" % count, 0)
"""


@contextlib.contextmanager
def swapping(counter: Path, *places: tuple[Path, Path]) -> Iterator[None]:
    """A program that swaps each of these places for a link to its target, over and over; `counter`
    tells how often.
    """
    words = [str(counter), *(str(part) for place in places for part in place)]
    process = subprocess.Popen([sys.executable, "-S", "-c", SWAPPER, *words])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def secrets_beside(folder: Path) -> Path:
    """What is no one's business here: not the vault, nor the copy."""
    beside = folder / "beside"
    for name in ("roof.md", "monday.md", "garden.md", "a.txt", "deep/b.txt"):
        (beside / name).parent.mkdir(parents=True, exist_ok=True)
        (beside / name).write_text(SECRET)
    return beside


def all_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def test_links_swapped_into_the_vault_lead_no_copy_and_no_write_anywhere(
    tmp_path: Path, torture
):
    rounds = (ROUNDS if torture else SLICE) // 4
    with at_desk(tmp_path / "desk") as rig:
        beside = secrets_beside(tmp_path)
        rig.save("Hidden/garden.md", f"# {SECRET}\n")
        rig.save("Hidden/roof.md", f"# {SECRET}\n")
        before, hidden = all_of(beside), all_of(rig.vault / "Hidden")
        swaps = [
            (rig.vault / "Projects", rig.vault / "Hidden"),
            (rig.vault / "Daily", beside),
        ]
        with swapping(
            tmp_path / "swaps", *swaps, (rig.vault / "Library/book.md", beside / "roof.md")
        ):
            for number in range(rounds):
                await rig.open(reads=NOT_HIDDEN)
                rig.shell("Projects/garden.md", f"# Garden {number}\n")
                rig.shell("Daily/monday.md", f"# Monday {number}\n")
                rig.shell(f"Projects/new-{number % 8}.md", f"# New {number}\n")
                await rig.check_in()
                assert SECRET not in str(rig.texts(rig.work))
        assert all_of(beside) == before
        assert all_of(rig.vault / "Hidden") == hidden
        assert int((tmp_path / "swaps").read_text())


def test_links_swapped_in_beside_the_vault_lead_no_copy_to_what_is_hidden(tmp_path: Path, torture):
    rounds = (ROUNDS if torture else SLICE) // 4
    user = tmp_path / "user"
    (user / "Work/client/deep").mkdir(parents=True)
    (user / "Work/client/a.txt").write_text("a")
    (user / "Work/client/deep/b.txt").write_text("b")
    (user / "Work/one.txt").write_text("one")
    shut = user / ".ssh"
    secrets_beside(user)
    (user / "beside").rename(shut)
    into = tmp_path / "into"
    copied = 0
    swaps = [
        (user / "Work/client", shut),
        (user / "Work/client/deep", shut / "deep"),
        (user / "Work/one.txt", shut / "a.txt"),
    ]
    with swapping(tmp_path / "swaps", *swaps):
        for _ in range(rounds):
            into.mkdir()
            outside = copy_into(
                into, ("~/Work/client", "~/Work/client/deep", "~/Work/one.txt", "~/Work"), user
            )
            assert SECRET.encode() not in b"".join(all_of(into).values()), outside
            copied += bool(outside.copied)
            shutil.rmtree(into)
    assert copied
    assert set(all_of(shut).values()) == {SECRET.encode()}
    assert int((tmp_path / "swaps").read_text())


NOT_HIDDEN = AccessGrant(
    alternatives=((tuple(map(PathGlob, ("Projects/**", "Daily/**", "Library/**"))),),)
)
