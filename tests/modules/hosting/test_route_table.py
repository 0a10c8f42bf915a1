"""Finding: which module answers at a path."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.hosting.route_table import ModuleRouteTable
from parachuted.modules.registry.declaration import ModuleDeclaration, RouteSpec


def host(name: str, *routes: str, prefix: str | None = None) -> ModuleHost:
    specs = [route.split(" ") for route in routes]
    made = tuple(
        RouteSpec(method=method, path=path, handler=f"{method} {path}", capability="read")
        for method, path in specs
    )
    declared = ModuleDeclaration(
        name=name, version="1.0.0", prefix=prefix or f"/api/{name}", routes=made
    )
    return cast("ModuleHost", SimpleNamespace(name=name, declared=declared))


@pytest.fixture
def routes() -> ModuleRouteTable:
    found = ModuleRouteTable()
    some = (
        "GET /",
        "GET /entries",
        "POST /entries",
        "GET /entries/today",
        "GET /entries/{entry_id}",
        "DELETE /entries/{entry_id}",
    )
    odd = ("GET /{year}/{month}", "PUT /entries/{other}", "GET /odd.name")
    found.add(host("daily", *some, *odd))
    return found


@pytest.mark.parametrize(
    ("asked", "handler", "values"),
    [
        ("GET /api/daily", "GET /", {}),
        ("GET /api/daily/", "GET /", {}),
        ("GET /api/daily/entries", "GET /entries", {}),
        ("POST /api/daily/entries", "POST /entries", {}),
        ("HEAD /api/daily/entries", "GET /entries", {}),
        ("GET /api/daily/entries/today", "GET /entries/today", {}),
        ("DELETE /api/daily/entries/today", "DELETE /entries/{entry_id}", {"entry_id": "today"}),
        ("GET /api/daily/entries/e 1;x=é", "GET /entries/{entry_id}", {"entry_id": "e 1;x=é"}),
        (
            "GET /api/daily/entries/2026%2F01%25",
            "GET /entries/{entry_id}",
            {"entry_id": "2026/01%"},
        ),
        ("GET /api/daily/a%2Fb/01", "GET /{year}/{month}", {"year": "a/b", "month": "01"}),
        ("PUT /api/daily/entries/e1", "PUT /entries/{other}", {"other": "e1"}),
        ("GET /api/daily/2026/01", "GET /{year}/{month}", {"year": "2026", "month": "01"}),
    ],
)
def test_the_route_that_fits_is_found_and_one_without_parameters_first(
    routes, asked, handler, values
):
    found = routes.find(*asked.split(" ", 1))

    assert (found.module, found.spec.handler, found.path_values) == ("daily", handler, values)


@pytest.mark.parametrize(
    "asked",
    [
        "GET /api/brain/entries",
        "GET /api/DAILY/entries",
        "GET /api/daily/entries/",
        "GET /api/daily/entries//",
        "GET /api/daily/entries/a/b",
        "GET /api/daily//entries",
        "PATCH /api/daily/entries",
        "GET /daily/entries",
        "GET /api/",
        "GET /api",
        "GET ",
        "GET /api/daily/oddXname",
        "GET /api/daily/entries\n",
        "BREW /api/daily/entries",
    ],
)
def test_nothing_else_is_found(routes, asked):
    assert routes.find(*asked.split(" ", 1)) is None


def test_the_methods_of_a_path_are_reported(routes):
    assert routes.allowed("/api/daily/entries/today") == ("DELETE", "GET", "PUT")
    assert routes.allowed("/api/daily/nothing") == ()
    assert routes.allowed("/api/brain") == ()


def test_a_prefix_belongs_to_the_module_that_has_it(routes):
    with pytest.raises(ModuleFailedError, match="daily serves /api/daily already"):
        routes.add(host("thief", "GET /entries", prefix="/api/daily"))

    assert routes.find("GET", "/api/daily/entries").module == "daily"


def test_a_module_that_is_gone_answers_no_more(routes):
    routes.remove("daily")

    assert routes.find("GET", "/api/daily/entries") is None
    routes.add(host("heir", "GET /entries", prefix="/api/daily"))
    assert routes.find("GET", "/api/daily/entries").module == "heir"


def test_a_module_without_routes_takes_no_prefix(routes):
    routes.add(host("quiet"))

    assert routes.find("GET", "/api/quiet") is None


@pytest.fixture
def brain() -> ModuleRouteTable:
    found = ModuleRouteTable()
    found.add(
        host(
            "brain",
            "GET /entities/by_id",
            "GET /entities/{kind}",
            "PUT /entities/{id...}",
            "GET /{all...}",
            "GET /entities/old/{id...}",
        )
    )
    return found


@pytest.mark.parametrize(
    ("asked", "handler", "values"),
    [
        ("GET /api/brain/entities/by_id", "GET /entities/by_id", {}),
        ("GET /api/brain/entities/person", "GET /entities/{kind}", {"kind": "person"}),
        ("PUT /api/brain/entities/person", "PUT /entities/{id...}", {"id": "person"}),
        ("PUT /api/brain/entities/by_id", "PUT /entities/{id...}", {"id": "by_id"}),
        ("PUT /api/brain/entities/a/b%2Fc/d e", "PUT /entities/{id...}", {"id": "a/b/c/d e"}),
        ("GET /api/brain/entities/old/a/b", "GET /entities/old/{id...}", {"id": "a/b"}),
        ("GET /api/brain/entities/a/b", "GET /{all...}", {"all": "entities/a/b"}),
    ],
)
def test_the_rest_of_a_path_goes_to_the_last_parameter(brain, asked, handler, values):
    found = brain.find(*asked.split(" ", 1))

    assert (found.spec.handler, found.path_values) == (handler, values)


@pytest.mark.parametrize(
    "rest", ["", "a//b", "a/", "/a", ".", "..", "a/../b", "a/..", "a%2F..%2Fb", "..%2Fa", "%2Fetc"]
)
def test_the_rest_of_a_path_that_climbs_is_none(brain, rest):
    assert brain.find("PUT", f"/api/brain/entities/{rest}") is None


def test_a_place_that_is_kept_for_a_module_is_its_own_beside_its_prefix():
    specs = (
        RouteSpec(method="GET", path="/", handler="a", capability="read"),
        RouteSpec(
            method="GET",
            path="/{name}",
            handler="b",
            capability="read",
            prefix="/api/modules/daily/agents",
        ),
    )
    found = ModuleRouteTable()
    declared = ModuleDeclaration(name="daily", version="1.0.0", prefix="/api/daily", routes=specs)
    found.add(cast("ModuleHost", SimpleNamespace(name="daily", declared=declared)))

    assert found.find("GET", "/api/daily").spec.handler == "a"
    assert found.find("GET", "/api/modules/daily/agents/x").path_values == {"name": "x"}
    assert found.find("GET", "/api/daily/agents/x") is None
    assert found.allowed("/api/modules/daily/agents/x") == ("GET",)
    found.remove("daily")
    assert found.find("GET", "/api/modules/daily/agents/x") is None


def test_no_other_module_may_serve_what_is_kept_for_one():
    with pytest.raises(ValueError, match="is not kept for the module evil; nothing outside"):
        ModuleDeclaration(
            name="evil",
            version="1.0.0",
            prefix="/api/evil",
            routes=(
                RouteSpec(
                    method="GET",
                    path="/{name}",
                    handler="b",
                    capability="read",
                    prefix="/api/modules/daily/agents",
                ),
            ),
        )
