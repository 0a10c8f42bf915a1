"""Imports of other programs' conversations, over HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from parachuted.errors import EditRefusedError
from parachuted.modules import Finding, reading, route

from .importing import ExportError, Imported, read_export
from .session import NewSession
from .session_service import SessionService

_IMPORT: Final = "/api/import"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSession:
    """A conversation of an export; `is_there`: it was imported before. `origin` is whose text it
    counts as: `imported`, or `you`.
    """

    id: str
    title: str
    source: str
    message_count: int
    is_there: bool
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did, or, with `dry_run`, would do. `parachute undo RUN` takes `run` back.

    Each conversation is imported, skipped since it is there already, or one of the `errors`.
    `warnings` are messages that were left out of imported ones.
    """

    total_conversations: int
    imported_count: int
    skipped_count: int
    errors: list[str]
    session_ids: list[str]
    conversations: list[PlannedSession] = field(default_factory=list)
    run: str | None = None
    warnings: list[str] = field(default_factory=list)


class ImportRoutes(SessionService):
    """`POST /api/import`."""

    @route("POST", "/", prefix=_IMPORT, tolerant=True, timeout_s=600)
    async def import_conversations(
        self,
        data: list[object] | dict[str, object],
        *,
        archived: bool = False,
        dry_run: bool = False,
        trust: bool = False,
    ) -> ImportReport:
        """Import the `conversations.json` of ChatGPT or Claude, or transcripts of Claude Code, each
        as its `sessionId` and its `events`. What was imported before is left out. With `dry_run`
        it only says what it would do.

        What is imported counts as a stranger's text; with `trust`, those conversations count as
        yours in which nobody but you speaks.
        """
        try:
            found, left_out = read_export(data)
        except ExportError as error:
            raise EditRefusedError(str(error)) from error
        total = len(found) + len(left_out)
        known = await self.sessions.known_ids(one.id for one in found)
        made: list[str] = []
        planned: list[PlannedSession] = []
        for one in found:
            is_there, is_own = one.id in known, trust and one.is_own
            known.add(one.id)  # what an export holds twice is imported once
            with reading(one.title, left_out):
                if not (is_there or dry_run):
                    made.append(await self._add(one, archived=archived, is_own=is_own))
                planned.append(_planned(one, is_there=is_there, is_own=is_own))
        return ImportReport(
            total_conversations=total,
            imported_count=len(made),
            skipped_count=sum(one.is_there for one in planned),
            errors=list(map(_said, left_out)),
            session_ids=made,
            conversations=planned,
            run=self.current_call.own_run if made else None,
            warnings=[f"{one.title}, {_said(what)}" for one in found for what in one.left_out],
        )

    async def _add(self, one: Imported, *, archived: bool, is_own: bool) -> str:
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
        write = partial(self.vault.import_note, is_own=is_own)
        created = await self.sessions.create(one.messages, announce=False, write=write, **fields)
        return created.id


def _said(finding: Finding) -> str:
    return f"{finding.path}: {finding.problem}"


def _planned(one: Imported, *, is_there: bool, is_own: bool) -> PlannedSession:
    return PlannedSession(
        id=one.id,
        title=one.title,
        source=one.source,
        message_count=len(one.messages),
        is_there=is_there,
        origin="you" if is_own else "imported",
    )
