"""Polled documents: what apps poll has the shapes that they read, with JSON's own types."""

from __future__ import annotations

from datetime import datetime

import pytest

from parachuted.api.routes.polled import SessionScanResponse
from tests.api.shapes import answer_of, strict
from tests.stories.daemon_rig import Live

GETS = [
    "/api/scheduler",
    "/api/usage",
    "/api/models",
    "/api/models?show_all=true",
    "/supervisor/models?show_all=false",
    "/supervisor/status",
    "/api/migration/scan",
]


async def test_rows_7_54_and_68_to_72_hold_to_the_letter(live: Live):
    async with live() as daemon_rig:
        for path in GETS:
            await answer_of(daemon_rig, "GET", path)
        await answer_of(daemon_rig, "POST", "/api/scheduler/reload")
        await answer_of(daemon_rig, "POST", "/api/migration/all", json={"copyTranscripts": True})
        one = "/api/migration/session/{id}"
        await answer_of(
            daemon_rig,
            "POST",
            "/api/migration/session/s-1",
            name=one,
            json={"copyTranscript": False},
        )


async def test_times_can_be_parsed_and_have_a_zone(live: Live):
    async with live() as daemon_rig:
        models = (await answer_of(daemon_rig, "GET", "/api/models?show_all=1"))["models"]

    assert models
    assert all(datetime.fromisoformat(model["created_at"]).tzinfo is not None for model in models)


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        (
            SessionScanResponse,
            (
                b'{"currentVaultRoot": "", "needsMigration": [], "alreadyCurrent": 0.0, '
                b'"noVaultRoot": 0, "total": 0}'
            ),
        ),
    ],
)
def test_what_the_app_would_choke_on_is_not_an_answer(shape: type, data: bytes):
    with pytest.raises((AssertionError, ValueError)):
        strict(shape, data)
