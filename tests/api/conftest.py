"""Whatever a test of the API calls, the status of the answer is one that the description names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from parachuted.api.http import middleware
from parachuted.api.http.middleware import GONE
from parachuted.api.http.openapi import errors_of
from parachuted.api.http.route import ApiCall, Route
from parachuted.audit.chain import AuditEvent
from parachuted.vault import Requester
from tests.stories.daemon_rig import DaemonRig, Live, note, save


@pytest.fixture
async def daemon_rig(live: Live) -> AsyncIterator[DaemonRig]:
    """A running daemon. What its vault shall hold at the start is made by fixtures before it."""
    async with live() as daemon_rig:
        yield daemon_rig


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as one:
        yield one


@pytest.fixture(params=["trusted", "untrusted"])
def trust(request: pytest.FixtureRequest) -> str:
    """In which way a module runs."""
    return str(request.param)


@pytest.fixture
def pair(vault: Path) -> Path:
    """A vault whose root watches the garden."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- dig"))
    return vault


@pytest.fixture(autouse=True)
def _described(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hears of every answer where the audit does. What modules answer is theirs to say."""
    event_of, undescribed = middleware.event_of, set[str]()

    def checked(
        request: web.Request,
        route: Route | None,
        caller: Requester,
        call: ApiCall | None,
        *,
        status: int,
        **more: object,
    ) -> AuditEvent:
        if (
            call is not None
            and call.route.recorded_as == "api_call"
            and status not in {*call.route.answers, *errors_of(call.route), GONE}
        ):
            undescribed.add(f"{call.route.method} {call.route.path} answered {status}")
        return event_of(request, route, caller, call, status=status, **more)

    monkeypatch.setattr(middleware, "event_of", checked)
    yield
    assert not undescribed
