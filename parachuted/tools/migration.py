"""Moves an older program's context files into folders, as one run that `parachute undo`
reverts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from parachuted.access.origins import Origins
from parachuted.access.run_records import QuotedPaths
from parachuted.context import LEGACY_FOLDER, PlannedMove, SessionContexts, added_to, plan_moves
from parachuted.errors import ParachuteError
from parachuted.events import Bus
from parachuted.history.run_account import RUNNING, save
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import (
    Author,
    FileContent,
    Store,
    VaultIndex,
    VaultPath,
    WriteResult,
    new_id,
    printable,
)
from parachuted.vault.trail import requested, run_document, wrote

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
        self,
        *,
        store: Store,
        index: VaultIndex,
        sessions: SessionContexts,
        bus: Bus,
        origins: Origins | None = None,
    ) -> None:
        self._store, self._index, self._sessions = store, index, sessions
        self._bus, self._origins = bus, origins
        self._turn = asyncio.Lock()

    async def plan(self, sees: CanSee) -> tuple[PlannedMove, ...]:
        """What would be done with the files that `sees` lets see; nothing is."""
        return await asyncio.to_thread(self._plan, sees)

    async def apply(self, sees: CanSee) -> MigrationResult:
        """Do it.

        What one file refuses is reported and stops no other. Raises StorageFailedError when the
        history cannot be written.
        """
        async with self._turn:
            now = self._store.clock()
            author = Author(by=NAME, run=new_id("r", now), causes=(new_id("c", now),))
            done, written = await run_uninterrupted(self._apply, sees, author, now)
            if not written:
                return MigrationResult(run=None, moves=done)
            await self._store.notice(list(dict.fromkeys(one.path for one in written)))
            moved = {move.file: move.target.folder for move in done if move.action != "refuse"}
            self._bus.publish(
                "run.finished",
                run=author.run,
                watcher=LEGACY_FOLDER,
                outcome="changed",
                reason=_reason(done),
                paths=list(dict.fromkeys(printable(one.path) for one in written)),
                cost_usd=0.0,
            )
            return MigrationResult(
                run=author.run, moves=done, sessions=self._sessions.follow(moved)
            )

    def _plan(self, sees: CanSee) -> tuple[PlannedMove, ...]:
        moves = plan_moves(self._index, lambda path: self._store.read(path).data)
        return tuple(
            move for move in moves if sees(move.file) and sees(move.target) and sees(move.kept_as)
        )

    def _apply(
        self, sees: CanSee, author: Author, now: datetime
    ) -> tuple[tuple[PlannedMove, ...], list[WriteResult]]:
        moves, written = self._plan(sees), list[WriteResult]()
        if all(move.action == "refuse" for move in moves):
            return moves, written
        self._save(author, now, moves, written, outcome=RUNNING)
        done = []
        for move in moves:
            try:
                if move.action != "refuse":
                    self._move(move, author, written)
                done.append(move)
            except ParachuteError as error:  # saved by someone in between, or the disk refuses
                done.append(replace(move, action="refuse", reason=error.message))
        self._save(author, now, done, written, outcome="changed" if written else "unchanged")
        return tuple(done), written

    def _move(self, move: PlannedMove, author: Author, written: list[WriteResult]) -> None:
        old = self._store.read(move.file, keep=True)
        if self._index.get(move.target) is None and not any(
            one.path == move.target for one in written
        ):
            written.append(self._store.create(move.target, old.data, author))
        else:
            present = self._store.read(move.target, keep=True)
            data = added_to(present.data, old.data, move.file).data
            if data != present.data:
                written.append(self._added(move, data, author, present.digest, old))
        self._store.move(move.file, move.kept_as, author, base=old.digest)
        written += [
            WriteResult(path=move.kept_as, before=None, after=old.digest),
            WriteResult(path=move.file, before=old.digest, after=None),
        ]

    def _added(
        self, move: PlannedMove, data: bytes, author: Author, base: str, old: FileContent
    ) -> WriteResult:
        """A note that takes in another one's text is as little trusted as that."""
        if self._origins is None:
            return self._store.replace(move.target, data, author, base=base)
        with self._origins.writing(
            move.target, self._origins.of_text(move.file, old.data, old.digest)
        ) as record:
            written = self._store.replace(move.target, data, author, base=base)
            record(written.after)
        return written

    def _save(
        self,
        author: Author,
        now: datetime,
        moves: Iterable[PlannedMove],
        written: Iterable[WriteResult],
        *,
        outcome: str,
    ) -> None:
        moves, objects = tuple(moves), self._store.objects
        document = run_document(
            str(author.run),
            watcher=str(LEGACY_FOLDER),
            agent=NAME,
            started=now,
            causes=requested(author.causes, str(LEGACY_FOLDER), 0, now),
            ended=None if outcome == RUNNING else self._store.clock().isoformat(),
            outcome=outcome,
            reason=_reason(moves),
            wrote=[wrote(one.path, (one.before, one.after), objects) for one in written],
            quotes=_quoted(moves).document(),
        )
        save(self._store.history, document)


def _quoted(moves: Iterable[PlannedMove]) -> QuotedPaths:
    return QuotedPaths(
        printable(path) for move in moves for path in (move.file, move.target, move.kept_as)
    )


def _reason(moves: Iterable[PlannedMove]) -> str:
    files = [VaultPath(move.file).name for move in moves if move.action != "refuse"]
    return (
        "old context files were moved into folders: "
        f"{', '.join(printable(name) for name in files[:10])}{', ...' if files[10:] else ''}"
    )
