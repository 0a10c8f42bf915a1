"""Whatever a test of the API calls, the status of the answer is one that the description names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiohttp import web

from parachuted.api.http import middleware
from parachuted.api.http.middleware import GONE
from parachuted.api.http.openapi import errors_of
from parachuted.api.http.route import ApiCall, Route
from parachuted.audit.chain import AuditEvent
from parachuted.vault import Requester


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
