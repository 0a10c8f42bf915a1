"""Runs: what agents did, where a line comes from, and taking it back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Annotated, TypeAlias

from aiohttp import web
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from parachuted.access.filter import AccessFilter
from parachuted.access.run_records import RunFilter, paths_of
from parachuted.api.http.decorators import get, post
from parachuted.api.http.route import (
    ApiCall,
    Path,
    RequestModel,
    Whole,
    readable,
    refusing_to_watch_beyond,
)
from parachuted.errors import NotFoundError
from parachuted.history import Undo, UndoLimits, Why, is_without_effect, runs_of_session
from parachuted.keys import NOWHERE, Identity
from parachuted.times import Time, with_times
from parachuted.vault import Store, VaultPath, printable


class RunUndoneResponse(TypedDict, total=False):
    """When a run was taken back, and by which run."""

    at: Time
    run: str


class RunSummaryResponse(TypedDict):
    """A run.

    `undone` names the run that took it back, and when; `wrote` the files it changed; `ended` None:
    it is at work.
    """

    id: str
    task: str | None
    watcher: str
    agent: str | None
    backend: str | None
    outcome: str
    reason: str | None
    started: Time
    ended: Time | None
    cost_usd: float
    undone: RunUndoneResponse | None
    wrote: list[str]


class RunCauseResponse(TypedDict, total=False):
    """A change that a run follows from, as far as the caller may know of it."""

    id: str
    kind: str
    path: str
    files: int
    at: Time


class RunResponse(TypedDict, total=False):
    """One run; each kind of run tells more besides, such as `reviewed`, `wrote` and `steps`."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    id: str
    watcher: str
    agent: str | None
    outcome: str
    reason: str | None
    started: Time
    ended: Time | None
    causes: list[RunCauseResponse]
    undone: RunUndoneResponse | None
    cost_usd: float


class RunsResponse(TypedDict):
    """Some runs, the newest first."""

    runs: list[RunSummaryResponse]
    count: int


class UndoResponse(TypedDict):
    """What an undo took back, and the lines that stay since they were changed afterwards, by path;
    `undo` is its own run.
    """

    runs: list[str]
    paths: list[str]
    kept: dict[str, list[str]]
    undo: str


class UndoPlanResponse(TypedDict):
    """What an undo would take back: the runs, the newest first, and the files that they wrote."""

    runs: list[RunSummaryResponse]
    paths: list[str]


class SessionUndoRequest(RequestModel):
    """A conversation, by the note that it is kept in."""

    note: Path
    recorded: Annotated[
        tuple[str, ...],
        Field(max_length=10_000, description="Those that its module recorded by itself."),
    ] = ()


class WhyResponse(TypedDict):
    """Where lines come from; runs by id, and, for each, the runs that led to it, the nearest first.

    A line's `by` is `earlier` when it is older than all that is kept of the history.
    """

    path: str
    lines: list[dict[str, object]]
    runs: dict[str, object]
    chains: dict[str, list[dict[str, object]]]


FindRuns: TypeAlias = Callable[[], list[dict[str, object]]]

_MODULE = "curator"
_LINKED = ("id", "watcher", "agent", "outcome", "reason", "started", "causes")
_LISTED = (
    "id",
    "task",
    "watcher",
    "agent",
    "backend",
    "outcome",
    "reason",
    "started",
    "ended",
    "cost_usd",
    "undone",
)


class RunsQuery(RequestModel):
    """Which runs."""

    limit: Annotated[Whole, Field(ge=1, le=500)] = 50
    before: str | None = None
    all: Annotated[
        bool, Field(description="Calls of modules and clients that changed nothing, too.")
    ] = False


class WhyQuery(RequestModel):
    """Which lines."""

    path: Path
    line: Annotated[Whole, Field(ge=1, le=10_000_000)] | None = None


def undo_limits(identity: Identity | None, store: Store) -> UndoLimits:
    """Those of an undo that this caller asked for in an earlier life of the daemon; None: nothing
    is known of them any more.
    """
    if identity is None:
        return UndoLimits(may_write=lambda _path: False)
    writing = identity.grant("vault", "write") or NOWHERE
    sight = AccessFilter(store.root, identity.grant(_MODULE, "write") or NOWHERE)
    return UndoLimits(
        may_write=lambda path: writing.sees(path) and sight.sees(path),
        refuse=refusing_to_watch_beyond(readable(identity), store),
    )


