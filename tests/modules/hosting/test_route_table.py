"""Finding: which module answers at a path."""

from __future__ import annotations

from typing import cast

import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.route_table import ModuleRouteTable
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.registry.declaration import ModuleDeclaration, RouteSpec

RUNNING = cast("RunningModule", object())


def declared(name: str, *routes: str, prefix: str | None = None) -> ModuleDeclaration:
    specs = [route.split(" ") for route in routes]
    made = tuple(
        RouteSpec(method=method, path=path, handler=f"{method} {path}", capability="read")
        for method, path in specs
    )
    return ModuleDeclaration(
        name=name, version="1.0.0", prefix=prefix or f"/api/{name}", routes=made
    )


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
    found.add(
        "daily",
        RUNNING,
        declared("daily", *some, "GET /{year}/{month}", "PUT /entries/{other}", "GET /odd.name"),
    )
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
    assert found.running is RUNNING


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


def test_the_methods_of_a_path_are_told(routes):
    assert routes.allowed("/api/daily/entries/today") == ("DELETE", "GET", "PUT")
    assert routes.allowed("/api/daily/nothing") == ()
    assert routes.allowed("/api/brain") == ()


def test_a_prefix_belongs_to_the_module_that_has_it(routes):
    with pytest.raises(ModuleFailedError, match="daily serves /api/daily already"):
        routes.add("thief", RUNNING, declared("thief", "GET /entries", prefix="/api/daily"))

    assert routes.find("GET", "/api/daily/entries").module == "daily"


def test_a_module_that_is_gone_answers_no_more(routes):
    routes.remove("daily")

    assert routes.find("GET", "/api/daily/entries") is None
    routes.add("heir", RUNNING, declared("heir", "GET /entries", prefix="/api/daily"))
    assert routes.find("GET", "/api/daily/entries").module == "heir"


def test_a_module_without_routes_takes_no_prefix(routes):
    routes.add("quiet", RUNNING, declared("quiet"))

    assert routes.find("GET", "/api/quiet") is None


def test_each_of_many_modules_is_found():
    found = ModuleRouteTable()
    for number in range(500):
        found.add(f"m{number}", RUNNING, declared(f"m{number}", "GET /a/{b}"))

    assert found.find("GET", "/api/m321/a/x").module == "m321"
