"""API: the daemon over HTTP."""

from parachuted.api.app import make_app, make_supervisor_app
from parachuted.api.door import KeyDoor, Mode
from parachuted.api.guard import Guard
from parachuted.api.module_calls import RESERVED
from parachuted.api.parts import Parts
from parachuted.api.server import Limits, Server

__all__ = ["RESERVED", "Guard", "KeyDoor", "Limits", "Mode", "Parts", "Server", "make_app", "make_supervisor_app"]
