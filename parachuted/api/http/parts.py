"""Parts: what the routes are given to answer from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from parachuted.access.origins import Origins
from parachuted.agents import CredentialSource
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.gateway import Gateway
from parachuted.agents.permission import PermissionRequests
from parachuted.agents.sandbox import Sandboxes
from parachuted.api.http.authenticator import KeyAuthenticator, Mode
from parachuted.api.http.host_guard import HostGuard
from parachuted.audit.log import AuditLog
from parachuted.bubbling import PendingChanges, Reconciler, WatchRegistry
from parachuted.context import SessionContexts
from parachuted.events import Bus, Problems
from parachuted.history import HistoryPruning, HistoryQueries, Restore, Undo, Why
from parachuted.hooks import Hooks
from parachuted.modules.agent_service import AgentService
from parachuted.modules.hosting.manager import ModuleManager
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.search import Search
from parachuted.suggestions import Suggestions
from parachuted.tasks import Budget, Queue, Worker
from parachuted.tools import LintWarning, Migration
from parachuted.vault import History, ObjectStore, Store, VaultIndex, VaultRoot


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """The daemon's parts, as the API sees them.

    `most_cost_usd` is the limit of one run; `rescan` takes whether missing files are meant, `end`
    whether the daemon is to begin again.

    `notice` takes the paths that were written here, to be looked at now.
    """

    home: Path
    vault: Path
    root: VaultRoot
    store: Store
    objects: ObjectStore
    door: KeyAuthenticator
    set_auth_mode: Callable[[Mode], Awaitable[None]]
    guard: HostGuard
    audit: AuditLog
    index: VaultIndex
    search: Search
    history: History
    bus: Bus
    problems: Problems
    watches: WatchRegistry
    sessions: SessionContexts
    migration: Migration
    reviews: PendingChanges
    reconciler: Reconciler
    queue: Queue
    worker: Worker
    budget: Budget
    sandboxes: Sandboxes | None
    gateway: Gateway | None
    undo: Undo
    why: Why
    past: HistoryQueries
    restore: Restore
    pruning: HistoryPruning
    rescan: Callable[[bool], Awaitable[None]]
    notice: Callable[[Iterable[str]], Awaitable[None]]
    check_notes: Callable[[], Awaitable[list[LintWarning]]]
    check_control_folder: Callable[[], dict[str, str]]
    clock: Callable[[], datetime]
    elapsed: Callable[[], datetime]
    started: datetime
    backend: str
    backend_reason: str
    find_logins: Callable[[], Sequence[CredentialSource]]
    most_cost_usd: float
    model: str
    full_every_s: float
    hooks: Hooks
    trust: ModuleApprovals
    modules: ModuleManager
    suggestions: Suggestions
    permissions: PermissionRequests
    origins: Origins
    at_work: ActiveRuns
    agents: AgentService
    is_watching_by: Callable[[], str]
    end: Callable[[bool], None]
    port: Callable[[], int]
