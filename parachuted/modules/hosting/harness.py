"""One module without a daemon, for its author's tests: real vault and permissions, fake agents."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from parachuted.access.caller import NO_CALLER, Caller, WorkRequest, current
from parachuted.access.events import EventFilter
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.access.own_folders import OwnFolders
from parachuted.agents.job import AgentResult, TextStep
from parachuted.audit.activity import ActivityLog
from parachuted.audit.chain import NullAuditRecorder
from parachuted.errors import AgentFailedError, NotFoundError
from parachuted.events import CATALOG, Bus, load_ignore
from parachuted.history.run_account import CallRun
from parachuted.keys import EVERYWHERE
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import EventPublisher
from parachuted.modules.hosting.exchange import Interfaces, ModuleExchange, ModuleRouteTable
from parachuted.modules.hosting.host import HandlerCall
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.modules.hosting.module_context import ModuleContext, ModuleContextSources
from parachuted.modules.hosting.schedules import ModuleScheduler
from parachuted.modules.module_state import StateAccess
from parachuted.modules.outside_folders import OutsideAccess
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.arguments import RequestParts
from parachuted.modules.registry.copies import read_tree
from parachuted.modules.registry.declaration import CommandSpec, ToolSpec
from parachuted.modules.registry.install import LITTER
from parachuted.modules.registry.manifest import FILE, read_manifest
from parachuted.modules.results import Finding, body_in_memory
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import RunAccess
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.runs.run import RunFollower
from parachuted.search import IndexUpdate, Search
from parachuted.suggestions import Proposal, Suggestions
from parachuted.texts.times import utc_now
from parachuted.vault import ObjectStore, Scanner, Store, VaultIndex, VaultRoot, WriteJournal

# a test is about what a module does, not how fast a busy machine loads it
_SETTLED_S, _SLOW_S = 60.0, 1.0


class _Vault:
    """A vault's store, with an index and search of its own."""

    def __init__(self, folder: Path, private: Path, closing: ExitStack) -> None:
        self.root, self._index = VaultRoot(folder), VaultIndex()
        self._scanner = Scanner(self.root, self._index, load_ignore(self.root))
        objects, history = ObjectStore(private / "objects"), WriteJournal(private / "history.db")
        self.store = Store(self.root, objects, history, utc_now, notice=self._notice)
        self._search = Search(
            private / "search.db", self.root, self._index, lambda _subject, _problem: None
        )
        self._search.indexer.start()
        for part in (objects, history, self.store, self._search):
            closing.callback(part.close)
        self.granted = GrantedVaults(self.store, self._index, self._search)
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        """Index the present content, as the daemon would moments after a change. One at a time: a
        scan that began earlier does not put an older state over a newer one.
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


@dataclass(frozen=True, slots=True)
class ModuleHarness:
    """A module that runs.

    Errors arrive as they would in the daemon: a wrong argument, a permission that lacks, a handler
    that failed.

    `published` is what it published, by name and data; `asked` what it asked of its agents,
    `suggested` what it suggested: action, path and payload; `state` its `self.state`; `schedules`
    those that it has set.
    """

    _host: InProcessHost
    _vault: _Vault
    _context: ModuleContext
    published: list[tuple[str, Mapping[str, object]]]
    asked: list[tuple[str, str]]
    suggested: list[tuple[str, str, Mapping[str, object]]]
    _asking: Caller = field(default_factory=lambda: Caller(request=WorkRequest(by="person")))

    def with_key(self, key_id: str, *, paths: Iterable[str] | None = None) -> ModuleHarness:
        """The same module, asked through the API key of that id; `paths` are the patterns that the
        key is limited to, None those of no limited one.
        """
        grant = EVERYWHERE if paths is None else grant_of(paths)
        request = WorkRequest(by="person", key=key_id)
        return replace(self, _asking=Caller(request=request, grant=CallerGrant(grant, grant)))

    @property
    def instance(self) -> Any:  # noqa: ANN401  a class of the module's own
        """The module's own object, for what no route, tool or event reaches."""
        return self._host.instance

    @property
    def state(self) -> StateAccess:
        return self._context.state

    @property
    def schedules(self) -> ScheduleAccess:
        return self._context.schedules

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
        declared, routes = self._host.declared, ModuleRouteTable()
        routes.add(self._host)
        route = routes.find(method, declared.prefix + path) or routes.find(method, path)
        if route is None:
            raise NotFoundError(f"{declared.name} has no route {method} {path}")
        source = None
        if upload is not None:  # in several pieces, as over a network
            source = body_in_memory(content_type, upload, piece=len(upload) // 3 + 1)
        parts = RequestParts(
            path=route.path_values, query=query or {}, tolerant=route.spec.tolerant, source=source
        )
        await self._vault.look()
        call = HandlerCall(route.spec.handler, body or {}, self._asking.fork(), request=parts)
        if not route.spec.streams:
            return await self._host.call(call)
        return [item async for item in self._host.stream(call)]

    async def tool(self, name: str, /, **arguments: object) -> object:
        """Call a tool."""
        return await self._call_named("tool", name, self._host.declared.tools, arguments)

    async def event(self, name: str, /, **data: object) -> None:
        """Deliver an event to its handlers, and wait for them.

        As in the daemon, one about a file that the module may not read is not delivered.
        """
        specs = [spec for spec in self._host.declared.events if spec.event == name]
        if not specs:
            raise NotFoundError(f"{self._host.name} does not hear {name}")
        await self._vault.look()
        known, reads = CATALOG.get(name), self._context.vault.files.bounds.reads
        sees = EventFilter.of_module(self._host.name, reads, has_others=True)
        received = (name, data) if known is None else sees.visible(known, data)
        if received is None or received[0] != name:
            return
        for spec in specs:
            caller = Caller(request=WorkRequest(by="event"))
            await self._host.call(HandlerCall(spec.handler, received[1], caller, is_event=True))

    async def tick(self, name: str) -> None:
        """Let a schedule run now: the one that it has set by that name, or else the method of that
        name that it declares one for.
        """
        found: dict[str, tuple[str, Mapping[str, object]]] = {
            spec.handler: (spec.handler, {}) for spec in self._host.declared.schedules
        }
        for schedule in await self.schedules.list():
            found[schedule.name] = schedule.method, schedule.arguments
        if name not in found:
            raise NotFoundError(f"{self._host.name} has no schedule {name}")
        await self._vault.look()
        tick = Caller(request=WorkRequest(by="clock", entry="schedule"))
        await self._host.call(HandlerCall(*found[name], tick, is_event=True))

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
                await self._vault.look()
                call = HandlerCall(spec.handler, arguments, self._asking.fork())
                return await self._host.call(call)
        raise NotFoundError(f"{self._host.name} has no {kind} {name}")

    async def doctor(self) -> list[Finding]:
        """What the module reports to `parachute doctor`."""
        await self._vault.look()
        return await self._host.doctor(self._asking.fork())

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
    with (
        tempfile.TemporaryDirectory(
            prefix="parachute-alone-", ignore_cleanup_errors=True
        ) as temporary,
        ExitStack() as closing,
    ):
        private = Path(await asyncio.to_thread(os.path.realpath, temporary))
        copy, litter = private / "module", shutil.ignore_patterns(*LITTER)
        await asyncio.to_thread(shutil.copytree, folder, copy, ignore=litter)
        tree, manifest = read_tree(copy).digest, read_manifest((copy / FILE).read_bytes())
        approved = ApprovedModule(
            name=manifest.name,
            copy=copy,
            digest=tree,
            tree=tree,
            manifest=manifest,
            trust="trusted",
            config=config or {},
        )
        audit, bus = ModuleAudit(NullAuditRecorder(), utc_now), Bus(utc_now)
        published = list[tuple[str, Mapping[str, object]]]()
        bus.subscribe(lambda event: published.append((event.event, event.data)))
        events, scheduler = EventPublisher(bus, audit), ModuleScheduler(utc_now, None, audit)
        events.declare(manifest)
        objects, suggestions = interfaces or {}, _Suggestions()
        others = SimpleNamespace(get=lambda name, *_more: objects.get(name))
        place, agents = _Vault(vault, private, closing), _Agents(answers, has_model=has_model)
        user_home = Path.home()
        sources = ModuleContextSources(
            vaults=place.granted,
            folder=private,
            outside=OutsideAccess(
                user_home=user_home, excluded=(vault,), own=OwnFolders((), user_home)
            ),
            agents_of=lambda _approved: cast(ModuleAgents, agents),
            suggestions=cast(Suggestions, suggestions),
            exchange=ModuleExchange(events, cast(Interfaces, others), scheduler),
            activity=ActivityLog(place.root),
        )
        context = ModuleContext(approved, sources, _acted_on)
        context.runs = runs or context.runs
        await place.look()
        make_run = partial(CallRun, place.store)
        host = InProcessHost(approved, context, make_run, context.close)
        await host.start()
        scheduler.add(host)
        try:
            yield ModuleHarness(host, place, context, published, agents.asked, suggestions.proposed)
        finally:
            await host.stop()


class _Suggestions:
    """`Suggestions` that are remembered and go nowhere."""

    def __init__(self) -> None:
        self.proposed: list[tuple[str, str, Mapping[str, object]]] = []
        self.parts_of = lambda _suggestion: ()

    async def propose(self, proposal: Proposal) -> object:
        self.proposed.append((proposal.action, proposal.path, proposal.payload))
        return SimpleNamespace(id=f"s{len(self.proposed):010d}")

    def get(self, suggestion_id: str, **_more: object) -> object:
        return SimpleNamespace(id=suggestion_id)

    async def approve(self, _suggestion_id: str, **_more: object) -> object:
        return SimpleNamespace(status="approved")

    async def reject(self, _suggestion_id: str, **_more: object) -> object:
        return SimpleNamespace(status="rejected")


@dataclass(frozen=True, slots=True)
class _Asked:
    agent: str
    prompt: str
    follower: RunFollower | None = None


class _Agents:
    """`ModuleAgents`, and their runner, where `answers` speaks for the model: each run is one
    text.
    """

    is_trusted = True

    def __init__(self, answers: Callable[[str, str], str] | None, *, has_model: bool) -> None:
        self._answers, self.has_model, self.runner = answers, has_model, self
        self.asked: list[tuple[str, str]] = []
        self.briefing = SimpleNamespace(tools=SimpleNamespace(server_names=lambda _grant: ()))

    async def request(self, agent: str, prompt: str, *_more: object, **_how: object) -> _Asked:
        return _Asked(agent, prompt)

    def question(self, prompt: str, *_more: object, **_how: object) -> _Asked:
        return _Asked("question", prompt)

    async def run(self, asked: _Asked) -> AgentResult:
        self.asked.append((asked.agent, asked.prompt))
        if self._answers is None:
            raise AgentFailedError(
                "no model is asked in a test: say running_module(..., answers=lambda agent, "
                "prompt: ...)"
            )
        text, run = self._answers(asked.agent, asked.prompt), f"r{len(self.asked):010d}"
        if asked.follower is not None:
            asked.follower.began(run)
            asked.follower.stepped(TextStep(text=text))
        return AgentResult(text=text, run_id=run, outcome="unchanged")

    def grant(self, _asked: _Asked) -> None: ...

    def end_process(self, _run: str) -> None: ...

    async def skills(self, _caller: Caller) -> tuple[()]:
        return ()


def _acted_on() -> Caller:
    """That of the module's code; a test that looks into the state has none."""
    caller = current()
    return Caller() if caller is NO_CALLER else caller
