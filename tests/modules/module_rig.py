"""Yard: a vault with its one writer and its indexes, as a daemon has them, and what modules are
given of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from parachuted.access.agent_config import AgentConfig
from parachuted.access.caller import NO_CALLER, Caller, current
from parachuted.access.own_folders import OwnFolders
from parachuted.access.strangers import Strangers
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.job import Backend, RunLimits
from parachuted.audit.activity import ActivityLog
from parachuted.audit.chain import AuditEvent, NullAuditRecorder
from parachuted.context import ContextAssembly
from parachuted.events import Bus, Event
from parachuted.hooks import Hooks
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.modules.hosting.module_context import ModuleContext, ModuleContextSources
from parachuted.modules.hosting.schedules import ModuleScheduler
from parachuted.modules.outside_folders import OutsideAccess
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.manifest import read_manifest
from parachuted.runs.agent_briefing import AgentBriefing, AgentTools
from parachuted.runs.agent_runner import AgentRunner, RunAdmission
from parachuted.runs.agent_tools import ModuleTrust, ServerTools
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_vault import GrantedVault, GrantedVaults
from parachuted.runs.run_container import RunContainers
from parachuted.runs.skills import AgentSkills
from parachuted.search import IndexUpdate
from parachuted.state import open_state
from parachuted.tasks import Budget, RunCountLimits
from parachuted.testing import ScriptedBackend
from parachuted.vault import (
    IndexEntry,
    ObjectStore,
    Store,
    VaultRoot,
    WriteJournal,
    digest_of,
)
from tests.runs.task_rig import FakeSuggestions, make_parts
from tests.search.search_rig import SearchRig

LIMITS = RunLimits(timeout_s=30, max_turns=10, max_cost_usd=0.5)
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
UNRECORDED = ModuleAudit(NullAuditRecorder(), lambda: NOON)


def acted_on() -> Caller:
    """That of the code which runs here; a test that says nothing of it acts as the module
    itself.
    """
    found = current()
    return Caller() if found is NO_CALLER else found


class MemoryAudit:
    """An audit that remembers."""

    refusal: str | None = None

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class ModulesRig:
    """Modules, to agents: `tools` and `standing` by module."""

    def __init__(self, tools: Any = tuple, call_tool: Any = None, standing: Any = None) -> None:
        self.tools, self._call = tools, call_tool
        self.trust_of = standing or (lambda _module: ModuleTrust())

    async def call_tool(self, *asked: Any) -> object:
        return await self._call(*asked)


class AgentsRig:
    """A runner of agents with what it is made from. `runs`: how many there may be in an hour;
    `again`: the same with another backend.
    """

    again: Callable[[Backend], AgentsRig]

    def __init__(  # noqa: PLR0913  what a test may say of agents
        self,
        rig: ModuleRig,
        backend: Backend,
        at_work: ActiveRuns,
        *,
        runs: int = 100,
        runs_per_cause: int = 50,
        asker: Hooks | None = None,
        is_paused: Callable[[], bool] = lambda: False,
        containers: RunContainers | None = None,
        declared: Callable[[str], dict[str, AgentConfig]] = lambda _module: {},
        said: Callable[[str], str | None] = lambda _module: None,
        tools: Any = tuple,
        call_tool: Any = None,
        standing: Any = None,
        concurrency: int = 2,
        servers: ServerTools | None = None,
        make_runner: type[AgentRunner] = AgentRunner,
        **more: Any,
    ) -> None:
        self.at_work, self._declared, self._said = at_work, declared, said
        self.suggestions = more.setdefault("suggestions", FakeSuggestions())
        counts = RunCountLimits(
            runs_per_hour=runs, runs_per_day=1_000, runs_per_cause=runs_per_cause
        )
        self.budget = Budget(counts, rig.history, rig.state, rig.clock)
        self.admission = RunAdmission(
            budget=self.budget,
            is_paused=is_paused,
            limits=LIMITS,
            conversation_limits=LIMITS,
            runs=asyncio.Semaphore(concurrency),
            turns=asyncio.Semaphore(50),
        )
        parts = make_parts(rig, rig.vaults, backend, asker, active_runs=at_work, **more)
        briefing = AgentBriefing(
            AgentSkills(rig.root, rig.folder / "person", Strangers()),
            AgentTools(ModulesRig(tools, call_tool, standing), servers),
            ContextAssembly(rig.library.index, lambda _path: ()),
        )
        containers = containers or RunContainers(
            sandboxes=None,
            store=rig.store,
            index=rig.library.index,
            user_home=rig.folder,
            own_folders=OwnFolders((), rig.folder),
        )
        self.runner = make_runner(parts, self.admission, briefing, containers)

    def of(self, approved: ApprovedModule) -> ModuleAgents:
        """That module's."""
        return ModuleAgents(
            self.runner, approved, declared=self._declared, prompts=SimpleNamespace(get=self._said)
        )