class RunRoutes:
    def __init__(self, store: Store, undo: Undo) -> None:
        self._store, self._undo, self._why = store, undo, Why(store)

    @get("/api/runs", _MODULE, "read", reach="paths", answers={200: RunsResponse})
    async def runs(self, call: ApiCall, query: RunsQuery) -> dict[str, object]:
        """List runs, newest first: those of agents, and all others that changed something."""
        access = call.runs
        runs = await asyncio.to_thread(self._listed, access, query)
        listed = [_listed(run, access.shown(run)) for run in runs]
        return {"runs": with_times(listed), "count": len(listed)}

    @get("/api/runs/{id}", _MODULE, "read", reach="paths", answers={200: RunResponse})
    async def run(self, call: ApiCall) -> Mapping[str, object]:
        """One run, with what it wrote."""
        return with_times(call.runs.shown(self._run(call), self._store.history.run))

    @post("/api/runs/{id}/undo", _MODULE, "write", reach="paths")
    async def undo(self, call: ApiCall) -> UndoResponse:
        """Undo a run and what followed from it."""
        name = str(self._run(call)["id"])
        return await self._taken_back(call, partial(self._undo.followed, name), name)

    @get("/api/runs/{id}/undo", _MODULE, "read", reach="paths", answers={200: UndoPlanResponse})
    async def undo_plan(self, call: ApiCall) -> dict[str, object]:
        """What undoing a run would take back."""
        name = str(self._run(call)["id"])
        return await self._plan(call, partial(self._undo.followed, name))

    @post("/api/sessions/undo", _MODULE, "write", reach="paths")
    async def undo_session(self, call: ApiCall, body: SessionUndoRequest) -> UndoResponse:
        """Undo all that a conversation led to, and keep the conversation."""
        note = call.sight.find(body.note)
        return await self._taken_back(call, self._of_session(call, note, body), printable(note))

    @post(
        "/api/sessions/undo/plan",
        _MODULE,
        "read",
        reach="paths",
        answers={200: UndoPlanResponse},
    )
    async def session_undo_plan(self, call: ApiCall, body: SessionUndoRequest) -> dict[str, object]:
        """What undoing a conversation would take back."""
        note = call.sight.find(body.note)
        return await self._plan(call, self._of_session(call, note, body))

    def _of_session(self, call: ApiCall, note: VaultPath, asked: SessionUndoRequest) -> FindRuns:
        return partial(
            runs_of_session, self._store.history, note, asked.recorded, exists=call.runs.exists
        )

    async def _plan(self, call: ApiCall, find: FindRuns) -> dict[str, object]:
        runs = await self._found(call, find)
        paths = dict.fromkeys(path for run in runs for path in paths_of(run, "wrote"))
        listed = [_listed(run, call.runs.shown(run)) for run in runs]
        return {"runs": with_times(listed), "paths": list(paths)}

    async def _found(self, call: ApiCall, find: FindRuns) -> list[dict[str, object]]:
        runs = await asyncio.to_thread(find)
        if not all(map(call.runs.exists, runs)):
            raise web.HTTPForbidden(
                text="what followed from this run reaches beyond what this key may see"
            )
        return runs

    async def _taken_back(self, call: ApiCall, find: FindRuns, what: str) -> UndoResponse:
        await self._found(call, find)
        writing = call.identity.grant("vault", "write")
        if writing is None:
            raise web.HTTPForbidden(text="an undo writes notes, so it takes a key with vault:write")
        refuse = refusing_to_watch_beyond(call.reading, self._store)
        undone = await self._undo.undo_all(
            find,
            what,
            may_write=lambda path: writing.sees(path) and call.sight.sees(path),
            refuse=refuse,
            caller=call.caller,
        )
        kept = {
            path: list(texts) if call.reading.sees(path) else []
            for path, texts in undone.kept.items()
        }
        return {
            "runs": list(undone.runs),
            "paths": list(undone.paths),
            "kept": kept,
            "undo": undone.undo,
        }

    @get("/api/why", _MODULE, "read", reach="paths", answers={200: WhyResponse})
    async def why(self, call: ApiCall, query: WhyQuery) -> dict[str, object]:
        """Where the lines of a note come from."""
        path, line = call.sight.find(query.path), query.line
        lines = await asyncio.to_thread(self._why.lines, path, sees=call.sight.sees)
        if line is not None and line > len(lines):
            raise NotFoundError(f"{printable(path)} has {len(lines)} lines")
        chosen = lines if line is None else lines[line - 1 : line]
        found = {
            name: self._why.run(name)
            for name in dict.fromkeys(origin.run for origin in chosen)
            if name is not None
        }
        access, find = call.runs, self._store.history.run
        runs = {
            name: access.shown(run, find) if run is not None and access.exists(run) else None
            for name, run in found.items()
        }
        chains = {
            name: await asyncio.to_thread(self._chain, name, access)
            for name, run in runs.items()
            if run is not None
        }
        may_read = call.reading.sees(
            path
        )  # where lines come from is the curator's matter; what they say is the vault's
        lines_told = [
            asdict(origin) if may_read else asdict(origin) | {"text": ""} for origin in chosen
        ]
        return with_times(
            {"path": printable(path), "lines": lines_told, "runs": runs, "chains": chains}
        )

    def _chain(self, run: str, access: RunFilter) -> list[dict[str, object]]:
        """What led to the run, the nearest first, as far as the caller sees. In a thread."""
        seen = [access.shown(one) for one in self._why.chain(run) if access.exists(one)]
        return [{name: one.get(name) for name in _LINKED} for one in seen]

    def _listed(self, access: RunFilter, query: RunsQuery) -> list[dict[str, object]]:
        history, before = self._store.history, query.before
        if access.is_everything and query.all:
            return history.runs(limit=query.limit, before=before)
        sees, exists = (bool, bool) if access.is_everything else (access.access.sees, access.exists)
        return history.runs_that(
            sees,
            lambda run: exists(run) and (query.all or not is_without_effect(run)),
            limit=query.limit,
            before=before,
        )

    def _run(self, call: ApiCall) -> Mapping[str, object]:
        name = call.named("id")
        run = self._store.history.run(name)
        if run is None or not call.runs.exists(run):
            raise NotFoundError(
                f"there is no run {printable(name[:80])}; `parachute runs` lists them"
            )
        return run


def _listed(run: Mapping[str, object], shown: Mapping[str, object]) -> dict[str, object]:
    return {**{key: shown[key] for key in _LISTED}, "wrote": paths_of(run, "wrote")}
