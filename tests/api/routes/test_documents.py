"""The shapes of the loop's answers, held against what a daemon that has something to tell
answers.
"""

from __future__ import annotations

import json

import pytest
from pydantic import TypeAdapter

from parachuted.api.routes.doctor import DoctorResponse
from parachuted.api.routes.loop import (
    BubbleResponse,
    PausedResponse,
    PlanResponse,
    ScanResponse,
    TasksResponse,
    WatchesResponse,
)
from parachuted.api.routes.runs import RunsResponse, UndoResponse, WhyResponse
from tests.api.calls import get, post
from tests.stories.daemon_rig import Live, note, save


@pytest.fixture
def woken(vault):
    """A vault with a watcher of two files."""
    save(vault / "AGENTS.md", note("All", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    return vault


async def test_what_the_loop_answers_has_the_shape_it_declares(live: Live, woken):
    async with live() as daemon_rig:
        save(woken / "Projects/garden/AGENTS.md", note("Garden", focus="- tomatoes"))
        await daemon_rig.settled()
        run = daemon_rig.reported("run.finished")[0]["run"]
        answers = {
            WatchesResponse: await get(daemon_rig, "/api/watches"),
            TasksResponse: await get(daemon_rig, "/api/tasks"),
            RunsResponse: await get(daemon_rig, "/api/runs"),
            PlanResponse: await post(
                daemon_rig, "/api/bubble/plan", {"path": "Projects/garden/AGENTS.md"}
            ),
            WhyResponse: await get(daemon_rig, "/api/why?path=AGENTS.md"),
            DoctorResponse: await get(daemon_rig, "/api/doctor"),
            ScanResponse: await post(daemon_rig, "/api/scan"),
            UndoResponse: await post(daemon_rig, f"/api/runs/{run}/undo"),
            BubbleResponse: await post(
                daemon_rig, "/api/bubble/run", {"path": "Projects/garden/AGENTS.md"}
            ),
            PausedResponse: await post(daemon_rig, "/api/pause"),
        }

    for shape, answer in answers.items():
        TypeAdapter(shape).validate_json(json.dumps(answer), strict=True)
        assert set(answer) == set(shape.__annotations__) | {
            key for base in shape.__orig_bases__ for key in getattr(base, "__annotations__", ())
        }
    assert answers[RunsResponse]["count"] == 1
    assert answers[WatchesResponse]["watches"][0]["watched"] == ["Projects/garden/AGENTS.md"]
