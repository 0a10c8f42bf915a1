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
    [("once", [False, False], 2), ("session", [False, False], 1), ("never", [True, True], 1)],
)
async def test_a_question_of_an_agent_is_answered_and_its_run_goes_on(
    live: Live, vault, answer, read, asked
):
    save(vault / "Projects/garden.md", "# Garden\n\nbeans\n")
    steps = [
        use("read_note", path="Projects/garden.md"),
        use("read_note", path="Projects/garden.md"),
        say("So."),
    ]
    async with live(ScriptedBackend(steps)) as daemon_rig:
        async with asyncio.TaskGroup() as group:
            ran = group.create_task(
                post(daemon_rig, "/api/maintenance", {"prompt": "What is in the garden?"})
            )
            for number in range(asked):
                await daemon_rig.until(
                    lambda number=number: len(daemon_rig.reported("permission.requested")) > number
                )
                (question,) = (await get(daemon_rig, "/api/permissions"))["permissions"]
                assert (question["agent"], question["kind"], question["what"]) == (
                    "maintenance",
                    "read",
                    "Projects/garden.md",
                )
                assert (
                    await post(daemon_rig, f"/api/permissions/{question['id']}", {"answer": answer})
                )["id"] == question["id"]
        steps_told = [step for step in ran.result()["steps"] if step["called"]]
        assert [step["error"] for step in steps_told] == read
        assert len(daemon_rig.reported("permission.requested")) == asked
        assert [one["answer"] for one in daemon_rig.reported("permission.answered")] == [
            answer
        ] * asked
        left = await get(daemon_rig, "/api/permissions")
        assert left == {
            "permissions": [],
            "never": ["maintenance read Projects/garden.md"] if answer == "never" else [],
        }
        forgotten = await post(daemon_rig, "/api/permissions/forget", {"agent": "maintenance"})
        assert forgotten == {"forgotten": len(left["never"])}


async def test_what_is_no_question_and_no_answer_is_refused(daemon_rig: DaemonRig):
    for answer, expected in (("once", 404), ("perhaps", 400)):
        await expect(daemon_rig, expected, "POST", "/api/permissions/p-1", json={"answer": answer})
