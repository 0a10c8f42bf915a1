"""Migration: moves an older program's context files into folders, as one run that can be undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from parachuted.access.strangers import marked, says_stranger
from parachuted.context import LEGACY_FOLDER, PlannedMove, SessionContexts, added_to, plan_moves
from parachuted.errors import ParachuteError
from parachuted.events import Bus
from parachuted.history.run_account import Operation, new_act
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import Author, Store, VaultIndex, VaultPath, printable

NAME = "migration"
CanSee = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationResult:
    """What was done: the run's id (None: there was nothing to do), what became of each file, how
    many choices of sessions followed.
    """

    run: str | None
    moves: tuple[PlannedMove, ...]
    sessions: int = 0


class Migration:
    def __init__(
        self, *, store: Store, index: VaultIndex, sessions: SessionContexts, bus: Bus
    ) -> None:
        self._store, self._index, self._sessions = store, index, sessions
        self._bus, self._turn = bus, asyncio.Lock()

    async def plan(self, can_see: CanSee) -> tuple[PlannedMove, ...]:
        return await asyncio.to_thread(self._plan, can_see)

    async def apply(self, can_see: CanSee) -> MigrationResult:
        """What one file refuses is reported and stops no other. Raises StorageFailedError."""
        async with self._turn:
            act = new_act(
                NAME, self._store.clock(), watcher=str(LEGACY_FOLDER), reason="", carries=True
            )
            moves, written = await run_uninterrupted(self._apply, can_see, act)
            if not written:
                return MigrationResult(run=None, moves=moves)
            await self._store.notice(written)
            self._bus.publish(
                "run.finished",
                run=act.run,
                watcher=LEGACY_FOLDER,
                outcome="changed",
                reason=_reason(moves),
                paths=list(map(printable, written)),
                cost_usd=0.0,
            )
            moved = {move.file: move.target.folder for move in moves if move.action != "refuse"}
            sessions = self._sessions.follow(moved)
            return MigrationResult(run=act.run, moves=moves, sessions=sessions)

    def _plan(self, can_see: CanSee) -> tuple[PlannedMove, ...]:
        moves = plan_moves(self._index, lambda path: self._store.read(path).data)
        return tuple(
            move
            for move in moves
            if can_see(move.file) and can_see(move.target) and can_see(move.kept_as)
        )

    def _apply(
        self, can_see: CanSee, act: Operation
    ) -> tuple[tuple[PlannedMove, ...], list[VaultPath]]:
        moves, written = self._plan(can_see), dict[VaultPath, None]()
        if all(move.action == "refuse" for move in moves):
            return moves, []
        replace(act, reason=_reason(moves)).begin(self._store)
        done = []
        for move in moves:
            try:
                if move.action != "refuse":
                    self._move(move, act.author, written)
                done.append(move)
            except ParachuteError as error:  # saved by someone in between, or the disk refuses
                done.append(replace(move, action="refuse", reason=error.message))
        act.end(self._store, _reason(done))
        return tuple(done), list(written)

    def _move(self, move: PlannedMove, author: Author, written: dict[VaultPath, None]) -> None:
        store, target = self._store, move.target
        old = store.read(move.file, keep=True)
        if self._index.get(target) is None and target not in written:
            store.create(target, old.data, author)
            written[target] = None
        else:
            present = store.read(target, keep=True)
            data = added_to(present.data, old.data, move.file).data
            if data != present.data:
                if says_stranger(old.data):  # what takes in a text is as little trusted as that
                    data = marked(target, data)
                store.replace(target, data, author, base=present.digest)
                written[target] = None
        store.move(move.file, move.kept_as, author, base=old.digest)
        written |= dict.fromkeys([move.kept_as, move.file])


def _reason(moves: Iterable[PlannedMove]) -> str:
    files = [printable(move.file.name) for move in moves if move.action != "refuse"]
    shown = f"{', '.join(files[:10])}{', ...' if files[10:] else ''}"
    return f"old context files were moved into folders: {shown}"
