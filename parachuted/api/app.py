"""App: the routes, and the front that every request passes first."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from parachuted.api.http.decorators import routes_of
from parachuted.api.http.docs import DocsRoutes
from parachuted.api.http.middleware import FRONT, ApiMiddleware
from parachuted.api.http.module_dispatcher import ModuleDispatcher
from parachuted.api.http.module_resource import ModuleResource
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.route import Route
from parachuted.api.http.stream import EventStreams
from parachuted.api.routes.agent_runs import AgentRunRoutes
from parachuted.api.routes.agents import AgentRoutes
from parachuted.api.routes.audit import AuditRoutes
from parachuted.api.routes.context_migration import ContextMigrationRoutes
from parachuted.api.routes.contexts import ContextRoutes
from parachuted.api.routes.file_streams import FileStreamRoutes
from parachuted.api.routes.files import FileRoutes
from parachuted.api.routes.health import HealthRoutes
from parachuted.api.routes.history import HistoryRoutes
from parachuted.api.routes.hooks import HookRoutes
from parachuted.api.routes.keys import ApiKeyRoutes
from parachuted.api.routes.loop import LoopRoutes
from parachuted.api.routes.models import ModelRoutes
from parachuted.api.routes.modules import ModuleRoutes
from parachuted.api.routes.note_changes import NoteChangeRoutes
from parachuted.api.routes.note_listing import NoteListingRoutes
from parachuted.api.routes.note_moves import NoteMoveRoutes
from parachuted.api.routes.note_reading import NoteReading
from parachuted.api.routes.notes import NoteRoutes
from parachuted.api.routes.permissions import PermissionRoutes
from parachuted.api.routes.polled import PolledRoutes
from parachuted.api.routes.power import PowerRoutes
from parachuted.api.routes.prompt import PromptRoutes
from parachuted.api.routes.sandbox import SandboxRoutes
from parachuted.api.routes.search import SearchRoutes
from parachuted.api.routes.suggestions import SuggestionRoutes
from parachuted.api.routes.sync import SyncRoutes
from parachuted.api.routes.write_batcher import WriteBatcher
from parachuted.sync import FileDigests


def make_app(parts: ApiParts) -> web.Application:
    """The application that answers for these parts."""
    streams = EventStreams(parts.bus, parts.vault, parts.started, parts.door.holds)
    dispatcher = ModuleDispatcher(parts.modules, parts.door.holds, parts.clock)
    writer = WriteBatcher(parts.store, parts.notice, parts.clock)
    digests = FileDigests(parts.root)
    reading = NoteReading(parts.root, parts.index, parts.store.bases)
    parts.door.listen(streams.recheck)
    parts.door.listen(dispatcher.recheck)
    routes = routes_of(
        HealthRoutes(parts),
        LoopRoutes(parts),
        ContextRoutes(parts),
        PromptRoutes(parts),
        streams,
        NoteListingRoutes(parts),
        NoteRoutes(parts, reading),
        NoteChangeRoutes(parts, reading, writer),
        NoteMoveRoutes(parts, writer),
        SearchRoutes(parts),
        FileRoutes(parts, writer),
        FileStreamRoutes(parts, writer, digests),
        SyncRoutes(parts, writer, digests),
        ApiKeyRoutes(parts),
        SandboxRoutes(parts),
        AuditRoutes(parts),
        HistoryRoutes(parts),
        SuggestionRoutes(parts),
        AgentRunRoutes(parts),
        PermissionRoutes(parts),
        AgentRoutes(parts),
        PolledRoutes(parts),
        ModelRoutes(parts),
        ContextMigrationRoutes(parts),
        PowerRoutes(parts),
        HookRoutes(parts),
        ModuleRoutes(parts),
    )
    routes += routes_of(DocsRoutes(routes, parts.modules.declared))
    app = _make(parts, routes)
    app.on_shutdown.append(lambda _app: streams.close())
    app.on_shutdown.append(lambda _app: dispatcher.close())
    app.on_cleanup.append(lambda _app: writer.close())
    app.router.register_resource(ModuleResource(dispatcher))
    return app


def make_supervisor_app(parts: ApiParts) -> web.Application:
    """The application on the port of a supervisor, for the same keys: only the routes that an app
    asks of one.
    """
    routes = routes_of(PolledRoutes(parts), ModelRoutes(parts), PowerRoutes(parts))
    return _make(parts, [route for route in routes if route.path.startswith("/supervisor/")])


def _make(parts: ApiParts, routes: Sequence[Route]) -> web.Application:
    front = ApiMiddleware(parts.guard, parts.door, parts.root, parts.audit, parts.clock)
    app = web.Application(
        middlewares=[front.answer], client_max_size=max(route.largest_body for route in routes)
    )
    app[FRONT] = front
    app.on_response_prepare.append(parts.guard.seal)
    serve(app, routes)
    return app


def serve(app: web.Application, routes: Sequence[Route]) -> None:
    """Add the routes: literal paths first, and those that end in any path last."""
    for route in sorted(routes, key=lambda route: ("{" in route.path, route.path.endswith(":.+}"))):
        app.router.add_route(route.method, route.path, route.serve)
        if route.method == "GET" and route.has_head:
            app.router.add_route("HEAD", route.path, route.serve)
