"""API: the daemon over HTTP."""

from aiohttp.web import Application as Application

from parachuted.api.app import file_routes as file_routes
from parachuted.api.app import make_app as make_app
from parachuted.api.app import make_supervisor_app as make_supervisor_app
from parachuted.api.app import serve_module as serve_module
from parachuted.api.http.authenticator import KeyAuthenticator as KeyAuthenticator
from parachuted.api.http.authenticator import Mode as Mode
from parachuted.api.http.host_guard import HostGuard as HostGuard
from parachuted.api.http.middleware import ApiMiddleware as ApiMiddleware
from parachuted.api.http.module_dispatcher import RESERVED as RESERVED
from parachuted.api.http.module_dispatcher import ModuleDispatcher as ModuleDispatcher
from parachuted.api.http.server import HttpServer as HttpServer
from parachuted.api.http.server import ServerLimits as ServerLimits
from parachuted.api.http.stream import EventStreams as EventStreams
from parachuted.api.routes.runs import HistoryRoutes as HistoryRoutes
from parachuted.api.routes.runs import RunRoutes as RunRoutes
