"""Audit: what was done, by whom, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from parachuted.api.http.decorators import get
from parachuted.api.http.route import Path, RequestModel, Whole
from parachuted.audit.chain import EventType
from parachuted.audit.log import AuditLog
from parachuted.audit.reader import AuditFilter, AuditPage, AuditReader, moment_of
from parachuted.audit.verify import verify
from parachuted.errors import StorageFailedError
from parachuted.times import Time


class AuditLineResponse(TypedDict):
    """One event, in the fields of the specification, then ours.

    `duration_ms` is in milliseconds, `timestamp` in UTC.
    """

    seq: int
    timestamp: Time
    event_type: str
    source_type: str
    source_id: str
    target_module: str
    target_endpoint: str
    para_ids_involved: list[str]
    duration_ms: float
    success: bool
    error: str | None
    request_id: str | None
    status: int | None
    paths: list[str]
    names: list[str]
    causes: list[str]
    run: str | None
    before: str | None
    after: str | None
    details: dict[str, str | int | bool]
    hash: str


class AuditPageResponse(TypedDict):
    """Events, the newest first.

    `cursor`: what to give to get those before them, None when there are none.
    """

    events: list[AuditLineResponse]
    count: int
    cursor: str | None


class AuditVerificationResponse(TypedDict):
    """Whether the chain holds.

    `findings`: what must not be, and where; `notes`: what is known of, such as a cut by a kill.
    """

    holds: bool
    lines: int
    days: int
    last_seq: int
    last_hash: str
    findings: list[str]
    notes: list[str]


_FLUSH_S = 2.0
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class AuditQuery(RequestModel):
    """Which events. Moments are ISO times, days, or as long ago as `24h` says."""

    since: _Text | None = None
    until: _Text | None = None
    type: EventType | None = None
    source: (
        Annotated[
            _Text,
            Field(description="a kind of source, such as agent or api_key, or the name of one"),
        ]
        | None
    ) = None
    module: Annotated[_Text, Field(description="which was called, such as vault")] | None = None
    success: Literal["true", "false"] | None = None
    path: Path | None = None
    limit: Annotated[Whole, Field(ge=1, le=1000)] = 100
    cursor: Annotated[Whole, Field(ge=1)] | None = None


class AuditRoutes:
    """The routes of the audit, for who may administer: it tells what everyone did."""

    def __init__(self, log: AuditLog, clock: Callable[[], datetime]) -> None:
        self._log, self._clock = log, clock

    @get("/api/audit", "system", "admin", reach="beyond", answers={200: AuditPageResponse})
    async def page(self, query: AuditQuery) -> dict[str, object]:
        """What was done and by whom, newest first."""
        wanted = AuditFilter(
            since=self._moment(query.since),
            until=self._moment(query.until),
            type=query.type,
            source=query.source,
            module=query.module,
            success=None if query.success is None else query.success == "true",
            path=query.path,
        )
        page = await asyncio.to_thread(self._page, wanted, query.limit, query.cursor)
        cursor = None if page.cursor is None else str(page.cursor)
        return {"events": page.events, "count": len(page.events), "cursor": cursor}

    @get("/api/audit/verify", "system", "admin", reach="beyond")
    async def verify(self) -> AuditVerificationResponse:
        """Verify that the audit has not been altered."""
        try:
            verdict = await asyncio.to_thread(verify, self._log.folder, self._log.head)
        except OSError as error:
            raise _unreadable(error) from error
        return {
            "holds": verdict.holds,
            "lines": verdict.lines,
            "days": verdict.days,
            "last_seq": verdict.last.seq,
            "last_hash": verdict.last.hash,
            "findings": verdict.findings,
            "notes": verdict.notes,
        }

    def _page(self, wanted: AuditFilter, limit: int, cursor: int | None) -> AuditPage:
        """In a thread. What was done just now is included."""
        self._log.flush(_FLUSH_S)
        try:
            return AuditReader(self._log.folder).page(wanted, limit=limit, before=cursor)
        except OSError as error:
            raise _unreadable(error) from error

    def _moment(self, text: str | None) -> datetime | None:
        try:
            return None if text is None else moment_of(text, self._clock())
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from error


def _unreadable(error: OSError) -> StorageFailedError:
    return StorageFailedError(
        f"the audit cannot be read: {error.strerror or 'the disk refuses'}", errno=error.errno
    )
