"""A decorated method is a route: its docstring, its parameters and its return type declare it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import pytest
from aiohttp import web
from typing_extensions import TypedDict

from parachuted.api.app import serve
from parachuted.api.http.authenticator import KeyAuthenticator
from parachuted.api.http.decorators import delete, get, put, routes_of
from parachuted.api.http.host_guard import HostGuard
from parachuted.api.http.middleware import ApiMiddleware
from parachuted.api.http.route import ApiCall, RequestModel, Whole
from parachuted.audit.chain import NullAuditRecorder
from parachuted.keys import KeyFile, KeyRing
from parachuted.vault import VaultRoot

START = datetime(2026, 1, 1, tzinfo=UTC)


class CupQuery(RequestModel):
    size: Whole = 1


class CupRequest(RequestModel):
    tea: str


class CupResponse(TypedDict):
    id: str
    tea: str
    size: int


class CupRoutes:
    def __init__(self, poured: str) -> None:
        self._poured = poured

    @get("/api/cups/{id}", "vault", "read")
    async def one(self, id_: str, size: Whole = 1) -> CupResponse:
        """One
        cup.

        More is for readers of the code.
        """
        return {"id": id_, "tea": self._poured, "size": size}

    @put("/api/cups/{id}", "vault", "write", for_path_keys=True, errors=(502,))
    async def fill(self, call: ApiCall, query: CupQuery, body: CupRequest) -> CupResponse:
        """Fill a cup."""
        return {"id": call.named("id"), "tea": body.tea, "size": query.size}

    @delete("/api/cups", "vault", "admin", answers={204: None})
    @delete("/api/mugs", "vault", "admin", answers={204: None})
    async def clear(self, call: ApiCall) -> web.Response:
        """Remove every cup."""
        return web.Response(status=204, headers={"X-Id": call.id})

    async def helper(self) -> None:
        raise AssertionError


@contextlib.asynccontextmanager
async def serving(folder) -> AsyncIterator[str]:
    door = KeyAuthenticator(KeyRing(KeyFile(folder), lambda: START), "remote", "t", lambda: START)
    front = ApiMiddleware(HostGuard(), door, VaultRoot(folder), NullAuditRecorder(), lambda: START)
    app = web.Application(middlewares=[front.answer])
    serve(app, routes_of(CupRoutes("oolong")))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def test_routes_are_the_decorated_methods_of_all_objects_in_the_order_of_the_source():
    routes = routes_of(CupRoutes("oolong"), CupRoutes("sencha"))

    assert [(route.method, route.path) for route in routes[:4]] == [
        ("GET", "/api/cups/{id}"),
        ("PUT", "/api/cups/{id}"),
        ("DELETE", "/api/cups"),
        ("DELETE", "/api/mugs"),
    ]
    assert len(routes) == 8


def test_a_route_is_described_by_its_method():
    one, fill, clear, _mugs = routes_of(CupRoutes("oolong"))

    assert (one.summary, fill.summary) == ("One cup.", "Fill a cup.")
    assert (fill.query, fill.body) == (CupQuery, CupRequest)
    assert list(one.query.model_fields) == ["size"]
    assert one.answers == {200: CupResponse}
    assert clear.answers == {204: None}
    assert (fill.module, fill.capability, fill.errors) == ("vault", "write", (502,))
    assert (one.for_path_keys, fill.for_path_keys) == (False, True)


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "answer"),
    [
        ("GET", "/api/cups/a?size=3", None, 200, {"id": "a", "tea": "oolong", "size": 3}),
        ("PUT", "/api/cups/b", b'{"tea": "mate"}', 200, {"id": "b", "tea": "mate", "size": 1}),
        ("DELETE", "/api/cups", None, 204, None),
        ("DELETE", "/api/mugs", None, 204, None),
    ],
)
async def test_a_handler_is_called_with_what_it_asks_for(
    tmp_path, method, target, body, status, answer
):
    async with (
        serving(tmp_path) as url,
        aiohttp.ClientSession() as session,
        session.request(method, url + target, data=body) as response,
    ):
        assert response.status == status
        assert (await response.json() if answer else None) == answer


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/api/cups/a?size=many", None),
        ("GET", "/api/cups/a?colour=red", None),
        ("PUT", "/api/cups/a", b"{}"),
        ("PUT", "/api/cups/a?size=x", b'{"tea": "mate"}'),
    ],
)
async def test_a_query_or_body_of_another_shape_is_refused(tmp_path, method, target, body):
    async with (
        serving(tmp_path) as url,
        aiohttp.ClientSession() as session,
        session.request(method, url + target, data=body) as response,
    ):
        assert response.status == 400
