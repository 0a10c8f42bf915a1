"""Check-in interrupted and abused: each file of the vault is old or new whatever happens, and
nothing outside the grant is touched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.checkin_killed import NOTES, text
from tests.tools.checkout_rig import CheckoutRig, at_desk

ROOT = Path(__file__).resolve().parents[2]
PLAIN = (
    "a.md A.md roof.md garden.md monday.md x .git .mcp.json Modules Suggestions Daily Projects -rf "
    "~ a.tmp .agents CON *.md {x}.md"
)
ODD = ["new\n.md", "\u202egpj.md", "caf\u00e9.md", "cafe\u0301.md", "x" * 255, "\udcff.md"]
NAMES = st.sampled_from([*PLAIN.split(), *ODD])
WHERE = st.lists(NAMES, min_size=1, max_size=2).map("/".join)
GRANTED = ["Projects/", "Daily/", "Library/"]
FOLDERS = st.sampled_from([*GRANTED, *GRANTED, "", "Modules/", "Suggestions/", ".claude/"])
PATHS = st.tuples(FOLDERS, WHERE).map("".join)
KINDS = "write write write link hardlink fifo folder remove rename swap"
ACTS = st.lists(st.tuples(st.sampled_from(KINDS.split()), PATHS, PATHS), min_size=8, max_size=20)


def test_a_daemon_killed_in_a_check_in_leaves_each_file_old_or_new(tmp_path: Path, torture):
    seed = time.time_ns() % (1 << 30)
    chance, turn = random.Random(seed), 0  # noqa: S311  when to kill is no secret
    rig = CheckoutRig(folder=tmp_path)
    for number in range(NOTES):
        rig.save(f"Projects/{number}.md", text(number, 0))
    rig.save("Projects/here.md", "# Here or there\n")
    rig.close()
    for _ in range(300 if torture else 2):
        turn += 1_000
        _killed_after(chance.uniform(0, 0.25), tmp_path, turn)
        rig = CheckoutRig(folder=tmp_path)
        rig.recover()
        found = rig.texts()
        rig.close()
        for number in range(NOTES):
            said = found.pop(f"Projects/{number}.md")
            of_turn = re.search(r"turn (\d+)", said)
            assert of_turn is not None
            assert said == text(number, int(of_turn[1])), f"seed {seed}"
        assert list(found.values()) == ["# Here or there\n"], f"seed {seed}"
        assert set(found) <= {"Projects/here.md", "Projects/there.md"}, f"seed {seed}"


def _killed_after(seconds: float, folder: Path, turn: int) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.tools.checkin_killed", str(folder), str(turn)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        time.sleep(seconds)
    finally:
        worker.kill()
        worker.communicate()


@settings(max_examples=25)
@given(acts=ACTS, is_tainted=st.booleans())
def test_whatever_programs_do_to_a_copy_nothing_outside_its_grant_changes(
    tmp_path_factory, acts, is_tainted
):
    async def story(rig: CheckoutRig) -> None:
        before = rig.texts()
        await rig.open()
        if is_tainted:
            rig.taint.read("Inbox/mail.md")
        for kind, one, other in acts:
            do(rig, kind, one, other)
        first = await rig.check_in()
        after = rig.texts()
        may = ("Daily/",) if is_tainted else ("Daily/", "Projects/")
        for path in before.keys() | after.keys():
            if before.get(path) != after.get(path):
                assert path.startswith(may), path
                assert "/." not in path
        assert not [path for path in rig.vault.rglob("*") if path.is_symlink() or path.is_fifo()]
        assert "secret" not in "".join(after.values())
        assert len(first.words()) < 100_000
        assert (rig.folder / "secret").read_text() == "secret"

    folder = tmp_path_factory.mktemp("desk")
    with at_desk(folder) as rig:
        (folder / "secret").write_text("secret")
        asyncio.run(story(rig))


def do(rig: CheckoutRig, kind: str, one: str, other: str) -> None:
    """One thing that a hostile program does. What its own system refuses it is not done."""
    place, to = rig.work / one, rig.work / other
    acts = {
        "write": lambda: write(place, f"agent {one!r}"),
        "link": lambda: place.symlink_to(rig.folder / "secret"),
        "hardlink": lambda: os.link(rig.work / "Library/book.md", place),
        "fifo": lambda: os.mkfifo(place),
        "folder": place.mkdir,
        "remove": lambda: (
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
        ),
        "rename": lambda: place.rename(to),
        "swap": lambda: (shutil.rmtree(place), place.symlink_to(rig.folder)),
    }
    with contextlib.suppress(OSError, ValueError):
        if all(
            path.parent.resolve().is_relative_to(rig.work) for path in (place, to)
        ):  # in a container, links lead nowhere else
            for path in (place, to):
                path.parent.mkdir(parents=True, exist_ok=True)
            acts[kind]()


def write(place: Path, words: str) -> None:
    descriptor = os.open(
        place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600
    )
    os.write(descriptor, words.encode())
    os.close(descriptor)
