"""History: what a file was, what a run changed, and a file restored.

A key with paths gets the versions that its file had at paths of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from pydantic import Field, StringConstraints

from parachuted.access.filter import unknown
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, Path, RequestModel, Whole, refuse_watching_beyond
from parachuted.api.routes.note_changes import refuse_programs
from parachuted.history import FileDiff, FileHistory, HistoryQueries, Restore, RestoreResult
from parachuted.vault import Store, VaultPath

_MODULE = "curator"
_Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{4,64}$")]
_Whole = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class RunDiff:
    """With `cascade` also the runs that followed, newest first."""

    run: str
    runs: list[str]
    files: list[FileDiff]


class RestoreRequest(RequestModel):
    """Before (or `after`) a run, or a version by the beginning of its digest.

    `base` is the digest of the text to be replaced; without it, whatever is there.
    """

    path: Path
    run: _Name | None = None
    after: Annotated[bool, Field(strict=True)] = False
    version: _Digest | None = None
    base: _Whole | None = None


class HistoryRoutes:
    def __init__(self, store: Store, restore: Restore) -> None:
        self._store, self._restore, self._past = store, restore, HistoryQueries(store)

    @get("/api/history", _MODULE, "read", for_path_keys=True)
    async def history(
        self, call: ApiCall, path: Path, limit: Annotated[Whole, Field(ge=1, le=1_000)] = 50
    ) -> FileHistory:
        """Every known version of a file: time, author, run, and lines added and removed."""
        path, sees = call.files.find(path), call.files.sees
        return await asyncio.to_thread(self._past.changes, path, limit, sees=sees)

    @get("/api/runs/{id}/diff", _MODULE, "read")
    async def diff(self, id_: str, *, cascade: bool = True) -> RunDiff:
        """What a run, and what followed from it, changed in every file."""
        runs = await asyncio.to_thread(self._past.runs, id_, cascade=cascade)
        files = await asyncio.to_thread(self._past.diff, runs)
        return RunDiff(id_, [str(run["id"]) for run in runs], files)

    @post("/api/history/restore", "vault", "write", for_path_keys=True)
    async def restore(self, call: ApiCall, body: RestoreRequest) -> RestoreResult:
        """Restore a file to a version, or to its state before or after a run."""
        if (body.run is None) == (body.version is None):
            raise web.HTTPBadRequest(text="name either a run or a version")
        path = self._place(call, body.path)
        call.touched.append(path)
        return await self._restore.restore(
            path,
            run=body.run,
            after=body.after,
            version=body.version,
            base=body.base,
            sees=call.reading.sees,
            refuse=lambda file, text, was: refuse_watching_beyond(
                call.reading, self._store, file, lambda _now: text, was=was
            ),
            requester=call.requester,
        )

    def _place(self, call: ApiCall, path: VaultPath) -> VaultPath:
        """The file, if the caller may read it too: a restored text shows what it is."""
        if not call.reading.sees(path):
            raise web.HTTPForbidden(text="to restore a file a key needs vault:read for it too")
        real = call.files.find(path)
        if not call.reading.sees(real):
            raise unknown(path)
        refuse_programs(path)
        refuse_programs(real)
        return real
