"""Context migration: the plan for an older program's context files, and doing it."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from parachuted.api.http.answers import json_answer
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.route import ApiCall, Route
from parachuted.api.routes import context_documents as told
from parachuted.context import PlannedMove
from parachuted.vault import printable

_PATH = "/api/contexts/migration"


class ContextMigrationRoutes:
    """Its two routes. They tell of, and touch, what the caller may see."""

    def __init__(self, parts: ApiParts) -> None:
        self._migration = parts.migration

    def routes(self) -> list[Route]:
        """Both."""
        return [
            Route(
                method="GET",
                path=_PATH,
                module="vault",
                capability="admin",
                reach="paths",
                handle=self.plan,
                summary="What would become of old context files.",
                answers={200: told.MigrationPlanResponse},
            ),
            Route(
                method="POST",
                path=_PATH,
                module="vault",
                capability="admin",
                reach="paths",
                handle=self.apply,
                summary="Move old context files into folders.",
                answers={200: told.ContextMigrationResponse},
            ),
        ]

    async def plan(self, call: ApiCall) -> web.Response:
        """`GET /api/contexts/migration`: nothing is changed."""
        moves = _told(await self._migration.plan(call.sight.sees))
        return json_answer({"moves": moves, "count": len(moves)})

    async def apply(self, call: ApiCall) -> web.Response:
        """`POST /api/contexts/migration`: one run, which can be undone."""
        done = await self._migration.apply(call.sight.sees)
        return json_answer({"run": done.run, "moves": _told(done.moves), "sessions": done.sessions})


def _told(moves: Iterable[PlannedMove]) -> list[dict[str, object]]:
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
