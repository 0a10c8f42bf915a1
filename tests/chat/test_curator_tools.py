"""The curator's tools, called by its agent in a running daemon."""

from __future__ import annotations

from pathlib import Path

from parachuted.agents.job import Job
from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import call, expect, get, post
from tests.module_files import install_official
from tests.stories.daemon_rig import DaemonRig, Live, save

SESSION = "Chat/sessions/2026-11-23 Chat.md"
GARDEN = "Projects/garden/AGENTS.md"
TEXT = """---
id: s-1
title_source: default
context_folders: [Projects/garden]
---

<!-- message {"id": "m1", "role": "user"} -->
When do the beans go out?

<!-- message {"id": "m2", "role": "assistant", "tools": [{"id": "t", "name": "read_note"}]} -->
In May.
"""
DONE = (
    use("update_title", title="Beans in May"),
    use("update_summary", summary="When beans are planted out."),
    use("log_activity", summary="Talked about beans."),
    say("done"),
)


async def with_chat(daemon_rig: DaemonRig, vault: Path, text: str = TEXT) -> None:
    save(vault / SESSION, text)
    save(vault / GARDEN, "# Garden\n\n## Facts\n- Beds: 4\n\n## History\n")
    await daemon_rig.settled()  # the index knows both before Chat reads it
    await install_official(daemon_rig, "chat")


async def last_run(daemon_rig: DaemonRig) -> dict:
    """What the curator has done, once it has, after being asked to."""
    assert await post(daemon_rig, "/api/chat/s-1/curator/trigger") == {"status": "queued"}
    found = {}

    async def ran() -> bool:
        status, answer = await call(daemon_rig, "GET", "/api/chat/s-1/curator/messages")
        found["messages"] = answer
        return status == 200

    while not await ran():
        await daemon_rig.settled()
    found["session"] = await get(daemon_rig, "/api/chat/s-1")
    return found


async def test_its_tools_write_the_session_that_it_observes_and_its_project(
    live: Live, vault: Path
):
    note = use(
        "update_context", file_path="Projects/garden", section="History", content="Beans: May."
    )
    backend = ScriptedBackend((*DONE[:3], note, note))
    async with live(backend) as daemon_rig:
        await with_chat(daemon_rig, vault)
        found = await last_run(daemon_rig)
        names = ["update_title", "update_summary", "log_activity", "update_context"]

        session = found["session"]
        assert session["title"] == "Beans in May"
        assert session["summary"] == "When beans are planted out."
        assert session["metadata"]["title_source"] == "ai"
        assert session["curatorLastRun"]["actions"] == names
        assert session["curatorLastRun"]["new_title"] == "Beans in May"
        assert session["curatorSessionId"]
        (_, answered) = found["messages"]["messages"]
        assert answered["tool_calls"][0]["input"] == {"title": "Beans in May"}
        (job,) = backend.jobs
        assert job.agent == "chat/curator"
        assert "You observe a conversation" in job.system_prompt
        assert "read_note" in job.prompt
        assert [tool.name for tool in job.tools] == names

        await daemon_rig.settled()
        text = (vault / GARDEN).read_text()
        assert text.count("\n- Beans: May.\n") == 1
        assert "<!-- Added by curator on 20" in text
        assert "- Beds: 4" in text
        runs = (await get(daemon_rig, "/api/runs"))["runs"]
        (run,) = [one for one in runs if "From the conversation" in str(one)]
        await post(daemon_rig, f"/api/runs/{run['id']}/undo")
        assert "Beans: May." not in (vault / GARDEN).read_text()

        await expect(daemon_rig, 200, "PATCH", "/api/chat/s-1", json={"title": "Mine"})
        await post(daemon_rig, "/api/chat/s-1/curator/trigger")
        await daemon_rig.until(lambda: len(backend.jobs) == 2, 30)
        assert job.session_id is None
        assert backend.jobs[1].session_id == session["curatorSessionId"]
        offered = [tool.name for tool in backend.jobs[1].tools]
        assert offered == names[1:], "no title where the person gave one"


async def test_a_title_typed_into_the_file_while_it_works_stays(live: Live, vault: Path):
    async def script(_job: Job) -> object:
        file = next((vault / "Chat/sessions").glob("*.md"))
        save(file, file.read_text().replace("title_source: default", "title: Mine"))
        return DONE

    async with live(ScriptedBackend(script)) as daemon_rig:
        await with_chat(daemon_rig, vault)
        found = await last_run(daemon_rig)

        assert found["session"]["title"] == "Mine"
        assert "update_title" not in found["session"]["curatorLastRun"]["actions"]


async def test_what_an_exchange_says_cannot_lead_it_to_another_conversation(
    live: Live, vault: Path
):
    hostile = (
        use("update_session_title", title="Hacked"),
        use("chat-tag", tag="x", session_id="s-2"),
        use("chat-session", session_id="s-2"),
        use("update_context", file_path=GARDEN, section="Watch", content="x"),
        use("update_context", file_path="Projects/cars/AGENTS.md", section="Facts", content="x"),
    )
    async with live(ScriptedBackend(hostile)) as daemon_rig:
        await with_chat(daemon_rig, vault)
        other = vault / "Chat/sessions/2026-11-23 Other.md"
        save(other, TEXT.replace("s-1", "s-2").replace("m1", "m3").replace("m2", "m4"))
        before = other.read_text()
        save(vault / "Projects/cars/AGENTS.md", "# Cars\n")
        found = await last_run(daemon_rig)

        assert other.read_text() == before
        assert (vault / "Projects/cars/AGENTS.md").read_text() == "# Cars\n"
        assert found["session"]["title"] == "When do the beans go out?"  # by plain rules
        assert "Hacked" not in (vault / GARDEN).read_text()