def outside(
    home: Path, *, excluded: tuple[Path, ...] = (), own: Sequence[str] = ()
) -> OutsideAccess:
    return OutsideAccess(user_home=home, excluded=excluded, own=OwnFolders(own, home))


class RigExchange:
    """Events that are remembered, and interfaces that are given."""

    def __init__(self, rig: ModuleRig, interfaces: dict[str, object]) -> None:
        self.events = self.interfaces = self
        self.scheduler, self._rig, self._interfaces = rig.scheduler, rig, interfaces

    def publish(self, module: str, event: str, data: dict[str, object], _caller: Caller) -> None:
        self._rig.published.append((module, event, dict(data)))

    def writing(self, _path: str, _caller: Caller) -> Any:
        return nullcontext(lambda _written: None)

    def get(self, name: str, *_more: object) -> object | None:
        return self._interfaces.get(name)


class ModuleRig:
    """`save` is a person's; `bounded` is what a module gets."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.vault = folder, folder / "vault"
        self.vault.mkdir(exist_ok=True)
        self.audit = MemoryAudit()
        self.events: list[Event] = []
        self.published: list[tuple[str, str, dict[str, object]]] = []
        self.noticed: list[str] = []
        self.root = VaultRoot(self.vault)
        self.objects = ObjectStore(folder / "objects")
        self.history = WriteJournal(folder / "history.db")
        self.store = Store(self.root, self.objects, self.history, self.clock, notice=self.notice)
        self.library = SearchRig(self.vault, folder / "search.db")
        self.library.start()
        self.vaults = GrantedVaults(self.store, self.library.index, self.library.search, self.audit)

        self.state = open_state(folder / "state.db")
        self.scheduler = ModuleScheduler(self.clock, self.state, UNRECORDED)
        self.bus = Bus(self.clock)
        self.bus.subscribe(self.events.append)

    def clock(self) -> datetime:
        return NOON

    def agents(
        self, backend: Backend | None = None, *, at_work: ActiveRuns | None = None, **more: Any
    ) -> AgentsRig:
        """With what agents work; `more` as `AgentsRig` takes it."""
        backend, at_work = backend or ScriptedBackend(), at_work or ActiveRuns()
        agents = AgentsRig(self, backend, at_work, **more)
        agents.again = lambda backend: self.agents(backend, at_work=at_work, **more)
        return agents

    def given(
        self,
        approved: ApprovedModule,
        agents: AgentsRig | None = None,
        interfaces: dict[str, object] | None = None,
    ) -> ModuleContext:
        """What the module of that approval is given."""
        agents = agents or self.agents()
        sources = ModuleContextSources(
            vaults=self.vaults,
            folder=self.folder / "state",
            outside=outside(self.folder / "person", excluded=(self.vault,)),
            agents_of=agents.of,
            suggestions=agents.suggestions,
            exchange=RigExchange(self, interfaces or {}),
            activity=ActivityLog(self.root, self.clock),
        )
        return ModuleContext(approved, sources, acted_on)

    def approve(
        self,
        manifest: str,
        *,
        config: dict[str, object] | None = None,
        agents: dict[str, object] | None = None,
        **files: str,
    ) -> ApprovedModule:
        """A module of that manifest, approved; `agents` and `config` as modules.yaml has them,
        `files` by path, `__` for a slash.
        """
        head = "name: telegram-bot\nversion: 1.0.0\nmodule: module.py\n"
        copy = self.folder / "copy"
        for name, text in files.items():
            file = copy / f"{name.replace('__', '/')}.md"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return ApprovedModule(
            name="telegram-bot",
            copy=copy,
            digest="sha256:1",
            tree="sha256:2",
            manifest=read_manifest(head + textwrap.dedent(manifest)),
            trust="trusted",
            overrides=agents or {},
            config=config or {},
        )

    def save(self, path: str, text: str | bytes) -> None:
        self.library.save(path, text)

    def text(self, path: str) -> str:
        return (self.vault / path).read_bytes().decode()

    def link(self, path: str, to: str) -> None:
        """`to` as it stands in the link."""
        place = self.vault / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(to)

    async def notice(self, paths: Iterable[str]) -> None:
        """As the change detector: the index, and search, know what is there now."""
        for path in paths:
            self.noticed.append(path)
            file, entry = self.vault / path, None
            with contextlib.suppress(OSError):
                entry = IndexEntry.of(file.stat(), digest_of(file.read_bytes()))
            self.library.index.set(path, entry)
            self.library.search.indexer.follow([(path, IndexUpdate(entry))])

    def bounded(
        self, *, read: Iterable[str] = (), write: Iterable[str] = (), **more: Callable[..., None]
    ) -> GrantedVault:
        bounds = ModuleBounds.of_module("daily", read=read, write=write)
        return self.vaults.of_module("daily", bounds, caller=acted_on, **more)

    def close(self) -> None:
        self.library.search.close()
        self.state.close()
        self.store.close()
        self.history.close()
        self.objects.close()
