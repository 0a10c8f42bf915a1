"""Imports of other programs' conversations, over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from parachuted.errors import EditRefusedError, ParachuteError
from parachuted.modules import route

from .importing import ExportError, Imported, read_export
from .session import NewSession
from .session_service import SessionService

_IMPORT: Final = "/api/import"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSession:
    """A conversation of an export; `is_there`: it was imported before."""

    id: str
    title: str
    source: str
    message_count: int
    is_there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did, or, with `dry_run`, would do. `parachute undo RUN` takes `run` back."""

    total_conversations: int
    imported_count: int
    skipped_count: int
    errors: list[str]
    session_ids: list[str]
    conversations: list[PlannedSession] = field(default_factory=list)
    run: str | None = None


class ImportRoutes(SessionService):
    """`POST /api/import`."""

    @route("POST", "/", prefix=_IMPORT, tolerant=True, timeout_s=600)
    async def import_conversations(
        self,
        data: list[object] | dict[str, object],
        *,
        archived: bool = False,
        dry_run: bool = False,
    ) -> ImportReport:
        """Import the `conversations.json` of ChatGPT or Claude, or transcripts of Claude Code, each
        as its `sessionId` and its `events`. What was imported before is left out. With `dry_run`
        it only says what it would do.
        """
        try:
            found, errors = read_export(data)
        except ExportError as error:
            raise EditRefusedError(str(error)) from error
        total = len(found) + len(errors)
        there = await self.sessions.known_ids(one.id for one in found)
        new = [one for one in found if one.id not in there]
        made: list[str] = []
        for one in () if dry_run else new:
            try:
                made.append(await self._add(one, archived=archived))
            except ParachuteError as error:
                errors.append(f"{one.title}: {error.message}")
        return ImportReport(
            total_conversations=total,
            imported_count=len(made),
            skipped_count=len(found) - len(new),
            errors=errors,
            session_ids=made,
            conversations=[_planned(one, is_there=one.id in there) for one in found],
            run=self.current_call.own_run if made else None,
        )

    async def _add(self, one: Imported, *, archived: bool) -> str:
        fields: NewSession = {
            "id": one.id,
            "title": one.title,
            "title_source": "ai",
            "source": one.source,
            "original_id": one.original_id,
            "archived": archived,
            "created_by": "import",
        }
        if one.created_at is not None:
            fields["created_at"] = one.created_at
        return (await self.sessions.create(one.messages, announce=False, **fields)).id


def _planned(one: Imported, *, is_there: bool) -> PlannedSession:
    return PlannedSession(
        id=one.id,
        title=one.title,
        source=one.source,
        message_count=len(one.messages),
        is_there=is_there,
    )
