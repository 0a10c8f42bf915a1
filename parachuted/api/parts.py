"""Parts: what the routes are given to answer from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from parachuted.access.origins import Origins
from parachuted.agents import Finding
from parachuted.agents.at_work import AtWork
from parachuted.agents.gateway import Gateway
from parachuted.agents.permission import Permissions
from parachuted.agents.sandbox import Sandboxes
from parachuted.api.door import KeyDoor, Mode
from parachuted.api.guard import Guard
from parachuted.bubbling import Reconciler, Reviews, Watches
from parachuted.context import SessionContexts
from parachuted.events import Bus, Problems
from parachuted.events.audit_log import AuditLog
from parachuted.hooks import Hooks
from parachuted.modules.agent_desk import AgentDesk
from parachuted.modules.manager import Modules
from parachuted.modules.trust import Trust
from parachuted.search import Search
from parachuted.suggestions import Suggestions
from parachuted.tasks import Budget, Queue, Worker
from parachuted.tools import Migration, Oddity, Past, Pruning, Restore, Undo, Why
from parachuted.vault import History, Index, Objects, Store, VaultRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The daemon's parts, as the API sees them. `most_cost_usd` is the limit of one run; `rescan` takes whether missing files are meant,
    `end` whether the daemon is to begin again.

    `notice` takes the paths that were written here, to be looked at now.
    """

    home: Path
    vault: Path
    root: VaultRoot
    store: Store
    objects: Objects
    door: KeyDoor
    set_auth_mode: Callable[[Mode], Awaitable[None]]
    guard: Guard
    audit: AuditLog
    index: Index
    search: Search
    history: History
    bus: Bus
    problems: Problems
    watches: Watches
    sessions: SessionContexts
    migration: Migration
    reviews: Reviews
    reconciler: Reconciler
    queue: Queue
    worker: Worker
    budget: Budget
    sandboxes: Sandboxes | None
    gateway: Gateway | None
    undo: Undo
    why: Why
    past: Past
    restore: Restore
    pruning: Pruning
    rescan: Callable[[bool], Awaitable[None]]
    notice: Callable[[Iterable[str]], Awaitable[None]]
    check_notes: Callable[[], Awaitable[list[Oddity]]]
    check_control_folder: Callable[[], dict[str, str]]
    clock: Callable[[], datetime]
    elapsed: Callable[[], datetime]
    started: datetime
    backend: str
    backend_reason: str
    find_logins: Callable[[], Sequence[Finding]]
    most_cost_usd: float
    model: str
    full_every_s: float
    hooks: Hooks
    trust: Trust
    modules: Modules
    suggestions: Suggestions
    permissions: Permissions
    origins: Origins
    at_work: AtWork
    agents: AgentDesk
    is_watching_by: Callable[[], str]
    end: Callable[[bool], None]
    port: Callable[[], int]
