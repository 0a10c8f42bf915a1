"""HTTP routes: all that a daemon answers, each group of routes with the parts that it uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from socket import socket
from typing import TYPE_CHECKING

from parachuted import api, mcp
from parachuted.api.routes.agent_runs import AgentRunRoutes, PermissionRoutes
from parachuted.api.routes.agents import AgentRoutes, SandboxRoutes
from parachuted.api.routes.audit import AuditRoutes
from parachuted.api.routes.contexts import ContextMigrationRoutes, ContextRoutes, PromptRoutes
from parachuted.api.routes.health import DoctorRoutes, HealthRoutes, LoopHealth, SupervisorRoutes
from parachuted.api.routes.hooks import HookRoutes
from parachuted.api.routes.keys import ApiKeyRoutes
from parachuted.api.routes.loop import LoopRoutes, ModelRoutes, PolledRoutes, WorkerRoutes
from parachuted.api.routes.modules import ModuleRoutes
from parachuted.api.routes.search import ParaRoutes
from parachuted.api.routes.settings import SettingRoutes, TlsRoutes
from parachuted.api.routes.suggestions import SuggestionRoutes
from parachuted.composition import (
    AgentParts,
    HookParts,
    LoopParts,
    ModuleParts,
    VaultParts,
    most_cost_usd,
)
from parachuted.config import SettingsListing, listed
from parachuted.events.watched_vault import WatchedVault
from parachuted.history import Restore
from parachuted.home_files.vault_state import refuse_unfit
from parachuted.modules.hosting.module_containers import ModuleClient
from parachuted.modules.listed_agents import AgentListing
from parachuted.processes.addresses import page_address, tls_address
from parachuted.tools.migration import Migration
from parachuted.web import PageRoutes

if TYPE_CHECKING:
    from parachuted.keys.tls import CertificateAuthority


@dataclass(frozen=True, slots=True)
class DaemonControl:
    """What a request may do to the daemon itself. `end` takes whether the daemon restarts."""

    started: datetime
    end: Callable[[bool], None]
    set_auth_mode: Callable[[api.Mode], Awaitable[None]]
    env: Mapping[str, str]


class HttpRoutes:
    def __init__(
        self,
        watched: WatchedVault,
        hooks: HookParts,
        vault: VaultParts,
        loop: LoopParts,
        agents: AgentParts,
        modules: ModuleParts,
        authenticator: api.KeyAuthenticator,
        control: DaemonControl,
    ) -> None:
        self._watched, self._hooks, self._vault, self._loop = watched, hooks, vault, loop
        self._agents, self._modules = agents, modules
        self._authenticator, self._control = authenticator, control
        self._authority = _find_authority(watched)
        self._contexts = ContextRoutes(watched.index, loop.watches, loop.sessions)
        restore = Restore(vault.store, stood_at=loop.reconciler.stood_at)
        self._history = api.HistoryRoutes(vault.store, restore)
        self._runs = api.RunRoutes(vault.store, vault.undo)
        self._suggested = SuggestionRoutes(vault.suggestions, vault.store)
        self.mcp = self._make_mcp()

    def _make_mcp(self) -> mcp.McpRoutes:
        watched, vault, authenticator = self._watched, self._vault, self._authenticator
        sources = mcp.ClientSources(
            vaults=vault.granted,
            suggestions=vault.suggestions,
            hooks=self._agents.run_parts.hooks,
            holds=authenticator.holds,
            clock=watched.clock,
        )
        vault_tools = mcp.VaultTools(
            sources,
            history=self._history,
            runs=self._runs,
        )
        clients = mcp.ClientTable(sources)
        authenticator.subscribe(clients.recheck)
        return mcp.McpRoutes(clients, mcp.McpTools(vault_tools, self._modules.manager, sources))

    def make_app(self) -> api.Application:
        """What answers on the port of the API."""
        watched, vault, authenticator = self._watched, self._vault, self._authenticator
        streams = api.EventStreams(
            watched.bus, watched.settings.vault, self._control.started, authenticator.holds
        )
        dispatcher = api.ModuleDispatcher(self._modules.manager, authenticator.holds, watched.clock)
        authenticator.subscribe(streams.recheck)
        authenticator.subscribe(dispatcher.recheck)
        groups = (
            self._health(),
            *self._loop_routes(),
            self._doctor(dispatcher),
            *api.file_routes(vault.store, watched.index, vault.search),
            *self._context_routes(),
            self._runs,
            self._history,
            self._suggested,
            AuditRoutes(vault.audit, watched.clock),
            *self._agent_routes(),
            *self._module_routes(dispatcher),
            *self._access_routes(),
            PageRoutes(),
            self.mcp,
            *self._supervisor_routes(),
        )
        return api.make_app(self._front(), groups, streams=streams, dispatcher=dispatcher)

    def make_supervisor_app(self) -> api.Application:
        """What answers on the port of a supervisor, where the settings name one."""
        return api.make_supervisor_app(self._front(), self._supervisor_routes())

    async def serve_module(self, at: socket, client: ModuleClient) -> Callable[[], Awaitable[None]]:
        """Answer a module in its container at that socket, until what this returns is called."""
        return await api.serve_module(self._front(), at, client)

    def _front(self) -> api.ApiMiddleware:
        watched, chosen = self._watched, self._watched.settings.api
        certified = self._authority.info().names if self._authority is not None else ()
        hosts = (*listed(chosen.hosts), *certified)
        guard = api.HostGuard(hosts=hosts, origins=listed(chosen.cors_origins))
        return api.ApiMiddleware(
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
        loop, agents = self._loop, self._agents
        return HealthRoutes(
            self._watched,
            LoopHealth(
                watches=loop.watches,
                queue=loop.queue,
                reviews=loop.reviews,
                budget=agents.budget,
                worker=agents.worker,
            ),
            chosen=agents.chosen,
            modules=self._modules.manager,
            pruning=loop.pruning,
            started=self._control.started,
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
        manager = self._modules.manager
        polled = PolledRoutes(watched, manager, agents.budget, agents.chosen.gateway)
        return routes, WorkerRoutes(agents.worker, watched), polled

    def _doctor(self, dispatcher: api.ModuleDispatcher) -> DoctorRoutes:
        return DoctorRoutes(
            self._watched,
            store=self._vault.store,
            watches=self._loop.watches,
            search=self._vault.search,
            pruning=self._loop.pruning,
            audit=self._vault.audit,
            gateway=self._agents.chosen.gateway,
            modules=dispatcher,
        )

    def _context_routes(self) -> tuple[object, ...]:
        """What an agent reads before a conversation, and the move from older programs."""
        watched, vault, loop = self._watched, self._vault, self._loop
        migration = Migration(
            store=vault.store, index=watched.index, sessions=loop.sessions, bus=watched.bus
        )
        return (
            self._contexts,
            ContextMigrationRoutes(migration),
            PromptRoutes(watched, loop.watches),
        )

    def _agent_routes(self) -> tuple[object, ...]:
        """Agents, what they may do, and where they run."""
        watched, vault, agents = self._watched, self._vault, self._agents
        manager, service = self._modules.manager, self._modules.agents
        listing = AgentListing(service, self._loop.watches, watched.index, vault.strangers)
        runs = AgentRunRoutes(
            service,
            worker=agents.worker,
            at_work=agents.active_runs,
            authenticator=self._authenticator,
            history=watched.history,
            clock=watched.clock,
        )
        return (
            AgentRoutes(listing, vault.store, vault.strangers),
            runs,
            PermissionRoutes(agents.permissions),
            SandboxRoutes(agents.chosen.sandboxes),
            mcp.McpServerRoutes(self._modules.servers, manager),
        )

    def _module_routes(self, dispatcher: api.ModuleDispatcher) -> tuple[object, ...]:
        watched, modules = self._watched, self._modules
        return (
            ModuleRoutes(
                modules.manager,
                modules.trust,
                modules.prompts,
                watched.home / "logs" / "daemon.log",
            ),
            ParaRoutes(modules.manager, dispatcher),
            HookRoutes(self._hooks.hooks, watched.settings.vault, watched.clock),
        )

    def _access_routes(self) -> tuple[object, ...]:
        """API keys, how other devices come in, and the settings."""
        watched, authenticator, control = self._watched, self._authenticator, self._control
        keys = ApiKeyRoutes(
            authenticator, self._modules.manager, watched.clock, control.set_auth_mode, self._page
        )
        settings = SettingRoutes(
            SettingsListing(watched.settings, watched.home, control.env, watched.flags),
            lambda: authenticator.mode,
            control.set_auth_mode,
            partial(refuse_unfit, watched.home),
        )
        return keys, TlsRoutes(self._authority, self._page), settings

    def _supervisor_routes(self) -> tuple[object, ...]:
        watched, control = self._watched, self._control
        power = SupervisorRoutes(watched, control.started, control.end)
        return ModelRoutes(watched.settings.agent.model), power


def _find_authority(watched: WatchedVault) -> CertificateAuthority | None:
    """The authority whose certificates are served; None where nothing is served encrypted."""
    if not watched.settings.tls.port:
        return None
    from parachuted.keys.tls import CertificateAuthority  # noqa: PLC0415  few load it

    authority = CertificateAuthority(watched.home)
    return authority if authority.exists() else None
