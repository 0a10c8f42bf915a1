"""HTTP routes: all that a daemon answers over HTTP, each group of routes with the parts that it
uses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from socket import socket
from typing import TYPE_CHECKING

from parachuted.addresses import page_address, tls_address
from parachuted.api import (
    AgentRoutes,
    AgentRunRoutes,
    ApiKeyRoutes,
    ApiMiddleware,
    Application,
    AuditRoutes,
    ContextMigrationRoutes,
    ContextRoutes,
    DoctorRoutes,
    EventStreams,
    FileAnswers,
    HealthRoutes,
    HistoryRoutes,
    HookRoutes,
    HostGuard,
    InstructionRoutes,
    KeyAuthenticator,
    LoopHealth,
    LoopRoutes,
    McpServerRoutes,
    Mode,
    ModelRoutes,
    ModuleDispatcher,
    ModuleRoutes,
    ModuleSettingRoutes,
    ParaRoutes,
    PermissionRoutes,
    PolledRoutes,
    PromptRoutes,
    RunRoutes,
    SandboxRoutes,
    SessionMigrationRoutes,
    SettingRoutes,
    SignInRoutes,
    SuggestionRoutes,
    SupervisorRoutes,
    TlsRoutes,
    VaultHealth,
    WorkerRoutes,
    WriteBatcher,
    file_routes,
    make_app,
    make_supervisor_app,
    serve_module,
)
from parachuted.composition import (
    AgentParts,
    HookParts,
    LoopParts,
    ModuleParts,
    VaultParts,
    most_cost_usd,
)
from parachuted.config import SettingsListing, listed
from parachuted.history import Restore
from parachuted.mcp_server import (
    ClientSources,
    ClientTable,
    McpRoutes,
    McpTools,
    NoteResources,
    PastTools,
    ServedModuleTools,
    ServedNoteTools,
    VaultChanges,
    tools_of,
)
from parachuted.modules.agent_service import AgentListing
from parachuted.sync import FileDigests
from parachuted.tools import Migration
from parachuted.vault_state import refuse_unfit
from parachuted.watched_vault import WatchedVault
from parachuted.web import PageRoutes

if TYPE_CHECKING:
    from parachuted.certificates import CertificateAuthority


@dataclass(frozen=True, slots=True)
class DaemonControl:
    """What a request may do to the daemon itself. `end` takes whether the daemon restarts."""

    started: datetime
    end: Callable[[bool], None]
    set_auth_mode: Callable[[Mode], Awaitable[None]]
    env: Mapping[str, str]


class HttpRoutes:
    """The routes of one daemon."""

    def __init__(
        self,
        watched: WatchedVault,
        hooks: HookParts,
        vault: VaultParts,
        loop: LoopParts,
        agents: AgentParts,
        modules: ModuleParts,
        authenticator: KeyAuthenticator,
        control: DaemonControl,
    ) -> None:
        self._watched, self._hooks, self._vault, self._loop = watched, hooks, vault, loop
        self._agents, self._modules = agents, modules
        self._authenticator, self._control = authenticator, control
        self._authority = _find_authority(watched)
        self._contexts = ContextRoutes(watched.index, loop.watches, loop.sessions)
        restore = Restore(vault.store, stood_at=loop.reconciler.stood_at)
        self._history = HistoryRoutes(vault.store, restore)
        self._runs = RunRoutes(vault.store, vault.undo)
        self._suggested = SuggestionRoutes(vault.suggestions, vault.store)
        self.mcp = self._make_mcp()

    def _make_mcp(self) -> McpRoutes:
        watched, vault, authenticator = self._watched, self._vault, self._authenticator
        sources = ClientSources(
            store=vault.store,
            index=watched.index,
            search=vault.search,
            audit=vault.audit,
            origins=vault.origins,
            suggestions=vault.suggestions,
            hooks=self._agents.run_hooks,
            holds=authenticator.holds,
            clock=watched.clock,
        )
        past = PastTools(
            root=watched.root,
            origins=vault.origins,
            suggestions=vault.suggestions,
            contexts=self._contexts,
            history=self._history,
            runs=self._runs,
            suggested=self._suggested,
        )
        own = ServedModuleTools(self._modules.manager, authenticator.holds, watched.clock)
        changes = VaultChanges(watched.bus, vault.search, vault.origins, self._control.started)
        fixed = tools_of(ServedNoteTools(), changes, past)
        tools = McpTools(fixed, own.tools, audit=vault.audit, clock=watched.clock)
        resources = NoteResources(watched.root, vault.search, vault.origins)
        mcp = McpRoutes(ClientTable(sources), tools, resources, changes, authenticator.holds)
        authenticator.subscribe(mcp.recheck)
        return mcp

    def make_app(self) -> Application:
        """What answers on the port of the API."""
        watched, vault, authenticator = self._watched, self._vault, self._authenticator
        writer = WriteBatcher(vault.store)
        streams = EventStreams(
            watched.bus, watched.settings.vault, self._control.started, authenticator.holds
        )
        files = FileAnswers(watched.root, FileDigests(watched.root))
        dispatcher = ModuleDispatcher(
            self._modules.manager, authenticator.holds, watched.clock, files
        )
        authenticator.subscribe(streams.recheck)
        authenticator.subscribe(dispatcher.recheck)
        groups = (
            self._health(),
            *self._loop_routes(),
            self._doctor(dispatcher),
            *file_routes(vault.store, watched.index, vault.search, writer, vault.elapsed.moment),
            *self._context_routes(),
            self._runs,
            self._history,
            self._suggested,
            AuditRoutes(vault.audit, watched.clock),
            *self._agent_routes(writer),
            *self._module_routes(dispatcher),
            *self._access_routes(),
            PageRoutes(),
            self.mcp,
            *self._supervisor_routes(),
        )
        app = make_app(self._front(), groups, streams=streams, writer=writer, dispatcher=dispatcher)
        app.on_shutdown.append(lambda _app: self.mcp.close())
        return app

    def make_supervisor_app(self) -> Application:
        """What answers on the port of a supervisor, where the settings name one."""
        return make_supervisor_app(self._front(), self._supervisor_routes())

    async def serve_module(self, at: socket) -> Callable[[], Awaitable[None]]:
        """Answer a module in its container at that socket, until what this returns is called."""
        return await serve_module(self._front(), self._modules.containers.clients, at)

    def _front(self) -> ApiMiddleware:
        watched, api = self._watched, self._watched.settings.api
        certified = self._authority.info().names if self._authority is not None else ()
        hosts = (*listed(api.hosts), *certified)
        guard = HostGuard(hosts=hosts, origins=listed(api.cors_origins))
        return ApiMiddleware(
            guard, self._authenticator, watched.root, self._vault.audit, watched.clock
        )

    def _page(self) -> str:
        """Where other machines open the web page; empty where none can."""
        watched, settings = self._watched, self._watched.settings
        names = listed(settings.api.hosts)
        if self._authority is not None and not names:
            certified = self._authority.info().names
            return tls_address(settings.tls.host, watched.tls_port, certified)
        return page_address(settings.host, watched.port, names)

    def _health(self) -> HealthRoutes:
        watched, loop, agents = self._watched, self._loop, self._agents
        return HealthRoutes(
            vault=VaultHealth(
                root=watched.root,
                path=watched.settings.vault,
                index=watched.index,
                watches=loop.watches,
                is_watching_by=lambda: "polling" if watched.detector.polling else "events",
            ),
            loop=LoopHealth(
                queue=loop.queue, reviews=loop.reviews, budget=agents.budget, worker=agents.worker
            ),
            chosen=agents.chosen,
            problems=watched.problems,
            modules=self._modules.manager,
            pruning=loop.pruning,
            started=self._control.started,
            clock=watched.clock,
        )

    def _loop_routes(self) -> tuple[object, ...]:
        """The tasks and the worker, and what apps poll of them."""
        watched, loop, agents = self._watched, self._loop, self._agents
        cost = most_cost_usd(watched.settings, agents.chosen)
        routes = LoopRoutes(
            store=self._vault.store,
            index=watched.index,
            watches=loop.watches,
            reviews=loop.reviews,
            queue=loop.queue,
            worker=agents.worker,
            reconciler=loop.reconciler,
            most_cost_usd=cost,
        )
        polled = PolledRoutes(
            modules=self._modules.manager,
            history=watched.history,
            budget=agents.budget,
            gateway=agents.chosen.gateway,
            clock=watched.clock,
            most_cost_usd=cost,
            full_every_s=watched.settings.scan.full_every_s,
        )
        return routes, WorkerRoutes(agents.worker, watched.detector, watched.index), polled

    def _doctor(self, dispatcher: ModuleDispatcher) -> DoctorRoutes:
        return DoctorRoutes(
            store=self._vault.store,
            index=self._watched.index,
            watches=self._loop.watches,
            search=self._vault.search,
            problems=self._watched.problems,
            pruning=self._loop.pruning,
            audit=self._vault.audit,
            gateway=self._agents.chosen.gateway,
            modules=dispatcher,
        )

    def _context_routes(self) -> tuple[object, ...]:
        """What an agent reads before a conversation, and the move from older programs."""
        watched, vault, loop = self._watched, self._vault, self._loop
        index, folder = watched.index, watched.settings.vault
        migration = Migration(
            store=vault.store,
            index=index,
            sessions=loop.sessions,
            bus=watched.bus,
            origins=vault.origins,
        )
        return (
            self._contexts,
            ContextMigrationRoutes(migration),
            PromptRoutes(watched.root, index, loop.watches, folder),
            SessionMigrationRoutes(index, folder),
        )

    def _agent_routes(self, writer: WriteBatcher) -> tuple[object, ...]:
        """Agents, what they may do, and where they run."""
        watched, vault, agents = self._watched, self._vault, self._agents
        manager, service = self._modules.manager, self._modules.agents
        listing = AgentListing(
            service,
            manager,
            lambda: [module.name for module in manager.status()],
            self._loop.watches,
            watched.index,
            vault.origins,
        )
        runs = AgentRunRoutes(
            service,
            worker=agents.worker,
            at_work=agents.active_runs,
            authenticator=self._authenticator,
            history=watched.history,
            clock=watched.clock,
        )
        return (
            AgentRoutes(listing, vault.store, vault.origins),
            InstructionRoutes(vault.store, vault.origins, writer, listing.all_names),
            runs,
            PermissionRoutes(agents.permissions),
            SandboxRoutes(agents.chosen.sandboxes),
            McpServerRoutes(self._modules.servers, manager),
        )

    def _module_routes(self, dispatcher: ModuleDispatcher) -> tuple[object, ...]:
        watched, modules = self._watched, self._modules
        return (
            ModuleRoutes(modules.manager, modules.trust, modules.prompts),
            ModuleSettingRoutes(
                modules.manager, modules.trust, watched.home / "logs" / "daemon.log"
            ),
            ParaRoutes(modules.manager, dispatcher),
            HookRoutes(self._hooks.hooks, modules.manager, watched.settings.vault, watched.clock),
        )

    def _access_routes(self) -> tuple[object, ...]:
        """API keys, how other devices come in, and the settings."""
        watched, authenticator, control = self._watched, self._authenticator, self._control
        keys = ApiKeyRoutes(
            authenticator,
            self._modules.manager,
            watched.clock,
            control.set_auth_mode,
            self._page,
        )
        settings = SettingRoutes(
            SettingsListing(watched.settings, watched.home, control.env, watched.flags),
            lambda: authenticator.mode,
            control.set_auth_mode,
            partial(refuse_unfit, watched.home),
        )
        sign_in = SignInRoutes(authenticator, watched.clock)
        return keys, sign_in, TlsRoutes(self._authority, self._page), settings

    def _supervisor_routes(self) -> tuple[object, ...]:
        watched, control = self._watched, self._control
        power = SupervisorRoutes(
            problems=watched.problems,
            started=control.started,
            clock=watched.clock,
            port=lambda: watched.port,
            end=control.end,
        )
        return ModelRoutes(watched.settings.agent.model), power


def _find_authority(watched: WatchedVault) -> CertificateAuthority | None:
    """The authority whose certificates are served; None where nothing is served encrypted."""
    if not watched.settings.tls.port:
        return None
    from parachuted.certificates import CertificateAuthority  # noqa: PLC0415  few load it

    authority = CertificateAuthority(watched.home)
    return authority if authority.exists() else None
