"""Standing: how a module stands, in one word and with what it offers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.hosting.status import ModuleStatus, status_of
from parachuted.modules.registry.approved import ModuleEntry, ModuleRecord
from parachuted.modules.registry.declaration import ModuleDeclaration, RouteSpec

DIGEST = f"sha256:{'a' * 64}"
DECLARED = ModuleDeclaration(name="daily", version="1.0.0", prefix="/api/daily")


def entry(*, enabled: bool = True, approved: str | None = DIGEST) -> ModuleEntry:
    approval = {"hash": approved, "tree": approved, "trust": "trusted"}
    record = ModuleRecord(name="daily", version="1.0.0", enabled=enabled, **approval)
    folder = Path("/v/Modules/daily")
    return ModuleEntry(record=record, folder=folder, found_digest=DIGEST, state="approved")


def status(
    one: ModuleEntry,
    declared: ModuleDeclaration | None,
    problem: str | None = None,
) -> ModuleStatus:
    host = SimpleNamespace(where="in process", limits=None, declared=declared)
    return status_of(
        one,
        cast("ModuleHost", host) if declared else None,
        problem,
        schedules=["tidy: every 900 s", "reflect: each day at 03:00"],
    )


@pytest.mark.parametrize(
    ("one", "declared", "problem", "state"),
    [
        (entry(), DECLARED, None, "running"),
        (entry(), DECLARED, "it failed", "failed"),
        (entry(), None, "it failed", "failed"),
        (entry(), None, None, "starting"),
        (entry(enabled=False), None, None, "disabled"),
        (entry(approved=None), None, None, "unapproved"),
    ],
)
def test_a_module_stands_in_one_of_five_ways(one, declared, problem, state):
    found = status(one, declared, problem)

    assert (found.status, found.where is not None) == (state, declared is not None)


def test_a_route_is_named_by_the_path_that_it_is_served_at():
    agents = "/api/modules/daily/agents"
    routes = (
        RouteSpec(method="GET", path="/entries", handler="a", capability="read"),
        RouteSpec(method="GET", path="/{name}", handler="b", capability="read", prefix=agents),
    )
    shown = status(entry(), replace(DECLARED, routes=routes)).routes
    assert shown == ("GET /api/daily/entries", f"GET {agents}/{{name}}")
