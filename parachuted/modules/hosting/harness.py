"""One module without a daemon, for its author's tests: real vault and permissions, fake agents."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from parachuted.access.caller import NO_CALLER, Caller, WorkRequest, current
from parachuted.access.events import EventFilter
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.access.own_folders import OwnFolders
from parachuted.agents.job import AgentResult, TextStep
from parachuted.audit.activity import ActivityLog
from parachuted.audit.chain import NullAuditRecorder
from parachuted.errors import ActRefusedError, AgentFailedError, NotFoundError
from parachuted.events import CATALOG, Bus, load_ignore
from parachuted.history.run_account import CallRun
from parachuted.keys import EVERYWHERE
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import EventPublisher
from parachuted.modules.hosting.exchange import (
    CallingModule,
    Interfaces,
    ModuleExchange,
    ModuleRouteTable,
)
from parachuted.modules.hosting.host import HandlerCall
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.modules.hosting.module_context import (
    ModuleContext,
    ModuleContextSources,
    is_for_person,
)
from parachuted.modules.hosting.outside_folders import OutsideAccess
from parachuted.modules.hosting.schedules import ModuleScheduler
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.arguments import RequestParts
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.declaration import CommandSpec, ToolSpec
from parachuted.modules.registry.install import LITTER
from parachuted.modules.registry.manifest import FILE, read_manifest
from parachuted.modules.results import Finding, body_in_memory
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import AgentResources, AgentStep, RunAccess, StateAccess
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.search import IndexUpdate, Search
from parachuted.texts.times import utc_now
from parachuted.vault import ObjectStore, Scanner, Store, VaultIndex, VaultRoot, WriteJournal

# a test is about what a module does, not how fast a busy machine loads it
_SETTLED_S, _BEGIN_LIMIT_S, _SLOW_S = 60.0, 60.0, 1.0


class ModuleHarness:
    """A module that runs.

    Errors arrive as they would in the daemon: a wrong argument, a permission that lacks, a handler
    that failed.

    `published` is what it published, by name and data; `asked` what it asked of its agents,
    `suggested` what it suggested: action, path and payload; `state` its `self.state`; `schedules`
    those that it has set.
    """

    def __init__(
        self, host: InProcessHost, services: _HarnessServices, asking: Caller | None = None
    ) -> None:
        self._host, self._services = host, services
        self._asking = asking or Caller(request=WorkRequest(by="person"))
        self.published: list[tuple[str, Mapping[str, object]]] = services.events.published
        self.asked: list[tuple[str, str]] = services.asked
        self.suggested: list[tuple[str, str, Mapping[str, object]]] = services.suggested
        self.state: StateAccess = services.state
        self.schedules: ScheduleAccess = services.schedules

    def with_key(self, key_id: str, *, paths: Iterable[str] | None = None) -> ModuleHarness:
        """The same module, asked through the API key of that id; `paths` are the patterns that the
        key is limited to, None those of no limited one.
        """
        grant = EVERYWHERE if paths is None else grant_of(paths)
        asking = Caller(
            request=WorkRequest(by="person", key=key_id), grant=CallerGrant(grant, grant)
        )
        return ModuleHarness(self._host, self._services, asking)

    @property
    def instance(self) -> Any:  # noqa: ANN401  a class of the module's own
        """The module's own object, for what no route, tool or event reaches."""
        return self._host.instance

    @property
    def problem(self) -> str | None:
        """The traceback of what failed last, while it has not gone well since."""
        return self._host.problem

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | list[str]] | None = None,
        body: Mapping[str, object] | None = None,
        upload: bytes | None = None,
        content_type: str = "application/octet-stream",
    ) -> object:
        """Call a route, by its path below the module's prefix, or its whole path.

        What a streaming one yields comes as a list. `upload` is what a handler's Body is made of.
        """
        declared = self._host.declared
        routes = ModuleRouteTable()
        routes.add(self._host)
        found = routes.find(method, declared.prefix + path) or routes.find(method, path)
        if found is None:
            raise NotFoundError(f"{declared.name} has no route {method} {path}")
        await self._services.look()
        parts = RequestParts(
            path=found.path_values,
            query=query or {},
            tolerant=found.spec.tolerant,
            source=None
            if upload is None  # else in several pieces, as over a network
            else body_in_memory(content_type, upload, piece=len(upload) // 3 + 1),
        )
        call = HandlerCall(found.spec.handler, body or {}, self._caller(), request=parts)
        if not found.spec.streams:
            return await self._host.call(call)
        items = self._host.stream(call)
        return [item async for item in items]

    async def tool(self, name: str, /, **arguments: object) -> object:
        """Call a tool."""
        return await self._call_named("tool", name, self._host.declared.tools, arguments)

    async def event(self, name: str, /, **data: object) -> None:
        """Deliver an event to its handlers, and wait for them.

        As in the daemon, one about a file that the module may not read is not delivered.
        """
        specs = self._host.declared.events
        if not any(spec.event == name for spec in specs):
            raise NotFoundError(f"{self._host.name} does not hear {name}")
        await self._services.look()
        received, visible = self._services.received(name, data) or ("", {})
        caller = Caller(request=WorkRequest(by="event"))
        for spec in specs:
            if spec.event == received:
                await self._host.tell(HandlerCall(spec.handler, visible, caller))

    async def tick(self, name: str) -> None:
        """Let a schedule run now: the one that it has set by that name, or else the method of that
        name that it declares one for.
        """
        found = {
            spec.handler: (spec.handler, dict[str, object]())
            for spec in self._host.declared.schedules
        }
        for schedule in await self.schedules.list():
            found[schedule.name] = schedule.method, dict(schedule.arguments)
        if name not in found:
            raise NotFoundError(f"{self._host.name} has no schedule {name}")
        await self._services.look()
        handler, arguments = found[name]
        tick = Caller(request=WorkRequest(by="clock", entry="schedule"))
        await self._host.tell(HandlerCall(handler, arguments, tick))

    async def command(self, name: str, /, **arguments: object) -> object:
        """Call a command of the command line."""
        return await self._call_named("command", name, self._host.declared.commands, arguments)

    async def _call_named(
        self,
        kind: str,
        name: str,
        specs: Iterable[ToolSpec | CommandSpec],
        arguments: Mapping[str, object],
    ) -> object:
        for spec in specs:
            if spec.name == name:
                await self._services.look()
                return await self._host.call(HandlerCall(spec.handler, arguments, self._caller()))
        raise NotFoundError(f"{self._host.name} has no {kind} {name}")

    async def doctor(self) -> list[Finding]:
        """What the module reports to `parachute doctor`."""
        await self._services.look()
        return await self._host.doctor(self._caller())

    def _caller(self) -> Caller:
        """That of a new request."""
        return self._asking.fork()

    def interface(self, name: str) -> object | None:
        """An object that it provides; each of its methods is awaited."""
        return self._host.interface(name, Caller())


@asynccontextmanager
async def running_module(
    folder: Path,
    *,
    vault: Path,
    config: Mapping[str, object] | None = None,
    interfaces: Mapping[str, object] | None = None,
    answers: Callable[[str, str], str] | None = None,
    has_model: bool = True,
    runs: RunAccess | None = None,
) -> AsyncIterator[ModuleHarness]:
    """Run the module in `folder` on the vault while the block lasts.

    It runs in this process and needs no approval. `config` is its `config:` in modules.yaml;
    `interfaces` are the objects that other modules would provide; `answers` replaces the model's
    answer to a prompt; `has_model` is what `self.has_model` says; `runs` takes the place of the
    agents, where a test says itself what each of their steps is.
    """
    # in asyncio's debug mode, which unittest switches on
    asyncio.get_running_loop().slow_callback_duration = _SLOW_S
    # a thread whose task was cancelled may write into it until it ends
    with tempfile.TemporaryDirectory(
        prefix="parachute-alone-", ignore_cleanup_errors=True
    ) as private:
        copy = Path(await asyncio.to_thread(os.path.realpath, private)) / "module"
        await asyncio.to_thread(
            shutil.copytree, folder, copy, ignore=shutil.ignore_patterns(*LITTER)
        )
        tree = read_tree(copy).digest
        manifest = read_manifest((copy / FILE).read_bytes())
        name = manifest.name
        approved = ApprovedModule(
            name=name, copy=copy, digest=tree, tree=tree, manifest=manifest, trust="trusted"
        )
        with ExitStack() as closing:
            services = _HarnessServices(approved, vault, Path(private), closing, interfaces or {})
            services.config, services.answers = config or {}, answers
            services.has_model, services.runs = has_model, runs or services.runs
            await services.look()
            host = InProcessHost(
                approved, services, services.make_run, begin_limit_s=_BEGIN_LIMIT_S
            )
            await host.start()
            services.scheduler.add(host)
            try:
                yield ModuleHarness(host, services)
            finally:
                await host.stop()


class _HarnessServices(ModuleContext):
    """The services of one module as the daemon has them, with a store, an index and search of its
    own. Agents and suggestions are remembered and go nowhere.
    """

    def __init__(
        self,
        approved: ApprovedModule,
        vault: Path,
        private: Path,
        closing: ExitStack,
        interfaces: Mapping[str, object],
    ) -> None:
        self.answers: Callable[[str, str], str] | None = None
        self.asked: list[tuple[str, str]] = []
        self.suggested: list[tuple[str, str, Mapping[str, object]]] = []
        audit = ModuleAudit(NullAuditRecorder(), utc_now)
        self.scheduler = ModuleScheduler(utc_now, None, audit)
        self._looking = asyncio.Lock()
        self.events = _HarnessEvents(Bus(utc_now), audit)
        self.events.declare(approved.manifest)
        root, self._index = VaultRoot(vault), VaultIndex()
        self._scanner = Scanner(root, self._index, load_ignore(root))
        objects, history = ObjectStore(private / "objects"), WriteJournal(private / "history.db")
        store = Store(root, objects, history, utc_now, notice=self._notice)
        self._search = Search(
            private / "search.db", root, self._index, lambda _subject, _problem: None
        )
        self._search.indexer.start()
        for part in (objects, history, store, self._search):
            closing.callback(part.close)
        self.make_run = partial(CallRun, store)
        sources = ModuleContextSources(
            vaults=GrantedVaults(store, self._index, self._search),
            folder=private,
            outside=OutsideAccess(
                user_home=Path.home(), excluded=(vault,), own=OwnFolders((), Path.home())
            ),
            agents_of=lambda _approved: cast(ModuleAgents, _NoAgents()),
            suggestions=None,
            exchange=ModuleExchange(
                self.events, _HarnessInterfaces(interfaces, audit), self.scheduler
            ),
            activity=ActivityLog(root),
        )
        super().__init__(approved, sources, _acted_on)
        self.runs = _HarnessRuns(self)

    async def run_agent(self, agent: str, prompt: str, _options: Mapping[str, object]) -> str:
        self.asked.append((agent, prompt))
        if self.answers is None:
            raise AgentFailedError(
                "no model is asked in a test: say running_module(..., answers=lambda agent, "
                "prompt: ...)"
            )
        return self.answers(agent, prompt)

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        _reasoning: str,
        _base: str | None = None,
    ) -> str:
        self.suggested.append((action, path, payload))
        return f"s{len(self.suggested):010d}"

    async def resolve_suggestion(self, suggestion_id: str, decision: str) -> str:
        if not is_for_person(current()):
            raise ActRefusedError("suggestions are decided on inside `with self.on_behalf_of(...)`")
        return f"{decision} {suggestion_id}"

    def received(
        self, name: str, data: Mapping[str, object]
    ) -> tuple[str, Mapping[str, object]] | None:
        """The event as the module receives it, which is trusted here."""
        kind = CATALOG.get(name)
        event_filter = EventFilter.of_module(self.name, self._bounds.reads, has_others=True)
        return (name, data) if kind is None else event_filter.visible(kind, data)

    async def look(self) -> None:
        """Index the vault's present content, as the daemon would moments after a change. One at a
        time: a scan that began earlier does not put an older state over a newer one.
        """
        async with self._looking:
            scan = await asyncio.to_thread(self._scanner.walk, finished=True)
            for folder in scan.new_folders:
                self._index.add_folder(folder)
            for seen in scan.seen:
                self._index.set(seen.path, seen.new)
                self._search.indexer.follow([(seen.path, IndexUpdate(seen.new))])
            if scan.seen:
                await asyncio.to_thread(self._search.settle, _SETTLED_S)

    async def _notice(self, _paths: Iterable[str]) -> None:
        await self.look()


