"""Random writes, saves, moves, undos, restores and prunings, against what must hold whatever their
order.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.events import Bus
from parachuted.history import Retention, RetentionLimits
from parachuted.history.restore import Restore
from parachuted.history.run_account import save
from parachuted.history.undo import Undo, UndoResult
from parachuted.history.why import HistoryQueries, Why
from parachuted.vault import (
    Author,
    ObjectStore,
    Store,
    VaultPath,
    VaultRoot,
    WriteJournal,
    digest_of,
    trail_of,
)

NAMES = ("a.md", "b.md", "c.md")
START = datetime.now().astimezone()
ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "agent",
                "person",
                "move",
                "delete",
                "undo",
                "undo",
                "redo",
                "restore",
                "prune",
                "wait",
            ]
        ),
        st.integers(0, 2),
        st.integers(0, 50),
    ),
    min_size=3,
    max_size=25,
)


@dataclass
class UndoVault:
    """A vault; each line that anybody writes is like no other."""

    folder: Path
    now: datetime = START
    number: int = 0
    runs: list[str] = field(default_factory=list)
    undos: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vault = self.folder / "vault"
        self.vault.mkdir()
        self.objects, self.history = (
            ObjectStore(self.folder / "objects"),
            WriteJournal(self.folder / "history.db"),
        )
        self.store = Store(VaultRoot(self.vault), self.objects, self.history, lambda: self.now)
        self.past = HistoryQueries(self.store)
        self.undo = Undo(self.store, Bus(lambda: self.now))
        self.restore = Restore(self.store, stood_at={})
        for name in NAMES:
            (self.vault / name).write_text("".join(f"{name} {line}\n" for line in range(4)))

    def close(self) -> None:
        for part in (self.store, self.history, self.objects):
            part.close()

    def line(self, who: str) -> str:
        self.number += 1
        return f"{who} {self.number}\n"

    def with_line(self, text: str, place: int, line: str) -> str:
        lines = text.splitlines(keepends=True)
        return "".join(
            [*lines[: place % (len(lines) + 1)], line, *lines[place % (len(lines) + 1) :]]
        )

    def texts(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in self.vault.iterdir()}

    def begin(self) -> Author:
        run = f"r-{len(self.runs):04}"
        self.runs.append(run)
        save(
            self.history,
            {
                "id": run,
                "watcher": "a.md",
                "agent": "curator",
                "causes": [],
                "parents": [],
                "started": self.now.isoformat(),
                "outcome": "changed",
                "undone": None,
            },
        )
        return Author(by="curator", run=run)

    async def act(self, what: str, which: int, number: int) -> None:  # noqa: C901  a table
        self.now += timedelta(seconds=1)
        name = NAMES[which]
        file, path = self.vault / name, VaultPath(name)
        if what == "agent" and file.exists():
            for _ in range(1 + number % 2):
                author = (
                    self.begin()
                    if not self.runs or number % 3
                    else Author(by="curator", run=self.runs[-1])
                )
                self.store.replace(
                    path,
                    self.with_line(file.read_text(), number, self.line("agent")).encode(),
                    author,
                )
        elif what == "person":
            file.write_text(
                self.with_line(
                    file.read_text() if file.exists() else "", number, self.line("person")
                )
            )
            self.history.saw(self.now, [(name, "modified", None, digest_of(file.read_bytes()))])
        elif what == "move" and file.exists():
            target = VaultPath(NAMES[(which + 1 + number % 2) % 3])
            if not (self.vault / target).exists():
                self.store.move(path, target, self.begin())
        elif what == "delete" and file.exists():
            self.store.delete(path, self.begin())
        elif what in {"undo", "redo"}:
            await self.take_back(self.undos if what == "redo" else self.runs, number)
        elif what == "restore":
            await self.bring_back(path, number)
        elif what == "prune":
            self.prune(number)
        elif what == "wait":
            self.wait(number)

    async def take_back(self, runs: list[str], number: int) -> None:
        """No undo loses a person's line, and an undo of an undo, when no one wrote in between, is
        as if neither had been.
        """
        if not runs:
            return
        before = self.texts()
        try:
            undone = await self.undo.undo(runs[number % len(runs)])
        except (EditRefusedError, NotFoundError):
            assert self.texts() == before
            return
        self.check_persons_lines(before, undone)
        between = self.texts()
        if number % 2 and not any(
            "no longer kept" in text for texts in undone.kept.values() for text in texts
        ):
            self.now += timedelta(seconds=1)
            again = await self.undo.undo(undone.undo)
            assert self.texts() == before, (undone, again)
            self.now += timedelta(seconds=1)
            once_more = await self.undo.undo(again.undo)
            assert self.texts() == between
            undone = once_more
        self.undos.append(undone.undo)

    def check_persons_lines(self, before: dict[str, bytes], undone: UndoResult) -> None:
        """They may go with a file that is as the run made it, and never out of one that stays."""
        now = self.texts()
        for name, text in before.items():
            if name in now:
                gone = {line for line in text.splitlines() if line.startswith(b"person")} - set(
                    b"\n".join(now.values()).splitlines()
                )
                assert not gone or name in undone.paths, (name, gone)

    async def bring_back(self, path: VaultPath, number: int) -> None:
        """Any version that is said to be kept can be had, to the byte."""
        try:
            versions = self.past.changes(path, 100).versions
        except NotFoundError:
            return
        kept = [version for version in versions if version.kept]
        if kept:
            chosen = kept[number % len(kept)]
            await self.restore.restore(path, version=str(chosen.version))
            assert digest_of((self.vault / path).read_bytes()) == chosen.version

    def prune(self, number: int) -> None:
        """A pruning changes no file, and leaves what stands there, and what went lately, to
        be had.
        """
        before = self.texts()
        gone = [
            self.history.writes_of(name)[-1].before
            for name in NAMES
            if name not in before and self.history.writes_of(name)
        ]
        lately = [digest for digest in gone if digest in self.objects]
        keep = RetentionLimits(days=number % 40, megabytes=0)
        wanted = {digest_of(text) for text in before.values()}
        had = [digest for digest in wanted if digest in self.objects]
        Retention(
            history=self.history, objects=self.objects, keep=keep, clock=lambda: self.now
        ).prune(wanted)
        assert self.texts() == before
        assert all(digest in self.objects for digest in had)
        if not keep.days:
            assert all(digest in self.objects for digest in lately)

    def wait(self, days: int) -> None:
        self.now += timedelta(days=days)
        for file in (self.folder / "objects").glob("??/*"):
            os.utime(file, (file.stat().st_mtime, file.stat().st_mtime))

    def check(self) -> None:
        """Every line has an origin, and no agent's line is told as a person's, nor the other way
        round.
        """
        for name in self.texts():
            path = VaultPath(name)
            for line in Why(self.store).lines(path):
                who = line.text.partition(" ")[0]
                if who == "agent":
                    assert line.by in {"curator", "earlier", "person", "undo", "restore"}, line
                elif who == "person":
                    assert line.by != "curator", line
            trail = trail_of(self.history, path, digest_of((self.vault / name).read_bytes()))
            assert trail[-1].digest == digest_of((self.vault / name).read_bytes())


async def live(acts: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = UndoVault(Path(folder))
        try:
            for act in acts:
                try:
                    await world.act(*act)
                except ConflictError:
                    assert act[0] == "restore"
                world.check()
        finally:
            world.close()


def test_whatever_is_done_and_undone_nothing_is_lost(*, torture: bool):
    @settings(
        max_examples=20_000 if torture else 25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(ACTS)
    def holds(acts: list[tuple[str, int, int]]) -> None:
        asyncio.run(live(acts))

    holds()
