"""Random changes: whatever is done to a vault, the daemon ends up knowing what is there, and what
it told leads there step by step.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stories.daemon_rig import DaemonRig, Live, save
from tests.stories.listing import assert_index_equals_disk, followed, listing

STEPS = 40
NAMES = ("a.md", "b.md", "c.md", "AGENTS.md", "picture.png", "Ä.md")
FOLDERS = ("", "one", "two", "one/deep", "two/deep/er")


class Person:
    """Does this and that to a vault, by chance."""

    def __init__(self, vault: Path, seed: str) -> None:
        self._vault = vault
        self._chance = random.Random(seed)  # noqa: S311  nothing secret
        self._count = 0

    def act(self) -> None:
        """One thing, if it can be done just now."""
        actions: list[Callable[[], object]] = [
            self.write,
            self.write,
            self.replace,
            self.append,
            self.copy,
            self.touch,
            self.remove,
            self.rename,
            self.rename_over,
            self.swap,
            self.save_with_backup,
            self.make_scrap,
            self.rename_folder,
            self.remove_folder,
            self.fill_folder,
            self.delete_and_recreate,
        ]
        self._chance.choice(actions)()

    def write(self) -> None:
        path = self._somewhere()
        path.write_text(self._text())

    def replace(self) -> None:
        save(self._somewhere(), self._text())

    def append(self) -> None:
        with self._somewhere().open("a") as file:
            file.write(self._text())

    def copy(self) -> None:
        source, target = self._file(), self._somewhere()
        if source != target:
            shutil.copy2(source, target)

    def touch(self) -> None:
        self._file().touch()

    def remove(self) -> None:
        self._file().unlink()

    def rename(self) -> None:
        path = self._file()
        path.rename(path.with_name(f"named {self._count}{path.suffix}"))

    def rename_over(self) -> None:
        self._file().rename(self._somewhere())

    def swap(self) -> None:
        one, other = self._file(), self._file()
        one.rename(one.with_name("between.md"))
        if one != other:
            other.rename(one)
        one.with_name("between.md").rename(other)

    def save_with_backup(self) -> None:
        path = self._file()
        path.rename(f"{path}~")
        path.write_text(self._text())
        Path(f"{path}~").unlink()

    def make_scrap(self) -> None:
        path = self._somewhere().with_name("passing.md")
        path.write_text(self._text())
        path.unlink()

    def rename_folder(self) -> None:
        folder = self._folder()
        target = self._vault / f"renamed {self._count}"
        if not target.exists():
            folder.rename(target)

    def remove_folder(self) -> None:
        if sum(1 for path in self._folder().rglob("*") if path.is_file()) < 8:
            shutil.rmtree(self._folder())

    def fill_folder(self) -> None:
        folder = self._vault / f"new {self._count}/deep"
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(self._chance.randint(1, 6)):
            (folder / f"{number}.md").write_text(self._text())

    def delete_and_recreate(self) -> None:
        path = self._file()
        path.unlink()
        path.write_text(self._text())

    def _text(self) -> str:
        """Now and then the same text as before."""
        self._count += 1
        return f"# {self._chance.choice([self._count, self._count, 'again', ''])}\n"

    def _somewhere(self) -> Path:
        path = self._vault / self._chance.choice(FOLDERS) / self._chance.choice(NAMES)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _file(self) -> Path:
        files = sorted(
            path
            for path in self._vault.rglob("*")
            if path.is_file() and ".parachute" not in path.parts
        )
        return self._chance.choice(files) if files else self._fresh()

    def _fresh(self) -> Path:
        self.replace()
        return self._file()

    def _folder(self) -> Path:
        folders = sorted(
            path
            for path in self._vault.rglob("*")
            if path.is_dir() and ".parachute" not in path.parts
        )
        return self._chance.choice(folders) if folders else self._somewhere().parent


@pytest.mark.parametrize("seed", range(4))
async def test_the_index_ends_equal_to_the_disk_and_the_events_lead_there(
    seed: int, live: Live, vault: Path, torture
):
    known: list[str] | None = None
    for number in range(100 if torture else 1):
        person = Person(vault, f"{seed}-{number}")
        for _life in range(3):
            for _ in range(STEPS // 4):
                person.act()
            async with live() as daemon_rig:
                if known is None:
                    known = list(daemon_rig.daemon.watched.index.paths())
                for _ in range(STEPS):
                    person.act()
                    await sometimes(person, daemon_rig)
                await caught_up(daemon_rig)

                assert_index_equals_disk(daemon_rig.daemon, vault)
                assert followed(known, daemon_rig) == set(daemon_rig.daemon.watched.index.paths())
                known = list(listing(daemon_rig.daemon.watched.index)[0])


async def sometimes(person: Person, daemon_rig: DaemonRig) -> None:
    """Go on at once, or let the daemon begin to look, or let it finish."""
    turns = person._chance.choice([0, 0, 0, 1, 5, 20])
    for _ in range(turns):
        await daemon_rig.daemon.watched.detector._loop.run_in_executor(
            None, daemon_rig.daemon.watched.index.all_folders
        )
    if person._chance.random() < 0.1:
        await caught_up(daemon_rig)


async def caught_up(daemon_rig: DaemonRig) -> None:
    """Until all hints are worked off. Most of the files gone at once are what the person meant."""
    daemon_rig.daemon.watched.detector._watcher.poll()
    await daemon_rig.until(lambda: not daemon_rig.daemon.watched.detector.busy)
    if "missing" in daemon_rig.daemon.watched.problems.open:
        await daemon_rig.daemon.watched.detector.rescan(accept_missing=True)
        await daemon_rig.until(lambda: not daemon_rig.daemon.watched.detector.busy)
