"""Permissions over HTTP: what an agent asks for is listed, answered by those who may, and shows in
the run.
"""

from __future__ import annotations

import asyncio

import pytest

from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import expect, get, post
from tests.stories.daemon_rig import DaemonRig, Live, save


@pytest.mark.parametrize(
    ("answer", "read", "asked"),
    [("once", [False, False], 2), ("session", [False, False], 1), ("deny", [True, True], 1)],
)
async def test_a_question_of_an_agent_is_answered_and_its_run_goes_on(
    live: Live, vault, answer, read, asked
):
    path = "Projects/garden.md"
    save(vault / path, "# Garden\n\nbeans\n")
    steps = [use("read_note", path=path), use("read_note", path=path), say("So.")]
    async with live(ScriptedBackend(steps)) as daemon_rig:
        async with asyncio.TaskGroup() as group:
            prompt = {"prompt": "What is in the garden?"}
            ran = group.create_task(post(daemon_rig, "/api/maintenance", prompt))
            for number in range(1, asked + 1):
                await daemon_rig.until(
                    lambda most=number: len(daemon_rig.reported("permission.requested")) == most
                )
                (question,) = (await get(daemon_rig, "/api/permissions"))["permissions"]
                of = {"agent": "maintenance", "kind": "read", "what": path}
                assert question == question | of
                place = f"/api/permissions/{question['id']}"
                assert (await post(daemon_rig, place, {"answer": answer}))["id"] == question["id"]
        steps_told = [step for step in ran.result()["steps"] if step["called"]]
        assert [step["error"] for step in steps_told] == read
        assert len(daemon_rig.reported("permission.requested")) == asked
        answers = [one["answer"] for one in daemon_rig.reported("permission.answered")]
        assert answers == [answer] * asked
        assert await get(daemon_rig, "/api/permissions") == {"permissions": []}


async def test_what_is_no_question_and_no_answer_is_refused(daemon_rig: DaemonRig):
    for answer, expected in (("once", 404), ("perhaps", 400)):
        await expect(daemon_rig, expected, "POST", "/api/permissions/p-1", json={"answer": answer})
