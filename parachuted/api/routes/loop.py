"""Loop: who watches, what waits, what ran, and what a change would set off."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, cast

from aiohttp import web
from pydantic import Field

from parachuted.access.filter import AccessFilter, unknown
from parachuted.access.run_records import RunAccess, paths_of
from parachuted.api.http.decorators import get, post
from parachuted.api.http.fields import Path, RequestModel, Whole
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.route import ApiCall
from parachuted.api.http.watching import refusing_to_watch_beyond
from parachuted.api.routes import documents as told
from parachuted.api.routes.watch_checks import watch_notes
from parachuted.bubbling import ChangePlan, PlannedRun, plan_for
from parachuted.errors import NotFoundError, StorageFailedError
from parachuted.state import SQLITE_VERSION
from parachuted.tasks import Task
from parachuted.times import time_of, with_times
from parachuted.tools.vault_checks import conflict_copies
from parachuted.vault import VaultPath, printable

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


class WhyQuery(RequestModel):
    """Which lines."""

    path: Path
    line: Annotated[Whole, Field(ge=1, le=10_000_000)] | None = None


class NotePathRequest(RequestModel):
    """Which note."""

    path: Path


class RunScanRequest(RequestModel):
    """Whether files that are missing were meant to go."""

    accept_missing: Annotated[bool, Field(strict=True)] = False


class LoopRoutes:
    """The routes of the loop. A caller whose paths are limited sees the watchers there."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts

    @get("/api/watches", _MODULE, "read", reach="paths")
    async def watches(self, call: ApiCall) -> told.WatchesResponse:
        """Who watches what."""
        watchers = [
            one.watcher for one in self._parts.watches.all() if call.sight.sees(one.watcher)
        ]
        watches = await asyncio.to_thread(
            lambda: [self._watch(watcher, call.sight) for watcher in watchers]
        )
        return {"watches": with_times(watches), "count": len(watches)}

    @get("/api/tasks", _MODULE, "read", reach="paths")
    async def tasks(self, call: ApiCall) -> told.TasksResponse:
        """List the tasks: watchers with changes to review."""
        tasks = [
            self._task(task, call.sight)
            for task in self._parts.queue.all()
            if call.sight.sees(task.watcher)
        ]
        return {"tasks": tasks, "count": len(tasks), "paused": self._parts.worker.paused}

    @get("/api/runs", _MODULE, "read", reach="paths", answers={200: told.RunsResponse})
    async def runs(self, call: ApiCall, query: RunsQuery) -> dict[str, object]:
        """List runs, newest first."""
        access = call.runs
        runs = await asyncio.to_thread(self._listed, access, query)
        shown = ((run, access.shown(run)) for run in runs)
        listed = [
            {**{key: one[key] for key in _LISTED}, "wrote": paths_of(run, "wrote")}
            for run, one in shown
        ]
        return {"runs": with_times(listed), "count": len(listed)}

    @get("/api/runs/{id}", _MODULE, "read", reach="paths", answers={200: told.RunResponse})
    async def run(self, call: ApiCall) -> Mapping[str, object]:
        """One run, with what it wrote."""
        return with_times(call.runs.shown(self._run(call), self._parts.history.run))

    @post("/api/runs/{id}/undo", _MODULE, "write", reach="paths")
    async def undo(self, call: ApiCall) -> told.UndoResponse:
        """Undo a run and what followed from it."""
        name = str(self._run(call)["id"])
        if not all(
            call.runs.exists(run)
            for run in await asyncio.to_thread(self._parts.undo.followed, name)
        ):
            raise web.HTTPForbidden(
                text="what followed from this run reaches beyond what this key may see"
            )
        writing = call.identity.grant("vault", "write")
        if writing is None:
            raise web.HTTPForbidden(text="an undo writes notes, so it takes a key with vault:write")
        refuse = refusing_to_watch_beyond(call.reading, self._parts.store)
        undone = await self._parts.undo.undo(
            name, may_write=lambda path: writing.sees(path) and call.sight.sees(path), refuse=refuse
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

    @post("/api/bubble/plan", _MODULE, "read", reach="paths", answers={200: told.PlanResponse})
    async def plan(self, call: ApiCall, body: NotePathRequest) -> dict[str, object]:
        """What a change to a note would trigger."""
        path = _visible(call, body.path)
        if self._parts.index.get(path) is None and not self._parts.watches.watchers_of(path):
            await asyncio.to_thread(
                self._parts.root.read_head, call.sight.find(path), 0
            )  # a misspelled name must not read as no runs
        return call.runs.plan(plan_document(self._plan(path)))

    @post("/api/bubble/run", _MODULE, "write", reach="paths", answers={200: told.BubbleResponse})
    async def bubble(self, call: ApiCall, body: NotePathRequest) -> dict[str, object]:
        """Have the watchers of a note review it now."""
        path = _visible(call, body.path)
        plan = self._plan(path, looks=True)
        cause, tasks = self._parts.reconciler.ask(path)
        seen = [task.id for task in tasks if call.sight.sees(task.watcher)]
        return {**call.runs.plan(plan_document(plan)), "cause": cause.id, "tasks": seen}

    @get("/api/why", _MODULE, "read", reach="paths", answers={200: told.WhyResponse})
    async def why(self, call: ApiCall, query: WhyQuery) -> dict[str, object]:
        """Where the lines of a note come from."""
        path, line = call.sight.find(query.path), query.line
        lines = await asyncio.to_thread(self._parts.why.lines, path, sees=call.sight.sees)
        if line is not None and line > len(lines):
            raise NotFoundError(f"{printable(path)} has {len(lines)} lines")
        chosen = lines if line is None else lines[line - 1 : line]
        found = {
            name: self._parts.why.run(name)
            for name in {origin.run for origin in chosen}
            if name is not None
        }
        access, find = call.runs, self._parts.history.run
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

    def _chain(self, run: str, access: RunAccess) -> list[dict[str, object]]:
        """What led to the run, the nearest first, as far as the caller sees. In a thread."""
        seen = [access.shown(one) for one in self._parts.why.chain(run) if access.exists(one)]
        return [{name: one.get(name) for name in _LINKED} for one in seen]

    @post("/api/pause", _MODULE, "admin", reach="beyond")
    async def pause(self) -> told.PausedResponse:
        """Start no runs until resumed."""
        self._parts.worker.pause()
        return {"paused": True}

    @post("/api/resume", _MODULE, "admin", reach="beyond")
    async def resume(self) -> told.PausedResponse:
        """Resume starting runs."""
        self._parts.worker.resume()
        return {"paused": False}

    @post("/api/scan", _MODULE, "admin", reach="beyond")
    async def scan(self, body: RunScanRequest) -> told.ScanResponse:
        """Compare the whole vault with the index now."""
        await self._parts.rescan(body.accept_missing)
        return {"files": len(self._parts.index)}

    @get("/api/doctor", _MODULE, "admin", reach="paths")
    async def doctor(self, call: ApiCall) -> told.DoctorResponse:
        """Problems of the vault and of single notes."""
        notes = [asdict(oddity) for oddity in await self._parts.check_notes()]
        watches = await asyncio.to_thread(
            watch_notes,
            self._parts.watches.all(),
            self._parts.watches,
            names_others=call.grant.alternatives is None,
        )
        unindexed, indexed = await asyncio.to_thread(self._searchable)
        told = [
            note
            for note in (*watches, *notes, *conflict_copies(self._parts.index.paths()), *unindexed)
            if call.sight.sees(str(note["path"]))
        ]
        if (
            call.grant.alternatives is not None
        ):  # problems may name any note, and numbers count them
            return {
                "problems": {},
                "notes": told,
                "search": None,
                "history": None,
                "databases": None,
            }
        history = await self._history_size()
        problems = self._parts.problems.all() | await asyncio.to_thread(
            self._parts.check_control_folder
        )
        return {
            "problems": problems,
            "notes": told,
            "search": indexed,
            "history": history,
            "databases": await asyncio.to_thread(self._databases),
        }

    def _databases(self) -> told.DatabasesResponse:
        """In a thread."""
        parts = self._parts
        found = [parts.history.status(), parts.objects.seen_status(), parts.search.status()]
        if parts.gateway is not None:
            found.append(parts.gateway.usage_store.status())
        return {
            "sqlite": SQLITE_VERSION,
            "files": [cast("told.DatabaseResponse", asdict(one)) for one in found],
        }

    async def _history_size(self) -> told.HistorySizeResponse | None:
        try:
            size = await self._parts.pruning.size()
        except (StorageFailedError, OSError):  # a problem by itself, which is told as such
            return None
        return {
            "texts": size.texts,
            "text_bytes": size.text_bytes,
            "seen_bytes": size.seen_bytes,
            "record_bytes": size.record_bytes,
            "writes": size.writes,
            "since": time_of(size.since) if size.since is not None else None,
        }

    def _searchable(self) -> tuple[list[dict[str, object]], told.IndexResponse]:
        """The notes that search does not know whole, and how many it knows: none while there is no
        index. In a thread.
        """
        search = self._parts.search
        try:
            found: list[dict[str, object]] = [
                {
                    "path": printable(one.path),
                    "code": "unindexed",
                    "message": f"not found by all of its text: {one.reason}",
                }
                for one in search.unindexed()
            ]
            return found, {"indexed": search.count(), "waiting": search.waiting}
        except StorageFailedError:  # a problem by itself, which is told as such
            return [], {"indexed": 0, "waiting": search.waiting}

    def _listed(self, access: RunAccess, query: RunsQuery) -> list[dict[str, object]]:
        """In a thread."""
        history = self._parts.history
        if access.is_everything:
            return history.runs(limit=query.limit, before=query.before)
        return history.runs_that(
            access.access.sees, access.exists, limit=query.limit, before=query.before
        )

    def _run(self, call: ApiCall) -> Mapping[str, object]:
        name = call.named("id")
        run = self._parts.history.run(name)
        if run is None or not call.runs.exists(run):
            raise NotFoundError(
                f"there is no run {printable(name[:80])}; `parachute runs` lists them"
            )
        return run

    def _plan(self, path: VaultPath, *, looks: bool = False) -> ChangePlan:
        """`looks`: where the note watches others, it looks at these too."""
        plan = plan_for(path, self._parts.watches, most_cost_usd=self._parts.most_cost_usd)
        own = self._parts.watches.of(path) if looks else None
        if own is None or any(run.watcher == path for run in plan.runs):
            return plan
        run = PlannedRun(
            watcher=path,
            depth=0,
            because=path,
            patterns=tuple(pattern.text for pattern in own.patterns),
        )
        return replace(
            plan,
            runs=(run, *plan.runs),
            most_cost_usd=plan.most_cost_usd + self._parts.most_cost_usd,
        )

    def _watch(self, watcher: str, sight: AccessFilter) -> told.WatchResponse:
        declaration = self._parts.watches.of(watcher)
        return {
            "watcher": printable(watcher),
            "patterns": [pattern.text for pattern in declaration.patterns] if declaration else [],
            "problems": list(declaration.problems) if declaration else [],
            "unmatched": self._parts.watches.unmatched(watcher)
            if sight.grant.alternatives is None
            else [],
            "watched": [
                printable(path)
                for path in self._parts.watches.watched_by(watcher)
                if sight.sees(path)
            ],
            "unseen": [
                printable(one.path)
                for one in self._parts.reviews.of(watcher)
                if sight.sees(one.path) and not one.is_of_all
            ],
            "since": self._parts.watches.since(watcher),
        }

    def _task(self, task: Task, sight: AccessFilter) -> told.TaskResponse:
        waits_for = self._parts.queue.waits_for(task)
        waited_for = printable(waits_for) if waits_for and sight.sees(waits_for) else "another"
        reason = task.reason or (f"waits for {waited_for}" if waits_for else None)
        return {
            "id": task.id,
            "watcher": printable(task.watcher),
            "state": task.state,
            "causes": list(task.causes),
            "paths": [
                printable(review.path)
                for review in self._parts.reviews.of(task.watcher)
                if sight.sees(review.path)
            ],
            "due": time_of(task.due_at),
            "run": task.run,
            "attempts": task.attempts,
            "reason": reason,
        }


def plan_document(plan: ChangePlan) -> dict[str, object]:
    """A plan as JSON."""
    return {
        "path": printable(plan.path),
        "most_runs": len(plan.runs),
        "most_cost_usd": round(plan.most_cost_usd, 4),
        "runs": [
            {
                "watcher": printable(run.watcher),
                "depth": run.depth,
                "because": printable(run.because),
                "patterns": list(run.patterns),
            }
            for run in plan.runs
        ],
        "loops": [[printable(path) for path in ring] for ring in plan.loops],
    }


def _visible(call: ApiCall, path: VaultPath) -> VaultPath:
    if not call.sight.sees(path):
        raise unknown(path)
    return path
