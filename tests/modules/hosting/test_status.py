"""Standing: how a module stands, in one word and with what it offers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.hosting.status import ModuleStatus, status_of
from parachuted.modules.registry.approved import ModuleEntry, ModuleRecord
from parachuted.modules.registry.declaration import ModuleDeclaration, RouteSpec

DIGEST = f"sha256:{'a' * 64}"
DECLARED = ModuleDeclaration(name="daily", version="1.0.0", prefix="/api/daily")


def status(
    declared: ModuleDeclaration | None = DECLARED,
    problem: str | None = None,
    *,
    enabled: bool = True,
    approved: str | None = DIGEST,
) -> ModuleStatus:
    approval = {"hash": approved, "tree": approved, "trust": "trusted"}
    record = ModuleRecord(name="daily", version="1.0.0", enabled=enabled, **approval)
    folder = Path("/v/Modules/daily")
    entry = ModuleEntry(record=record, folder=folder, found_digest=DIGEST, state="approved")
    host = SimpleNamespace(where="in process", limits=None, declared=declared)
    return status_of(entry, cast("ModuleHost", host) if declared else None, problem)


def test_a_module_stands_in_one_of_five_ways():
    assert (status().status, status().where) == ("running", "in process")
    assert status(problem="it failed").status == "failed"
    assert (status(None, "it failed").status, status(None).status) == ("failed", "starting")
    assert (status(None).where, status(None, enabled=False).status) == (None, "disabled")
    assert status(None, enabled=False, approved=None).status == "unapproved"


def test_a_route_is_named_by_the_path_that_it_is_served_at():
    agents = "/api/modules/daily/agents"
    routes = (
        RouteSpec(method="GET", path="/entries", handler="a", capability="read"),
        RouteSpec(method="GET", path="/{name}", handler="b", capability="read", prefix=agents),
    )
    shown = status(replace(DECLARED, routes=routes)).routes
    assert shown == ("GET /api/daily/entries", f"GET {agents}/{{name}}")
