"""Module resource: aiohttp's router finds what comes and goes, and the core's own routes come
first.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from parachuted.api.http.module_dispatcher import ModuleResource
from parachuted.api.http.route import ApiCall, Route


async def answer(_call: ApiCall) -> web.Response:
    return web.Response()


LITTLE = Route(
    method="GET",
    path="/api/little/{day}",
    module="little",
    capability="read",
    reach="paths",
    summary="A day.",
    handle=answer,
)


class ResourceServer:
    """One route, while it is there."""

    is_there = True
    has_started = True
    starting = ""

    async def wait_started(self) -> bool:
        return self.has_started

    def find(self, request: web.Request) -> tuple[Route, dict[str, str]] | None:
        is_meant = self.is_there and (request.method, request.path) == ("GET", "/api/little/monday")
        return (LITTLE, {"day": "monday"}) if is_meant else None

    def is_starting(self, request: web.Request) -> bool:
        return request.path.split("/")[2] == self.starting

    def methods(self, request: web.Request) -> tuple[str, ...]:
        return ("GET",) if self.is_there and request.path == "/api/little/monday" else ()


async def reached(served: ResourceServer, method: str, path: str) -> web.UrlMappingMatchInfo:
    app = web.Application()
    core = Route(
        method="GET",
        path="/api/core/day",
        module="system",
        capability="read",
        reach="paths",
        summary="The core's.",
        handle=answer,
    )
    app.router.add_route("GET", core.path, core.serve)
    app.router.register_resource(ModuleResource(served))
    return await app.router.resolve(make_mocked_request(method, path))


async def test_a_module_s_route_is_reached_with_what_its_path_says():
    found = await reached(ResourceServer(), "GET", "/api/little/monday")

    assert (found.handler.__self__, dict(found)) == (LITTLE, {"day": "monday"})


async def test_another_method_or_path_is_distinguished_from_each_other():
    served = ResourceServer()

    assert (await reached(served, "PUT", "/api/little/monday")).http_exception.status == 405
    assert (await reached(served, "GET", "/api/little/tuesday")).http_exception.status == 404
    assert (await reached(served, "PUT", "/api/core/day")).http_exception.status == 405
    served.is_there = False
    assert (await reached(served, "GET", "/api/little/monday")).http_exception.status == 404


async def test_while_modules_start_an_unknown_path_is_503_and_not_404():
    served = ResourceServer()
    served.has_started = False

    assert (await reached(served, "GET", "/api/little/monday")).handler.__self__ == LITTLE
    error = (await reached(served, "GET", "/api/little/tuesday")).http_exception
    assert (error.status, error.headers["Retry-After"]) == (503, "2")
    served.has_started = True
    assert (await reached(served, "GET", "/api/little/tuesday")).http_exception.status == 404


async def test_while_one_module_starts_again_its_routes_are_503_and_those_of_no_module_404():
    served = ResourceServer()
    served.is_there, served.starting = False, "little"

    error = (await reached(served, "GET", "/api/little/monday")).http_exception
    assert (error.status, error.headers["Retry-After"]) == (503, "2")
    assert (await reached(served, "GET", "/api/large/monday")).http_exception.status == 404
    served.is_there = True
    assert (await reached(served, "GET", "/api/little/monday")).handler.__self__ == LITTLE


def test_it_declares_no_routes_of_its_own():
    resource = ModuleResource(ResourceServer())

    assert (len(resource), list(resource), resource.raw_match("/api/little")) == (0, [], False)
    assert resource.get_info() == {"path": resource.canonical}
