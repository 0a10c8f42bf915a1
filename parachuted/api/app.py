"""App: the routes, and the middleware that every request passes first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from socket import socket

from aiohttp import web

from parachuted.api.http.decorators import routes_of
from parachuted.api.http.docs import DocsRoutes
from parachuted.api.http.middleware import ApiMiddleware
from parachuted.api.http.module_dispatcher import ModuleDispatcher, ModuleResource
from parachuted.api.http.route import Route, handler_of
from parachuted.api.http.server import HttpServer
from parachuted.api.http.stream import EventStreams
from parachuted.api.routes.files import FileRoutes, FileStreamRoutes
from parachuted.api.routes.modules import ModuleServiceRoutes
from parachuted.api.routes.note_changes import NoteChangeRoutes, NoteMoveRoutes
from parachuted.api.routes.notes import NoteListingRoutes, NoteRoutes
from parachuted.api.routes.search import SearchRoutes
from parachuted.api.routes.sync import SyncRoutes
from parachuted.modules.hosting.module_containers import ModuleClient
from parachuted.search import Search
from parachuted.sync import FileDigests
from parachuted.vault import Store, VaultIndex


def file_routes(store: Store, index: VaultIndex, search: Search) -> tuple[object, ...]:
    digests = FileDigests(store.root)
    return (
        NoteListingRoutes(store.root, search),
        NoteRoutes(store),
        NoteChangeRoutes(store),
        NoteMoveRoutes(store, index, search),
        SearchRoutes(search),
        FileRoutes(store),
        FileStreamRoutes(store, digests),
        SyncRoutes(store, index, digests),
    )


def make_app(
    front: ApiMiddleware,
    groups: Iterable[object],
    *,
    streams: EventStreams,
    dispatcher: ModuleDispatcher,
) -> web.Application:
    routes = routes_of(*groups, streams)
    routes += routes_of(DocsRoutes(routes, dispatcher.declared, streams.kinds))
    app = _make(front, routes)
    app.on_shutdown.append(lambda _app: streams.close())
    app.on_shutdown.append(lambda _app: dispatcher.close())
    app.router.register_resource(ModuleResource(dispatcher))
    return app


def make_supervisor_app(front: ApiMiddleware, groups: Iterable[object]) -> web.Application:
    """The application of a supervisor's port: what an app asks of one, by the same keys."""
    routes = routes_of(*groups)
    return _make(front, [route for route in routes if route.path.startswith("/supervisor/")])


async def serve_module(
    front: ApiMiddleware, at: socket, client: ModuleClient
) -> Callable[[], Awaitable[None]]:
    """Answer there what that module in its container may ask, until the returned function runs."""
    app = _make(front, routes_of(ModuleServiceRoutes(client)))
    server = HttpServer(app)
    await server.open_at([at])
    return server.close


def _make(front: ApiMiddleware, routes: Sequence[Route]) -> web.Application:
    app = web.Application(
        middlewares=[front.answer], client_max_size=max(route.largest_body for route in routes)
    )
    app.on_response_prepare.append(front.guard.seal)
    serve(app, routes)
    return app


def serve(app: web.Application, routes: Sequence[Route]) -> None:
    """Add the routes: literal paths first, and those that end in any path last."""
    for route in sorted(routes, key=lambda route: ("{" in route.path, route.path.endswith(":.+}"))):
        app.router.add_route(route.method, route.path, handler_of(route))
        if route.method == "GET" and route.has_head:
            app.router.add_route("HEAD", route.path, handler_of(route))
