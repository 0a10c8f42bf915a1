"""API: the daemon over HTTP."""

from parachuted.api.app import make_app, make_supervisor_app
from parachuted.api.http.authenticator import KeyAuthenticator, Mode
from parachuted.api.http.host_guard import HostGuard
from parachuted.api.http.module_dispatcher import RESERVED
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.server import HttpServer, ServerLimits

__all__ = [
    "RESERVED",
    "ApiParts",
    "HostGuard",
    "HttpServer",
    "KeyAuthenticator",
    "Mode",
    "ServerLimits",
    "make_app",
    "make_supervisor_app",
]
