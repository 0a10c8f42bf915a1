"""Context migration: the plan for an older program's context files, and doing it."""

from __future__ import annotations

from collections.abc import Iterable

from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall
from parachuted.api.routes import context_documents as told
from parachuted.context import PlannedMove
from parachuted.tools import Migration
from parachuted.vault import printable

_PATH = "/api/contexts/migration"


class ContextMigrationRoutes:
    """Its two routes. They tell of, and touch, what the caller may see."""

    def __init__(self, migration: Migration) -> None:
        self._migration = migration

    @get(_PATH, "vault", "admin", reach="paths")
    async def plan(self, call: ApiCall) -> told.MigrationPlanResponse:
        """Preview the migration of old context files."""
        moves = _told(await self._migration.plan(call.sight.sees))
        return {"moves": moves, "count": len(moves)}

    @post(_PATH, "vault", "admin", reach="paths")
    async def apply(self, call: ApiCall) -> told.ContextMigrationResponse:
        """Move old context files into folders, as one run that can be undone."""
        done = await self._migration.apply(call.sight.sees)
        return {"run": done.run, "moves": _told(done.moves), "sessions": done.sessions}


def _told(moves: Iterable[PlannedMove]) -> list[told.MigrationMoveResponse]:
    return [
        {
            "file": printable(move.file),
            "target": printable(move.target),
            "action": move.action,
            "sections": list(move.sections),
            "kept_as": printable(move.kept_as),
            "reason": move.reason,
        }
        for move in moves
    ]
