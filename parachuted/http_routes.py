"""HTTP routes: all that a daemon answers over HTTP, each group of routes with the parts that it
uses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
from parachuted.composition import Composition
from parachuted.config import SettingsListing, listed
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
from parachuted.vault_state import refuse_unfit
from parachuted.web import PageRoutes

if TYPE_CHECKING:
    from parachuted.certificates import CertificateAuthority


class HttpRoutes:
    """The routes of one daemon."""

    def __init__(
        self,
        parts: Composition,
        *,
        started: datetime,
        end: Callable[[bool], None],
        set_auth_mode: Callable[[Mode], Awaitable[None]],
    ) -> None:
        """`end` takes whether the daemon restarts."""
        self._parts, self._started, self._end = parts, started, end
        self._set_auth_mode = set_auth_mode
        self._authority = self._find_authority()
        self._contexts = ContextRoutes(parts.index, parts.watches, parts.sessions)
        self._history = HistoryRoutes(parts.store, parts.restore)
        self._runs = RunRoutes(parts.store, parts.undo)
        self._suggested = SuggestionRoutes(parts.suggestions, parts.store)
        self.mcp = self._make_mcp()

    def _find_authority(self) -> CertificateAuthority | None:
        """The authority whose certificates are served; None where nothing is served encrypted."""
        if not self._parts.settings.tls.port:
            return None
        from parachuted.certificates import CertificateAuthority  # noqa: PLC0415  few load it

        authority = CertificateAuthority(self._parts.home)
        return authority if authority.exists() else None

    def _make_mcp(self) -> McpRoutes:
        parts = self._parts
        sources = ClientSources(
            store=parts.store,
            index=parts.index,
            search=parts.search,
            audit=parts.audit,
            origins=parts.origins,
            suggestions=parts.suggestions,
            hooks=parts.run_hooks,
            holds=parts.authenticator.holds,
            clock=parts.clock,
        )
        past = PastTools(
            root=parts.root,
            origins=parts.origins,
            suggestions=parts.suggestions,
            contexts=self._contexts,
            history=self._history,
            runs=self._runs,
            suggested=self._suggested,
        )
        own = ServedModuleTools(parts.modules, parts.authenticator.holds, parts.clock)
        changes = VaultChanges(parts.bus, parts.search, parts.origins, self._started)
        fixed = tools_of(ServedNoteTools(), changes, past)
        tools = McpTools(fixed, own.tools, audit=parts.audit, clock=parts.clock)
        resources = NoteResources(parts.root, parts.search, parts.origins)
        mcp = McpRoutes(ClientTable(sources), tools, resources, changes, parts.authenticator.holds)
        parts.authenticator.subscribe(mcp.recheck)
        return mcp

    def make_app(self) -> Application:
        """What answers on the port of the API."""
        parts = self._parts
        authenticator = parts.authenticator
        writer = WriteBatcher(parts.store)
        streams = EventStreams(parts.bus, parts.settings.vault, self._started, authenticator.holds)
        dispatcher = ModuleDispatcher(
            parts.modules,
            authenticator.holds,
            authenticator.refusal,
            parts.clock,
            FileAnswers(parts.root, FileDigests(parts.root)),
        )
        authenticator.subscribe(streams.recheck)
        authenticator.subscribe(dispatcher.recheck)
        groups = (
            *self._status_routes(dispatcher),
            *file_routes(parts.store, parts.index, parts.search, writer, parts.elapsed.moment),
            *self._context_routes(),
            self._runs,
            self._history,
            self._suggested,
            AuditRoutes(parts.audit, parts.clock),
            *self._agent_routes(writer),
            ModuleRoutes(parts.modules, parts.trust, parts.prompts),
            ModuleSettingRoutes(parts.modules, parts.trust, parts.home / "logs" / "daemon.log"),
            ParaRoutes(parts.modules, dispatcher),
            HookRoutes(parts.hooks, parts.modules, parts.settings.vault, parts.clock),
            ApiKeyRoutes(
                authenticator, parts.modules, parts.clock, self._set_auth_mode, self._page
            ),
            SignInRoutes(authenticator, parts.clock),
            TlsRoutes(self._authority, self._page),
            SettingRoutes(
                SettingsListing(parts.settings, parts.home, parts.env, parts.vault.flags),
                lambda: authenticator.mode,
                self._set_auth_mode,
                partial(refuse_unfit, parts.home),
            ),
            PageRoutes(),
            self.mcp,
            *self._supervisor_routes(),
        )
        app = make_app(self._front(), groups, streams=streams, writer=writer, dispatcher=dispatcher)
        app.on_shutdown.append(lambda _app: self.mcp.close())
        return app

    def _page(self) -> str:
        """Where other machines open the web page; empty where none can."""
        settings, names = self._parts.settings, listed(self._parts.settings.api.hosts)
        if self._authority is not None and not names:
            return tls_address(
                settings.tls.host, self._parts.tls_port, self._authority.info().names
            )
        return page_address(settings.host, self._parts.port, names)

    def _status_routes(self, dispatcher: ModuleDispatcher) -> tuple[object, ...]:
        """How the daemon and its loop are, and what apps poll of it."""
        parts = self._parts
        health = HealthRoutes(
            vault=VaultHealth(
                root=parts.root,
                path=parts.settings.vault,
                index=parts.index,
                watches=parts.watches,
                is_watching_by=lambda: "polling" if parts.detector.polling else "events",
            ),
            loop=LoopHealth(
                queue=parts.queue, reviews=parts.reviews, budget=parts.budget, worker=parts.worker
            ),
            chosen=parts.chosen,
            problems=parts.problems,
            modules=parts.modules,
            pruning=parts.pruning,
            started=self._started,
            clock=parts.clock,
        )
        loop = LoopRoutes(
            store=parts.store,
            index=parts.index,
            watches=parts.watches,
            reviews=parts.reviews,
            queue=parts.queue,
            worker=parts.worker,
            reconciler=parts.reconciler,
            most_cost_usd=parts.most_cost_usd,
        )
        doctor = DoctorRoutes(
            store=parts.store,
            index=parts.index,
            watches=parts.watches,
            search=parts.search,
            problems=parts.problems,
            pruning=parts.pruning,
            audit=parts.audit,
            gateway=parts.gateway,
            modules=dispatcher,
        )
        polled = PolledRoutes(
            modules=parts.modules,
            history=parts.history,
            budget=parts.budget,
            gateway=parts.gateway,
            clock=parts.clock,
            most_cost_usd=parts.most_cost_usd,
            full_every_s=parts.settings.scan.full_every_s,
        )
        return health, loop, WorkerRoutes(parts.worker, parts.detector, parts.index), doctor, polled

    def _context_routes(self) -> tuple[object, ...]:
        """What an agent reads before a conversation, and the move from older programs."""
        parts = self._parts
        index, vault = parts.index, parts.settings.vault
        return (
            self._contexts,
            ContextMigrationRoutes(parts.migration),
            PromptRoutes(parts.root, index, parts.watches, vault),
            SessionMigrationRoutes(index, vault),
        )

    def _agent_routes(self, writer: WriteBatcher) -> tuple[object, ...]:
        """Agents, what they may do, and where they run."""
        parts, modules = self._parts, self._parts.modules
        listing = AgentListing(
            parts.agents,
            modules,
            lambda: [one.name for one in modules.status()],
            parts.watches,
            parts.index,
            parts.origins,
        )
        runs = AgentRunRoutes(
            parts.agents,
            worker=parts.worker,
            at_work=parts.at_work,
            authenticator=parts.authenticator,
            history=parts.history,
            clock=parts.clock,
        )
        return (
            AgentRoutes(listing, parts.store, parts.origins),
            InstructionRoutes(parts.store, parts.origins, writer, listing.all_names),
            runs,
            PermissionRoutes(parts.permissions),
            SandboxRoutes(parts.chosen.sandboxes),
            McpServerRoutes(parts.mcp_servers, modules),
        )

    async def serve_module(self, at: socket) -> Callable[[], Awaitable[None]]:
        """Answer a module in its container at that socket, until what this returns is called."""
        return await serve_module(self._front(), self._parts.containers.clients, at)

    def make_supervisor_app(self) -> Application:
        """What answers on the port of a supervisor, where the settings name one."""
        return make_supervisor_app(self._front(), self._supervisor_routes())

    def _front(self) -> ApiMiddleware:
        parts = self._parts
        api = parts.settings.api
        certified = self._authority.info().names if self._authority is not None else ()
        hosts = (*listed(api.hosts), *certified)
        guard = HostGuard(hosts=hosts, origins=listed(api.cors_origins))
        return ApiMiddleware(guard, parts.authenticator, parts.root, parts.audit, parts.clock)

    def _supervisor_routes(self) -> tuple[object, ...]:
        parts = self._parts
        power = SupervisorRoutes(
            problems=parts.problems,
            started=self._started,
            clock=parts.clock,
            port=lambda: parts.port,
            end=self._end,
        )
        return (ModelRoutes(parts.settings.agent.model), power)
