from __future__ import annotations

import asyncio

import pytest

from parachuted.agents.job import Job
from parachuted.testing import Block, ScriptedBackend, say, use
from tests.api.calls import expect, key_of, post, refused
from tests.stories.daemon_rig import Live, note, save

ASK = ("POST", "/api/maintenance")


async def test_a_run_of_the_maintenance_agent_is_undone_like_any(live: Live, vault):
    save(vault / "Daily/today.md", "# Today\n\n- broken\n")
    backend = ScriptedBackend(
        [
            say("Let me see."),
            use("list_system_files"),
            use("read_note", path="Daily/today.md"),
            use("write_note", path="Daily/today.md", text="# Today\n\n- mended\n"),
            use("write_note", path="Projects/x.md", text="beyond"),
            say("It is mended."),
        ],
        cost_usd=0.01,
    )
    async with live(backend) as daemon_rig:
        await daemon_rig.settled()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(post(daemon_rig, "/api/maintenance", {"prompt": "Mend it."}))
            await daemon_rig.until(lambda: daemon_rig.reported("permission.requested"))
            (question,) = daemon_rig.reported("permission.requested")
            assert (question["kind"], question["what"]) == ("write", "Projects/x.md")
            daemon_rig.daemon.agents.permissions.answer(str(question["id"]), "deny")
        ran = asked.result()

        fields = {"words": "It is mended.", "outcome": "changed", "cost_usd": 0.01}
        assert ran == ran | fields | {"wrote": ["Daily/today.md"]}
        errors = [step["error"] for step in ran["steps"] if step["called"]]
        assert errors == [False, False, False, True]
        assert backend.jobs[0].agent == "maintenance"
        assert not (vault / "Projects").exists()
        assert "out of its reach, since there is no container: a shell" in ran["warning"]
        undone = await post(daemon_rig, f"/api/runs/{ran['run']}/undo")
        assert undone["paths"] == ["Daily/today.md"]
        assert "broken" in (vault / "Daily/today.md").read_text()


async def test_an_agent_that_no_one_knows_or_a_wrong_order_is_answered_so(live: Live):
    async with live(ScriptedBackend([say("x")])) as daemon_rig:
        prompt = {"json": {"prompt": "x"}}
        answer = await refused(daemon_rig, "POST", "/api/agents/nobody/run", **prompt)
        assert answer == (404, "there is no agent 'nobody'; `parachute agents list` shows them")
        await expect(daemon_rig, 404, "POST", "/api/agents/bot/responder/run", **prompt)
        await expect(daemon_rig, 400, *ASK, json={"prompt": ""})
        await expect(daemon_rig, 403, *ASK, **prompt, headers=key_of(daemon_rig, "*:read,write"))


async def test_stopping_ends_every_agent_and_curators_go_on_when_resumed(live: Live, vault):
    hung: list[Job] = []
    is_stuck = True

    async def script(job: Job) -> list[Block]:
        hung.append(job)
        if is_stuck:
            await asyncio.Event().wait()
        return (
            [use("update_context", file_path="W.md", section="Facts", content="- seen")]
            if job.agent == "curator"
            else [say("ok")]
        )

    save(vault / "W.md", note("W", watch=["a.md"]))
    save(vault / "a.md", "# A\n")
    async with live(ScriptedBackend(script)) as daemon_rig, asyncio.TaskGroup() as group:
        await daemon_rig.settled()
        save(vault / "a.md", "# A\n\nnews\n")
        asked = group.create_task(refused(daemon_rig, *ASK, json={"prompt": "x"}))
        await daemon_rig.until(lambda: {job.agent for job in hung} == {"curator", "maintenance"})
        loop = asyncio.get_running_loop()
        began = loop.time()
        stopped = await post(daemon_rig, "/api/agents/stop")

        assert loop.time() - began < 20
        assert (len(stopped["stopped"]), stopped["paused"]) == (2, True)
        assert await asked == (502, "a person stopped all agents")
        assert daemon_rig.daemon.agents.active_runs.all() == []
        assert (await refused(daemon_rig, *ASK, json={"prompt": "x"}))[1].endswith(
            "`parachute resume` lets them go on"
        )
        await daemon_rig.until(
            lambda: daemon_rig.daemon.loop.queue.all() and not daemon_rig.daemon.agents.worker.busy
        )
        is_stuck = False
        for task in daemon_rig.daemon.loop.queue.all():
            daemon_rig.daemon.loop.queue.put_back(
                task, due_at=daemon_rig.daemon.watched.clock(), reason=None
            )
        await post(daemon_rig, "/api/resume")
        await daemon_rig.until(lambda: "- seen" in (vault / "W.md").read_text())


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ("the key", "who asked for it may do so no longer"),
        ("the daemon", "the daemon ended"),
    ],
)
async def test_a_run_ends_with_the_key_that_asked_for_it_and_with_the_daemon(
    live: Live, ends: str, says: str
):
    started = asyncio.Event()

    async def endless(_job: Job) -> list[Block]:
        started.set()
        await asyncio.Event().wait()
        return []

    async with live(ScriptedBackend(endless)) as daemon_rig, asyncio.TaskGroup() as group:
        headers = key_of(daemon_rig, "*:read,write,admin")
        asked = group.create_task(refused(daemon_rig, *ASK, json={"prompt": "x"}, headers=headers))
        await started.wait()
        if ends == "the key":
            (key,) = daemon_rig.daemon.authenticator.ring.keys
            await expect(daemon_rig, 200, "DELETE", f"/api/auth/keys/{key.id}")
        else:
            daemon_rig.daemon.stop()
        assert await asyncio.wait_for(asked, 30) == (502, says)


async def test_a_key_that_may_not_write_notes_has_no_agent_write_them(live: Live):
    backend = ScriptedBackend([say("ok")])
    async with live(backend) as daemon_rig:
        prompt, scopes = {"json": {"prompt": "x"}}, ("curator:read,write,admin", "system:admin")
        reader, writer = (
            key_of(daemon_rig, *scopes, words) for words in ("vault:read", "vault:read,write")
        )
        says = "does not reach all of the vault"
        await expect(daemon_rig, 403, *ASK, **prompt, headers=reader, says=says)
        assert backend.jobs == []
        await expect(daemon_rig, 200, *ASK, **prompt, headers=writer)
