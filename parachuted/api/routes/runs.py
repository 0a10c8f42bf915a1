"""Runs: what agents did, where a line comes from, and taking it back; what a file was, and a file
restored.

A key with paths gets the versions that its file had at paths of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, TypeAlias

from aiohttp import web
from pydantic import ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict

from parachuted.access.filter import unknown
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import ApiCall, Path, RequestModel, Whole, refuse_watching_beyond
from parachuted.api.routes.note_changes import refuse_programs
from parachuted.errors import NotFoundError
from parachuted.history import (
    FileDiff,
    FileHistory,
    HistoryQueries,
    LineOrigin,
    Restore,
    RestoreResult,
    Undo,
    UndoResult,
    Why,
    is_bookkeeping,
    runs_of_session,
)
from parachuted.keys import EVERYWHERE
from parachuted.texts.times import StoredTime, Time, with_times
from parachuted.vault import PathText, Store, VaultPath, printable


class UndoneRun(TypedDict, total=False):
    at: StoredTime
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """`undone` names the run that took it back; `ended` is null while it is at work."""

    id: str
    task: str | None
    watcher: str
    agent: str | None
    backend: str | None
    outcome: str
    reason: str | None
    started: StoredTime
    ended: StoredTime | None
    cost_usd: float
    undone: UndoneRun | None
    wrote: list[PathText]


class RunCause(TypedDict, total=False):
    id: str
    kind: str
    path: str
    files: int
    at: Time


class RunDocument(TypedDict, total=False):
    """Each kind of run has more fields, such as `reviewed`, `wrote` and `steps`."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    id: str
    watcher: str
    agent: str | None
    outcome: str
    reason: str | None
    started: Time
    ended: Time | None
    causes: list[RunCause]
    undone: UndoneRun | None
    cost_usd: float


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The runs, newest first, and the files that they wrote."""

    runs: list[ListedRun]
    paths: list[PathText]


class SessionUndoRequest(RequestModel):
    note: Path
    recorded: Annotated[
        tuple[str, ...],
        Field(max_length=10_000, description="Those that its module recorded by itself."),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOrigins:
    """Runs by id, with the runs that led to each, nearest first.

    A line's `by` is `earlier` when it is older than all that is kept of the history.
    """

    path: VaultPath
    lines: list[LineOrigin]
    runs: Mapping[str, object]
    chains: Mapping[str, list[dict[str, object]]]


FindRuns: TypeAlias = Callable[[], list[dict[str, object]]]

_MODULE = "curator"
_LINKED = ("id", "watcher", "agent", "outcome", "reason", "started", "causes")


class RunRoutes:
    def __init__(self, store: Store, undo: Undo) -> None:
        self._store, self._undo, self._why = store, undo, Why(store)

    @get("/api/runs", _MODULE, "read", wrapped="runs", counted=True)
    async def runs(
        self,
        limit: Annotated[Whole, Field(ge=1, le=500)] = 50,
        before: str | None = None,
        *,
        all: Annotated[  # noqa: A002  as it is called in the query
            bool, Field(description="The bookkeeping of modules and clients, too.")
        ] = False,
    ) -> list[ListedRun]:
        """List runs, newest first: those of agents, and other calls that changed something."""
        history = self._store.history
        find = (
            history.runs
            if all
            else partial(history.runs_that, lambda run: not is_bookkeeping(history, run))
        )
        return list(map(_listed, await asyncio.to_thread(find, limit=limit, before=before)))

    @get("/api/runs/{id}", _MODULE, "read", answers={200: RunDocument})
    async def run(self, id_: str) -> Mapping[str, object]:
        """One run, with what it wrote."""
        return with_times(self._run(id_))

    @post("/api/runs/{id}/undo", _MODULE, "write")
    async def undo(self, call: ApiCall, id_: str) -> UndoResult:
        """Undo a run and what followed from it."""
        name = str(self._run(id_)["id"])
        return await self._taken_back(call, partial(self._undo.followed, name), name)

    @get("/api/runs/{id}/undo", _MODULE, "read")
    async def undo_plan(self, id_: str) -> UndoPlan:
        """What undoing a run would take back."""
        name = str(self._run(id_)["id"])
        return await self._plan(partial(self._undo.followed, name))

    @post("/api/sessions/undo", _MODULE, "write")
    async def undo_session(self, call: ApiCall, body: SessionUndoRequest) -> UndoResult:
        """Undo all that a conversation led to, and keep the conversation."""
        note = call.files.find(body.note)
        return await self._taken_back(call, self._of_session(note, body), printable(note))

    @post("/api/sessions/undo/plan", _MODULE, "read")
    async def session_undo_plan(self, call: ApiCall, body: SessionUndoRequest) -> UndoPlan:
        """What undoing a conversation would take back."""
        note = call.files.find(body.note)
        return await self._plan(self._of_session(note, body))

    def _of_session(self, note: VaultPath, request: SessionUndoRequest) -> FindRuns:
        return partial(runs_of_session, self._store.history, note, request.recorded)

    async def _plan(self, find: FindRuns) -> UndoPlan:
        listed = list(map(_listed, await asyncio.to_thread(find)))
        return UndoPlan(listed, list(dict.fromkeys(path for run in listed for path in run.wrote)))

    async def _taken_back(self, call: ApiCall, find: FindRuns, what: str) -> UndoResult:
        if call.writing != EVERYWHERE:
            raise web.HTTPForbidden(text="an undo writes notes, so it takes a key with vault:write")
        return await self._undo.undo_all(find, what, requester=call.requester)

    @get("/api/why", _MODULE, "read")
    async def why(
        self,
        call: ApiCall,
        path: Path,
        line: Annotated[Whole, Field(ge=1, le=10_000_000)] | None = None,
    ) -> LineOrigins:
        """Where the lines of a note come from."""
        path = call.files.find(path)
        lines = await asyncio.to_thread(self._why.lines, path)
        if line is not None and line > len(lines):
            raise NotFoundError(f"{printable(path)} has {len(lines)} lines")
        chosen = lines if line is None else lines[line - 1 : line]
        runs = {
            name: self._store.history.run(name)
            for name in dict.fromkeys(origin.run for origin in chosen)
            if name is not None
        }
        chains = {
            name: await asyncio.to_thread(self._chain, name)
            for name, run in runs.items()
            if run is not None
        }
        if not call.reading.sees(path):
            chosen = [replace(origin, text="") for origin in chosen]  # which is the vault's to say
        accounts: Mapping[str, object] = with_times(dict[str, object](runs))
        return LineOrigins(path=path, lines=chosen, runs=accounts, chains=with_times(chains))

    def _chain(self, run: str) -> list[dict[str, object]]:
        return [{name: one.get(name) for name in _LINKED} for one in self._why.chain(run)]

    def _run(self, name: str) -> Mapping[str, object]:
        run = self._store.history.run(name)
        if run is None:
            raise NotFoundError(
                f"there is no run {printable(name[:80])}; `parachute runs` lists them"
            )
        return run


def _listed(run: Mapping[str, Any]) -> ListedRun:
    wrote = [written["path"] for written in run["wrote"]]
    names = [field.name for field in fields(ListedRun) if field.name != "wrote"]
    return ListedRun(**{name: run[name] for name in names}, wrote=wrote)


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
