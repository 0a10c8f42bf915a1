"""Audit: what was done, by whom, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field

from parachuted.api.http.decorators import get
from parachuted.api.http.route import Path, RequestModel, Whole
from parachuted.audit.chain import EventType
from parachuted.audit.log import AuditLog
from parachuted.audit.reader import (
    AuditFilter,
    AuditPage,
    AuditReader,
    ChainVerification,
    moment_of,
    verify,
)
from parachuted.errors import StorageFailedError

_Text = Annotated[str, Field(min_length=1, max_length=200)]


class AuditQuery(RequestModel):
    """Moments are ISO times, days, or as long ago as `24h` says."""

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
    def __init__(self, log: AuditLog, clock: Callable[[], datetime]) -> None:
        self._log, self._clock = log, clock

    @get("/api/audit", "system", "admin")
    async def page(self, query: AuditQuery) -> AuditPage:
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
        return await asyncio.to_thread(self._page, wanted, query.limit, query.cursor)

    @get("/api/audit/verify", "system", "admin")
    async def verify(self) -> ChainVerification:
        """Verify that the audit has not been altered."""
        try:
            return await asyncio.to_thread(verify, self._log.folder, self._log.head)
        except OSError as error:
            raise _unreadable(error) from error

    def _page(self, wanted: AuditFilter, limit: int, cursor: int | None) -> AuditPage:
        """In a thread. What was done just now is included."""
        self._log.flush()
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
