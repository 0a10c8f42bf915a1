"""App: the routes, and the front that every request passes first."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from parachuted.api.agent_runs import AgentRuns
from parachuted.api.agents import Agents
from parachuted.api.audit import Audit
from parachuted.api.context_migration import ContextMigration
from parachuted.api.contexts import Contexts
from parachuted.api.desk import Desk
from parachuted.api.docs import Docs
from parachuted.api.file_streams import FileStreams
from parachuted.api.files import Files
from parachuted.api.front import FRONT, Front
from parachuted.api.health import Health
from parachuted.api.history import History
from parachuted.api.hooks import Hooks
from parachuted.api.keys import Keys
from parachuted.api.loop import Loop
from parachuted.api.models import Models
from parachuted.api.module_calls import ModuleCalls
from parachuted.api.module_resource import ModuleResource
from parachuted.api.modules import ModuleDesk
from parachuted.api.note_changes import NoteChanges
from parachuted.api.note_listing import NoteListing
from parachuted.api.note_moves import NoteMoves
from parachuted.api.note_reading import NoteReading
from parachuted.api.notes import Notes
from parachuted.api.parts import Parts
from parachuted.api.permissions import Permissions
from parachuted.api.polled import Polled
from parachuted.api.power import Power
from parachuted.api.prompt import PromptPreview
from parachuted.api.route import Route
from parachuted.api.sandbox import Sandbox
from parachuted.api.search import NoteSearch
from parachuted.api.stream import EventStreams
from parachuted.api.suggestions import Suggestions
from parachuted.api.sync import Sync
from parachuted.sync import Digests


def make_app(parts: Parts) -> web.Application:
    """The application that answers for these parts."""
    streams = EventStreams(parts.bus, parts.vault, parts.started, parts.door.holds)
    parts.door.listen(streams.recheck)
    routes = [*Health(parts).routes(), *Loop(parts).routes(), *Contexts(parts).routes(), *PromptPreview(parts).routes(), *streams.routes()]
    desk, digests = Desk(parts.store, parts.notice, parts.clock), Digests(parts.root)
    routes += [*_notes(parts, desk), *NoteSearch(parts).routes()]
    routes += [*Files(parts, desk).routes(), *FileStreams(parts, desk, digests).routes(), *Sync(parts, desk, digests).routes()]
    routes += Keys(parts).routes()
    routes += Sandbox(parts).routes()
    routes += Audit(parts).routes()
    routes += History(parts).routes()
    routes += Suggestions(parts).routes()
    routes += AgentRuns(parts).routes()
    routes += [*Permissions(parts).routes(), *Agents(parts).routes()]
    routes += [*Polled(parts).routes(), *Models(parts).routes(), *ContextMigration(parts).routes(), *Power(parts).routes()]
    calls = ModuleCalls(parts.modules, parts.door.holds, parts.clock)
    parts.door.listen(calls.recheck)
    routes += [*Hooks(parts).routes(), *ModuleDesk(parts).routes()]
    routes += Docs(routes, parts.modules.declared).routes()
    app = _make(parts, routes)
    app.on_shutdown.append(lambda _app: streams.close())
    app.on_shutdown.append(lambda _app: calls.close())
    app.on_cleanup.append(lambda _app: desk.close())
    app.router.register_resource(ModuleResource(calls))
    return app


def make_supervisor_app(parts: Parts) -> web.Application:
    """The application that answers on the port of a supervisor, for the same keys: the routes that an app asks of one, and no others."""
    routes = [*Polled(parts).routes(), *Models(parts).routes(), *Power(parts).routes()]
    return _make(parts, [route for route in routes if route.path.startswith("/supervisor/")])


def _make(parts: Parts, routes: Sequence[Route]) -> web.Application:
    front = Front(parts.guard, parts.door, parts.root, parts.audit, parts.clock)
    app = web.Application(middlewares=[front.answer], client_max_size=max(route.largest_body for route in routes))
    app[FRONT] = front
    app.on_response_prepare.append(parts.guard.seal)
    serve(app, routes)
    return app


def _notes(parts: Parts, desk: Desk) -> list[Route]:
    reading = NoteReading(parts.root, parts.index, parts.store.bases)
    listing, moves = NoteListing(parts), NoteMoves(parts, desk)
    return [*listing.routes(), *Notes(parts, reading).routes(), *NoteChanges(parts, reading, desk).routes(), *moves.routes()]


def serve(app: web.Application, routes: Sequence[Route]) -> None:
    """Literal paths before those with names in them, whatever the order they come in."""
    for route in sorted(routes, key=lambda route: "{" in route.path):
        app.router.add_route(route.method, route.path, route.serve)
        if route.method == "GET" and route.has_head:
            app.router.add_route("HEAD", route.path, route.serve)
