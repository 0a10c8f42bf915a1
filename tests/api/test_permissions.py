"""Permissions over HTTP: what an agent asks for is listed, answered by those who may, and shows in the run."""

from __future__ import annotations

import asyncio

import pytest

from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import call, get, key_of, post, refused
from tests.stories.life import Live, save


@pytest.mark.parametrize(
    ("answer", "read", "asked"), [("once", [False, False], 2), ("session", [False, False], 1), ("never", [True, True], 1)]
)
async def test_a_question_of_an_agent_is_answered_and_its_run_goes_on(live: Live, vault, answer, read, asked):
    save(vault / "Projects/garden.md", "# Garden\n\nbeans\n")
    steps = [use("read_note", path="Projects/garden.md"), use("read_note", path="Projects/garden.md"), say("So.")]
    async with live(ScriptedBackend(steps)) as life:
        async with asyncio.TaskGroup() as group:
            ran = group.create_task(post(life, "/api/maintenance", {"prompt": "What is in the garden?"}))
            for number in range(asked):
                await life.until(lambda number=number: len(life.told("permission.requested")) > number)
                (question,) = (await get(life, "/api/permissions"))["permissions"]
                assert (question["agent"], question["kind"], question["what"]) == ("maintenance", "read", "Projects/garden.md")
                assert (await post(life, f"/api/permissions/{question['id']}", {"answer": answer}))["id"] == question["id"]
        steps_told = [step for step in ran.result()["steps"] if step["called"]]
        assert [step["error"] for step in steps_told] == read
        assert len(life.told("permission.requested")) == asked
        assert [one["answer"] for one in life.told("permission.answered")] == [answer] * asked
        left = await get(life, "/api/permissions")
        assert left == {"permissions": [], "never": ["maintenance read Projects/garden.md"] if answer == "never" else []}
        forgotten = await post(life, "/api/permissions/forget", {"agent": "maintenance"})
        assert forgotten == {"forgotten": len(left["never"])}


async def test_only_who_may_administer_sees_and_answers(live: Live):
    async with live() as life:
        assert (await refused(life, "POST", "/api/permissions/p-1", json={"answer": "once"}))[0] == 404
        assert (await refused(life, "POST", "/api/permissions/p-1", json={"answer": "perhaps"}))[0] == 400
        for method, path, more in (("GET", "/api/permissions", {}), ("POST", "/api/permissions/p-1", {"json": {"answer": "session"}})):
            status, _ = await call(life, method, path, headers=key_of(life, "*:read,write"), **more)
            assert status == 403
