"""History: what a file was, what a run changed everywhere, and a file brought back as it was.

A caller who sees a part gets that part.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from aiohttp import web
from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from parachuted.access.filter import AccessFilter, unknown
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, Path, RequestModel, Whole, refusing_to_watch_beyond
from parachuted.api.routes.note_writer import refuse_programs
from parachuted.errors import NotFoundError
from parachuted.history import HistoryQueries, Restore
from parachuted.history.why import FileDiff, VersionChange
from parachuted.keys import AccessGrant
from parachuted.times import Time, time_of
from parachuted.vault import Store, VaultPath, printable


class FileVersionResponse(TypedDict):
    """One version.

    `version` is its digest (None: there was no file), `at` when it came about, where that is known.

    `added` and `removed` count lines against the version before, where both texts are kept; `kept`:
    it can be restored.
    """

    version: str | None
    path: str
    source: str | None
    kind: str
    at: Time | None
    by: str
    run: str | None
    causes: list[str]
    added: int | None
    removed: int | None
    kept: bool


class FileHistoryResponse(TypedDict):
    """The latest versions of a file, newest first, of `count` in all; `since`: when the newest was
    made of those no longer kept.
    """

    path: str
    versions: list[FileVersionResponse]
    count: int
    since: Time | None


class FileChangeResponse(TypedDict):
    """What runs changed in a file, without what others wrote in between.

    `source` is where it was before, when it moved.
    """

    path: str
    source: str | None
    runs: list[str]
    before: str | None
    after: str | None
    diff: str
    added: int | None
    removed: int | None


class RunDiffResponse(TypedDict):
    """What a run changed, and, with `cascade`, what followed from it: the runs, newest first, and
    the files.
    """

    run: str
    runs: list[str]
    files: list[FileChangeResponse]


class RestoreResponse(TypedDict):
    """A file that is as it was.

    `run` takes that back (None: it was so already); `merged`: what was written meanwhile was kept.
    """

    path: str
    version: str
    before: str | None
    after: str | None
    merged: bool
    run: str | None


_MODULE = "curator"
_Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{4,64}$")]
_Whole = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class HistoryQuery(RequestModel):
    """Which file, and how many versions."""

    path: Path
    limit: Annotated[Whole, Field(ge=1, le=1_000)] = 50


class DiffQuery(RequestModel):
    """Whether what followed from the run is included."""

    cascade: bool = True


class RestoreRequest(RequestModel):
    """Which file, and as of when: before (or `after`) a run, or a version by the beginning of its
    digest.

    `base` is the digest of the text that is meant to be replaced; without it, whatever is there.
    """

    path: Path
    run: _Name | None = None
    after: Annotated[bool, Field(strict=True)] = False
    version: _Digest | None = None
    base: _Whole | None = None


class HistoryRoutes:
    def __init__(self, store: Store, restore: Restore) -> None:
        self._store, self._restore, self._past = store, restore, HistoryQueries(store)

    @get("/api/history", _MODULE, "read", reach="paths")
    async def history(self, call: ApiCall, query: HistoryQuery) -> FileHistoryResponse:
        """Every known version of a file: time, author, run, and lines added and removed."""
        path = call.sight.find(query.path)
        versions, count = await asyncio.to_thread(
            self._past.changes, path, query.limit, sees=call.sight.sees
        )
        pruned = await asyncio.to_thread(self._store.history.pruned, path)
        return FileHistoryResponse(
            path=printable(path),
            versions=[_version(one, call.sight) for one in versions],
            count=count,
            since=time_of(pruned) if pruned is not None else None,
        )

    @get("/api/runs/{id}/diff", _MODULE, "read", reach="paths")
    async def diff(self, call: ApiCall, id_: str, query: DiffQuery) -> RunDiffResponse:
        """What a run, and what followed from it, changed in every file."""
        name, is_cascade = id_, query.cascade
        runs = await asyncio.to_thread(self._past.runs, name, cascade=is_cascade)
        files = [
            one for one in await asyncio.to_thread(self._past.diff, runs) if _sees(call.sight, one)
        ]
        known = {run for one in files for run in one.runs}
        listed = [str(run["id"]) for run in runs if run["id"] in known or call.runs.exists(run)]
        if name not in listed:
            raise NotFoundError(
                f"there is no run {printable(name[:80])}; `parachute runs` lists them"
            )
        return RunDiffResponse(
            run=name, runs=listed, files=[_changed(one, call.reading) for one in files]
        )

    @post("/api/history/restore", "vault", "write", reach="paths")
    async def restore(self, call: ApiCall, body: RestoreRequest) -> RestoreResponse:
        """Restore a file to a version, or to its state before or after a run."""
        if (body.run is None) == (body.version is None):
            raise web.HTTPBadRequest(text="name either a run or a version")
        path = self._place(call, body.path)
        call.touched.append(path)
        done = await self._restore.restore(
            path,
            run=body.run,
            after=body.after,
            version=body.version,
            base=body.base,
            sees=call.reading.sees,
            refuse=refusing_to_watch_beyond(call.reading, self._store),
            caller=call.caller,
        )
        return RestoreResponse(
            path=printable(done.path),
            version=done.version,
            before=done.before,
            after=done.after,
            merged=done.merged,
            run=done.run,
        )

    def _place(self, call: ApiCall, path: VaultPath) -> VaultPath:
        """The file, as far as the caller may read it too: a restored text shows what it
        is.
        """
        if not call.reading.sees(path):
            raise web.HTTPForbidden(text="to restore a file a key needs vault:read for it too")
        real = call.sight.find(path)
        if not call.reading.sees(real):
            raise unknown(path)
        refuse_programs(path)
        refuse_programs(real)
        return real


def _sees(sight: AccessFilter, diff: FileDiff) -> bool:
    return sight.sees(diff.path) and (diff.source is None or sight.sees(diff.source))


def _version(one: VersionChange, sight: AccessFilter) -> FileVersionResponse:
    version = one.version
    return FileVersionResponse(
        version=version.digest,
        path=printable(version.path),
        source=printable(version.source)
        if version.source is not None and sight.sees(version.source)
        else None,
        kind=version.kind,
        at=time_of(version.at) if version.at is not None else None,
        by=printable(version.by),
        run=version.run,
        causes=list(version.causes),
        added=one.added,
        removed=one.removed,
        kept=one.kept,
    )


def _changed(one: FileDiff, reading: AccessGrant) -> FileChangeResponse:
    """That a run changed a file is the curator's matter; what it says is the vault's."""
    may_read = reading.sees(one.path) and (one.source is None or reading.sees(one.source))
    return FileChangeResponse(
        path=printable(one.path),
        source=printable(one.source) if one.source is not None else None,
        runs=list(one.runs),
        before=one.before,
        after=one.after,
        diff=one.diff if may_read else "",
        added=one.added,
        removed=one.removed,
    )
