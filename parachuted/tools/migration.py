"""Migration: moves an older program's context files into folders, as one run that can be undone.

`Chat/contexts/garden-context.md` becomes the context file of the folder named `garden`. Where that
folder has one already, the old file stays, and a person decides what of it is still needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from parachuted.access.paths import is_hidden
from parachuted.context import LEGACY_FOLDER, SessionContexts
from parachuted.errors import ParachuteError
from parachuted.events import Bus
from parachuted.history.run_account import Operation, new_act
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import CONTEXT_NAMES, Store, VaultIndex, VaultPath, printable

_ENDING = re.compile(r"(?<=.)(-context)?\.md$", re.IGNORECASE)
_PROJECTS = "Projects"
_REASON = "old context files were moved into folders"
CanSee = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """An old file, the context file that it becomes, and why it does not (`refuse`)."""

    file: VaultPath
    target: VaultPath
    action: Literal["move", "refuse"] = "move"
    reason: str = "there is no context file yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationResult:
    """What was done: the run's id (None: there was nothing to do), what became of each file, how
    many choices of sessions followed.
    """

    run: str | None
    moves: tuple[PlannedMove, ...]
    sessions: int = 0


def plan_moves(index: VaultIndex, can_see: CanSee) -> Iterator[PlannedMove]:
    taken = set[VaultPath]()
    for name in sorted(index.files(LEGACY_FOLDER)):
        file = LEGACY_FOLDER / name
        target = target_of(file, index)
        if not name.endswith(".md") or not (can_see(file) and can_see(target)):
            continue
        if target in taken or index.get(target) is not None:
            why = "is there already; take over what it lacks, then delete the old file"
            refused = f"{printable(target)} {why}"
            yield PlannedMove(file=file, target=target, action="refuse", reason=refused)
        else:
            taken.add(target)
            yield PlannedMove(file=file, target=target)


def target_of(file: VaultPath, index: VaultIndex) -> VaultPath:
    """The context file of the vault, or of the folder of that name: a project's first, then the
    nearest to the vault's root, else a new one.
    """
    name = _ENDING.sub("", file.name)
    folders = [
        (not folder.startswith(f"{_PROJECTS}/"), folder.count("/"), folder)
        for folder in index.all_folders()
        if _plain(folder.rpartition("/")[2]) == _plain(name)
        and not folder.startswith("Chat/")
        and not is_hidden(folder)
    ]
    folder = VaultPath(min(folders)[2] if folders else f"{_PROJECTS}/{name}")
    folder = VaultPath("") if _plain(name) == "general" else folder
    return index.context_file(folder) or folder / CONTEXT_NAMES[0]


def _plain(name: str) -> str:
    return "-".join(name.casefold().replace("_", " ").replace("-", " ").split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    store: Store
    index: VaultIndex
    sessions: SessionContexts
    bus: Bus

    def plan(self, can_see: CanSee) -> tuple[PlannedMove, ...]:
        return tuple(plan_moves(self.index, can_see))

    async def apply(self, can_see: CanSee) -> MigrationResult:
        """What one file refuses is reported and stops no other. Raises StorageFailedError."""
        planned, now = self.plan(can_see), self.store.clock()
        if all(move.action == "refuse" for move in planned):
            return MigrationResult(run=None, moves=planned)
        act = new_act("migration", now, watcher=str(LEGACY_FOLDER), reason=_REASON, carries=True)
        moves = await run_uninterrupted(self._apply, planned, act)
        moved = {move.file: move.target for move in moves if move.action == "move"}
        await self.store.notice([*moved, *moved.values()])
        self.bus.publish(
            "run.finished",
            run=act.run,
            watcher=LEGACY_FOLDER,
            outcome="changed" if moved else "failed",
            reason=_REASON,
            paths=[printable(path) for paths in moved.items() for path in paths],
            cost_usd=0.0,
        )
        folders = {file: target.folder for file, target in moved.items()}
        return MigrationResult(run=act.run, moves=moves, sessions=self.sessions.follow(folders))

    def _apply(self, planned: tuple[PlannedMove, ...], act: Operation) -> tuple[PlannedMove, ...]:
        act.begin(self.store)
        done = []
        for move in planned:
            try:
                if move.action == "move":
                    self.store.move(move.file, move.target, act.author, base=None)
                done.append(move)
            except ParachuteError as error:  # made by someone in between, or the disk refuses
                done.append(replace(move, action="refuse", reason=error.message))
        act.end(self.store, _REASON)
        return tuple(done)
