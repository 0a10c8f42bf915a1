"""Permissions over HTTP: what an agent asks for is listed, answered by those who may, and shows in
the run.
"""

from __future__ import annotations

import asyncio

import pytest

from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import call, get, key_of, post, refused
from tests.stories.daemon_rig import Live, save


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


async def test_only_who_may_administer_sees_and_answers(live: Live):
    async with live() as daemon_rig:
        assert (await refused(daemon_rig, "POST", "/api/permissions/p-1", json={"answer": "once"}))[
            0
        ] == 404
        assert (
            await refused(daemon_rig, "POST", "/api/permissions/p-1", json={"answer": "perhaps"})
        )[0] == 400
        for method, path, more in (
            ("GET", "/api/permissions", {}),
            ("POST", "/api/permissions/p-1", {"json": {"answer": "session"}}),
        ):
            status, _ = await call(
                daemon_rig, method, path, headers=key_of(daemon_rig, "*:read,write"), **more
            )
            assert status == 403


async def test_a_key_for_some_paths_hears_of_these_alone_and_answers_for_them_alone(
    live: Live, vault
):
    save(vault / "Projects/garden.md", "# Garden\n\nbeans\n")
    save(vault / "Private/diary.md", "# Diary\n")
    steps = [
        use("read_note", path="Projects/garden.md"),
        use("read_note", path="Private/diary.md"),
        say("So."),
    ]
    async with live(ScriptedBackend(steps)) as daemon_rig, asyncio.TaskGroup() as group:
        key = {
            "headers": key_of(daemon_rig, "curator:read,admin", "vault:read", paths=["Projects/**"])
        }
        ran = group.create_task(post(daemon_rig, "/api/maintenance", {"prompt": "What is there?"}))
        await daemon_rig.until(lambda: len(daemon_rig.reported("permission.requested")) == 1)
        _, reported = await call(daemon_rig, "GET", "/api/permissions", **key)
        (question,) = reported["permissions"]
        assert question["what"] == "Projects/garden.md"
        status, _ = await call(
            daemon_rig, "POST", f"/api/permissions/{question['id']}", json={"answer": "once"}, **key
        )
        assert status == 200
        await daemon_rig.until(lambda: len(daemon_rig.reported("permission.requested")) == 2)
        (hidden,) = daemon_rig.daemon.agents.permissions.pending()
        assert (await call(daemon_rig, "GET", "/api/permissions", **key))[1] == {
            "permissions": [],
            "never": [],
        }
        unseen = await refused(
            daemon_rig, "POST", f"/api/permissions/{hidden.id}", json={"answer": "once"}, **key
        )
        unknown = await refused(
            daemon_rig, "POST", "/api/permissions/p-00000000", json={"answer": "once"}, **key
        )
        assert (unseen[0], unseen[1].replace(hidden.id, "")) == (
            404,
            unknown[1].replace("p-00000000", ""),
        )
        assert (
            await refused(
                daemon_rig, "POST", "/api/permissions/forget", json={"agent": "maintenance"}, **key
            )
        )[0] == 403
        await post(daemon_rig, f"/api/permissions/{hidden.id}", {"answer": "never"})
        assert [step["error"] for step in (await ran)["steps"] if step["called"]] == [False, True]
