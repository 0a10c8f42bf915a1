"""What modules offer: which answers at a path, and who stands behind an interface."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from parachuted.access.caller import Caller
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.exchange import Interfaces, ModuleRouteTable
from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.registry.declaration import ModuleDeclaration, RouteSpec
from tests.modules.module_rig import UNRECORDED


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
    some = ("GET /", "GET /entries", "POST /entries", "GET /entries/today")
    one = ("GET /entries/{entry_id}", "DELETE /entries/{entry_id}")
    odd = ("GET /{year}/{month}", "PUT /entries/{other}", "GET /odd.name")
    found.add(host("daily", *some, *one, *odd))
    rest = ("PUT /entities/{id...}", "GET /{all...}", "GET /entities/old/{id...}")
    found.add(host("brain", "GET /entities/by_id", "GET /entities/{kind}", *rest))
    return found


@pytest.mark.parametrize(
    ("asked", "handler", "values"),
    [
        ("GET /api/daily", "GET /", {}),
        ("GET /api/daily/", "GET /", {}),
        ("GET /api/daily/entries", "GET /entries", {}),
        ("HEAD /api/daily/entries", "GET /entries", {}),
        ("GET /api/daily/entries/today", "GET /entries/today", {}),
        ("DELETE /api/daily/entries/today", "DELETE /entries/{entry_id}", {"entry_id": "today"}),
        ("GET /api/daily/entries/e 1;x=é", "GET /entries/{entry_id}", {"entry_id": "e 1;x=é"}),
        ("GET /api/daily/entries/06%2F1%25", "GET /entries/{entry_id}", {"entry_id": "06/1%"}),
        ("GET /api/daily/a%2Fb/01", "GET /{year}/{month}", {"year": "a/b", "month": "01"}),
        ("PUT /api/daily/entries/e1", "PUT /entries/{other}", {"other": "e1"}),
        ("GET /api/daily/2026/01", "GET /{year}/{month}", {"year": "2026", "month": "01"}),
        # the rest of a path goes to the last parameter
        ("GET /api/brain/entities/person", "GET /entities/{kind}", {"kind": "person"}),
        ("PUT /api/brain/entities/person", "PUT /entities/{id...}", {"id": "person"}),
        ("PUT /api/brain/entities/by_id", "PUT /entities/{id...}", {"id": "by_id"}),
        ("PUT /api/brain/entities/a/b%2Fc/d e", "PUT /entities/{id...}", {"id": "a/b/c/d e"}),
        ("GET /api/brain/entities/old/a/b", "GET /entities/old/{id...}", {"id": "a/b"}),
        ("GET /api/brain/entities/a/b", "GET /{all...}", {"all": "entities/a/b"}),
    ],
)
def test_the_route_that_fits_is_found_and_one_without_parameters_first(
    routes, asked, handler, values
):
    found = routes.find(*asked.split(" ", 1))

    assert (found.spec.handler, found.path_values) == (handler, values)
    assert found.host.name == asked.split("/")[2]


CLIMBING = (
    *("", "a//b", "a/", "/a", ".", "..", "a/../b", "a/..", "a%2F..%2Fb", "..%2Fa", "%2Fetc"),
)


@pytest.mark.parametrize(
    "asked",
    [
        *("GET /api/none/entries", "GET /api/DAILY/entries", "GET /daily/entries"),
        *("GET /api/daily/entries/", "GET /api/daily/entries//", "GET /api/daily/entries/a/b"),
        *("GET /api/daily//entries", "GET /api/daily/oddXname", "GET /api/daily/entries\n"),
        *("PATCH /api/daily/entries", "BREW /api/daily/entries"),
        *("GET /api/", "GET /api", "GET "),
        *(f"PUT /api/brain/entities/{rest}" for rest in CLIMBING),
    ],
)
def test_nothing_else_is_found(routes, asked):
    assert routes.find(*asked.split(" ", 1)) is None


def test_a_prefix_belongs_to_the_module_that_has_it_until_it_is_gone(routes):
    assert routes.allowed("/api/daily/entries/today") == ("DELETE", "GET", "PUT")
    assert routes.allowed("/api/daily/nothing") == ()
    assert routes.allowed("/api/none") == ()
    thief = host("thief", "GET /entries", prefix="/api/daily")
    with pytest.raises(ModuleFailedError, match="daily serves /api/daily already"):
        routes.add(thief)
    assert routes.find("GET", "/api/daily/entries").host.name == "daily"

    routes.remove("daily")
    assert routes.find("GET", "/api/daily/entries") is None
    routes.add(thief)
    assert routes.find("GET", "/api/daily/entries").host.name == "thief"
    routes.add(host("quiet"))
    assert routes.find("GET", "/api/quiet") is None


def test_a_place_that_is_kept_for_a_module_is_its_own_beside_its_prefix():
    agents = {"prefix": "/api/modules/daily/agents", "path": "/{name}", "handler": "b"}
    of_agents = RouteSpec(method="GET", capability="read", **agents)
    specs = (RouteSpec(method="GET", path="/", handler="a", capability="read"), of_agents)
    found = ModuleRouteTable()
    declared = ModuleDeclaration(name="daily", version="1.0.0", prefix="/api/daily", routes=specs)
    found.add(cast("ModuleHost", SimpleNamespace(name="daily", declared=declared)))

    assert found.find("GET", "/api/daily").spec.handler == "a"
    assert found.find("GET", "/api/modules/daily/agents/x").path_values == {"name": "x"}
    assert found.find("GET", "/api/daily/agents/x") is None
    assert found.allowed("/api/modules/daily/agents/x") == ("GET",)
    found.remove("daily")
    assert found.find("GET", "/api/modules/daily/agents/x") is None
    with pytest.raises(ValueError, match="is not kept for the module evil; nothing outside"):
        ModuleDeclaration(name="evil", version="1.0.0", prefix="/api/evil", routes=(of_agents,))


BRAIN = "BrainInterface"
ANYBODY = "", lambda: (Caller(), Caller())


class Provider:
    def __init__(self, name: str) -> None:
        self.name = name

    async def who(self, greeting: str = "") -> str:
        return f"{greeting}{self.name}"

    def provides(self, _name: str) -> bool:
        return True

    async def call_interface(self, _name, method, args, kwargs, _caller):
        return await getattr(self, method)(*args, **kwargs)


@pytest.fixture
def interfaces() -> Interfaces:
    return Interfaces(UNRECORDED)


def offer(interfaces: Interfaces, name: str, *, is_trusted: bool = True) -> Provider:
    provider = Provider(name)
    interfaces.add(provider, is_trusted=is_trusted)
    return provider


async def test_the_other_takes_over_and_without_any_a_kept_method_says_so(interfaces):
    for name in ("first", "second"):
        offer(interfaces, name)
    brain = interfaces.get(BRAIN, *ANYBODY)
    who = brain.who
    with pytest.raises(AttributeError, match="_name"):
        _ = brain._name_of_it
    assert "BrainInterface" in repr(brain)

    interfaces.remove("first")
    assert await brain.who(greeting="I am ") == "I am second"

    interfaces.remove("second")
    assert interfaces.get(BRAIN, *ANYBODY) is None
    with pytest.raises(ModuleFailedError, match="no module provides BrainInterface any more"):
        await who()


async def test_of_two_providers_a_trusted_one_serves(interfaces):
    offer(interfaces, "a-stranger", is_trusted=False)
    offer(interfaces, "z-trusted")

    assert await interfaces.get(BRAIN, *ANYBODY).who() == "z-trusted"
