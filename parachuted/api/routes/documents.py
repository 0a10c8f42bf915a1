"""Documents: the shapes of answers, for the OpenAPI document and readers.

Times are ISO 8601, paths relative to the vault.
"""

from __future__ import annotations

from pydantic import ConfigDict
from typing_extensions import TypedDict

from parachuted.times import Time


class WatchResponse(TypedDict):
    """A watcher, what it says it watches, and what that is now.

    `unmatched`: which patterns match nothing, for keys of the whole vault.
    """

    watcher: str
    patterns: list[str]
    problems: list[str]
    unmatched: list[str]
    watched: list[str]
    unseen: list[str]
    since: Time | None


class WatchesResponse(TypedDict):
    """All watchers."""

    watches: list[WatchResponse]
    count: int


class TaskResponse(TypedDict):
    """A watcher that has something to review."""

    id: str
    watcher: str
    state: str
    causes: list[str]
    paths: list[str]
    due: Time
    run: str | None
    attempts: int
    reason: str | None


class TasksResponse(TypedDict):
    """All tasks, and whether work is paused."""

    tasks: list[TaskResponse]
    count: int
    paused: bool


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


class PlannedRunResponse(TypedDict):
    """One watcher that would wake."""

    watcher: str
    depth: int
    because: str
    patterns: list[str]


class PlanResponse(TypedDict):
    """What a change would set off at most."""

    path: str
    most_runs: int
    most_cost_usd: float
    runs: list[PlannedRunResponse]
    loops: list[list[str]]


class BubbleResponse(PlanResponse):
    """The same, set off."""

    cause: str
    tasks: list[str]


class WhyResponse(TypedDict):
    """Where lines come from; runs by id, and, for each, the runs that led to it, the nearest first.

    A line's `by` is `earlier` when it is older than all that is kept of the history.
    """

    path: str
    lines: list[dict[str, object]]
    runs: dict[str, object]
    chains: dict[str, list[dict[str, object]]]


class PausedResponse(TypedDict):
    """Whether work is paused."""

    paused: bool


class ScanResponse(TypedDict):
    """How many files the vault holds."""

    files: int


class IndexResponse(TypedDict):
    """How many notes can be found by search, and how many files are to be indexed yet."""

    indexed: int
    waiting: int


class HistorySizeResponse(TypedDict):
    """What the history takes: earlier texts and their bytes, those of texts that were only seen,
    those of the record, and since when.
    """

    texts: int
    text_bytes: int
    seen_bytes: int
    record_bytes: int
    writes: int
    since: Time | None


class DatabaseResponse(TypedDict):
    """`version` is that of the schema, null until the file is open; `size` in bytes."""

    file: str
    version: int | None
    size: int
    problem: str | None


class DatabasesResponse(TypedDict):
    """The SQLite library, and the files that are kept with it."""

    sqlite: str
    files: list[DatabaseResponse]


class ModuleFindingResponse(TypedDict):
    """Something wrong that a module reports: what, what to do, and in which file of the vault."""

    module: str
    problem: str
    advice: str
    path: str | None


class DoctorResponse(TypedDict):
    """Problems of the vault, and oddities of single notes; those of which search does not know all
    the text are among them.
    """

    problems: dict[str, str]
    notes: list[dict[str, object]]
    modules: list[ModuleFindingResponse]
    search: IndexResponse | None
    history: HistorySizeResponse | None
    databases: DatabasesResponse | None
