"""The shapes of the loop's answers, held against what a daemon that has something to tell
answers.
"""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from parachuted.api.routes import documents
from tests.api.calls import get, post
from tests.stories.life import Live, note, save


@pytest.fixture
def woken(vault):
    """A vault with a watcher of two files."""
    save(vault / "AGENTS.md", note("All", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    return vault


async def test_what_the_loop_answers_has_the_shape_it_declares(live: Live, woken):
    async with live() as life:
        save(woken / "Projects/garden/AGENTS.md", note("Garden", focus="- tomatoes"))
        await life.settled()
        run = life.told("run.finished")[0]["run"]
        answers = {
            documents.WatchesResponse: await get(life, "/api/watches"),
            documents.TasksResponse: await get(life, "/api/tasks"),
            documents.RunsResponse: await get(life, "/api/runs"),
            documents.PlanResponse: await post(
                life, "/api/bubble/plan", {"path": "Projects/garden/AGENTS.md"}
            ),
            documents.WhyResponse: await get(life, "/api/why?path=AGENTS.md"),
            documents.DoctorResponse: await get(life, "/api/doctor"),
            documents.ScanResponse: await post(life, "/api/scan"),
            documents.UndoResponse: await post(life, f"/api/runs/{run}/undo"),
            documents.BubbleResponse: await post(
                life, "/api/bubble/run", {"path": "Projects/garden/AGENTS.md"}
            ),
            documents.PausedResponse: await post(life, "/api/pause"),
        }

    for shape, answer in answers.items():
        TypeAdapter(shape).validate_python(answer, strict=True)
        assert set(answer) == set(shape.__annotations__) | {
            key for base in shape.__orig_bases__ for key in getattr(base, "__annotations__", ())
        }
    assert answers[documents.RunsResponse]["count"] == 1
    assert answers[documents.WatchesResponse]["watches"][0]["watched"] == [
        "Projects/garden/AGENTS.md"
    ]