class _HarnessEvents(EventPublisher):
    def __init__(self, bus: Bus, audit: ModuleAudit) -> None:
        super().__init__(bus, audit)
        self.published: list[tuple[str, Mapping[str, object]]] = []

    def publish(self, module: str, event: str, data: Mapping[str, object], caller: Caller) -> None:
        super().publish(module, event, data, caller)
        self.published.append((event, data))


class _HarnessInterfaces(Interfaces):
    """The objects that a test gives in place of other modules."""

    def __init__(self, objects: Mapping[str, object], audit: ModuleAudit) -> None:
        super().__init__(audit)
        self._objects = objects

    def get(self, name: str, _caller: CallingModule) -> Any:  # noqa: ANN401  whatever the test gave
        return self._objects.get(name)


class _NoAgents:
    has_model = True


class _HarnessRuns:
    """`RunAccess` where `answers` speaks for the model: each run is one text."""

    def __init__(self, services: _HarnessServices) -> None:
        self._services = services
        self._unread: dict[str, list[str]] = {}
        self._answers: dict[str, str] = {}

    async def start(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        text = await self._services.run_agent(agent, prompt, options)
        run = f"r{len(self._answers):010d}"
        self._unread[run], self._answers[run] = [text], text
        return run

    async def next(self, run: str) -> AgentStep | None:
        return TextStep(text=self._unread[run].pop()) if self._unread[run] else None

    async def result(self, run: str) -> AgentResult:
        return AgentResult(text=self._answers[run], run_id=run, outcome="unchanged")

    async def stop(self, run: str) -> bool:
        self._unread[run].clear()
        return False

    async def inject(self, run: str, text: str) -> bool:
        del text
        return bool(self._unread[run])

    async def answer(self, run: str, name: str, value: object) -> bool:
        del run, name, value
        return False

    async def ask(
        self, prompt: str, system: str | None, max_usd: float | None, *, conversation: bool = False
    ) -> str:
        del system, max_usd, conversation
        return await self._services.run_agent("question", prompt, {})

    async def resources(self, agent: str, options: Mapping[str, object]) -> AgentResources:
        del agent, options
        return AgentResources()

    async def skill(self, name: str) -> str:
        raise NotFoundError(f"there is no skill {name[:80]!r}")


def _acted_on() -> Caller:
    """That of the module's code; a test that looks into the state has none."""
    found = current()
    return Caller() if found is NO_CALLER else found
