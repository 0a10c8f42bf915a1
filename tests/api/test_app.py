"""The routes of the app are those that docs/reference/api.md describes, each declared."""

from __future__ import annotations

import re
from pathlib import Path

from aiohttp import web

from parachuted.api.http.route import Route
from tests.stories.daemon_rig import DaemonRig

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference/api.md"
ROUTES = set(re.findall(r"^### `(.+)`$", REFERENCE.read_text("utf-8"), re.MULTILINE))


def routes_of(app: web.Application) -> set[str]:
    return {
        f"{route.method} {route.resource.canonical}"
        for route in app.router.routes()
        if route.method != "HEAD"
    }


async def test_these_are_the_routes(daemon_rig: DaemonRig):
    assert routes_of(daemon_rig.daemon.http.make_app()) == ROUTES


async def test_each_route_is_declared_and_says_what_it_does(daemon_rig: DaemonRig):
    for route in daemon_rig.daemon.http.make_app().router.routes():
        (declared,) = route.handler.args
        assert isinstance(declared, Route), route
        assert declared.summary.endswith(".")
        assert declared.answers
