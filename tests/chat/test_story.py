"""A conversation about a project, from its context to what it leaves in the notes."""

from __future__ import annotations

import json
from pathlib import Path

from parachuted.agents.job import Job
from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import get, post
from tests.chat.live_turns import turn
from tests.module_files import install_official
from tests.stories.daemon_rig import Live, note, save

PROJECT = "Projects/garden/AGENTS.md"
ABOVE = "Work/AGENTS.md"
KIM = "Brain/entities/people/kim-lee.md"
FACT = "Takes over the beans in May."
LINE = "Kim takes over the beans."


async def answers(job: Job) -> object:
    if job.agent == "chat/chat":
        return (say("Then Kim has the beans from May on."),)
    if job.agent == "chat/curator":
        return (
            use("update_title", title="Kim takes the beans"),
            use("update_summary", summary="Kim has the beans from May on."),
            use("update_context", file_path=PROJECT, section="History", content=LINE),
            use("log_activity", summary="Agreed on who grows beans."),
        )
    if "judgment" in job.system_prompt:
        return (say(json.dumps({"judgment": "enrich", "queries": ["Kim beans"]})),)
    if job.agent == "chat/question":
        fact = {"entity_type": "person", "name": "Kim Lee", "fact": FACT}
        return (say(json.dumps({"facts": [fact]})),)
    return (say("Nothing to change."),)


async def test_a_conversation_loads_its_project_and_leaves_what_it_settled(live: Live, vault: Path):
    save(vault / ABOVE, note("Work", watch=["Projects/*"]))
    save(vault / PROJECT, "# Garden\n\nBeans are in the left bed.\n\n## History\n")
    save(vault / KIM, "---\ntype: person\n---\n# Kim Lee\n\nGrows beans.\n\n## Facts\n- Is kind\n")
    backend = ScriptedBackend(answers)
    async with live(backend) as daemon_rig:
        await install_official(daemon_rig, "brain", "chat")
        said = "So Kim Lee takes over the beans in the garden from May on, we agreed."
        found = await turn(daemon_rig, said, module="chat", contexts=["Projects/garden"])
        talk = found[-1]["sessionId"]

        (asked,) = [job for job in backend.jobs if job.agent == "chat/chat"]
        assert "Beans are in the left bed." in asked.system_prompt
        assert "Grows beans." in asked.prompt
        assert {"brain-search", "chat-send"} <= {tool.name for tool in asked.tools}
        (reported,) = [one for one in found if one["type"] == "prompt_metadata"]
        assert reported["brain_context_loaded"] is True

        await daemon_rig.until(lambda: FACT in (vault / KIM).read_text(), 60)
        await daemon_rig.until(lambda: LINE in (vault / PROJECT).read_text(), 60)
        await daemon_rig.until(lambda: [one for one in backend.jobs if one.watcher == ABOVE], 60)
        await daemon_rig.settled()
        session = await get(daemon_rig, f"/api/chat/{talk}")
        assert session["title"] == "Kim takes the beans"
        assert session["contextFolders"] == ["Projects/garden"]
        (curator,) = [job for job in backend.jobs if job.agent == "chat/curator"]
        assert "brain-search" not in {tool.name for tool in curator.tools}
        (woken,) = [job for job in backend.jobs if job.watcher == ABOVE]
        assert LINE in woken.prompt

        number = (vault / PROJECT).read_text().splitlines().index(f"- {LINE}") + 1
        (line,) = (await get(daemon_rig, f"/api/why?path={PROJECT}&line={number}"))["lines"]
        await post(daemon_rig, f"/api/runs/{line['run']}/undo")
        assert LINE not in (vault / PROJECT).read_text()
        (kept,) = (await get(daemon_rig, f"/api/chat/{talk}/bridge"))["stored"]
        await post(daemon_rig, f"/api/runs/{kept['run']}/undo")
        assert FACT not in (vault / KIM).read_text()
        await daemon_rig.settled()
        (kept,) = (await get(daemon_rig, f"/api/chat/{talk}/bridge"))["stored"]
        assert kept["status"] == "undone"


async def test_a_strangers_text_titles_the_conversation_but_only_suggests_facts(
    live: Live, vault: Path
):
    async def reads(job: Job) -> object:
        if job.agent != "chat/chat":
            return await answers(job)
        return (
            use("read_note", path="Inbox/mail.md"),
            use("update_session_title", title="A mail"),
            use("update_session_summary", summary="About a mail."),
            use("chat-send", session_id="s-2", message="Obey"),
            say("It says that Kim takes over the beans."),
        )

    save(vault / "Inbox/mail.md", "# Mail\n\nKim takes over the beans.\n")
    save(vault / KIM, "---\ntype: person\n---\n# Kim Lee\n\n## Facts\n- Is kind\n")
    backend = ScriptedBackend(reads)
    async with live(backend) as daemon_rig:
        await install_official(daemon_rig, "brain", "chat")
        found = await turn(daemon_rig, "What does the mail in there say?", contexts=["Inbox"])
        talk = found[-1]["sessionId"]
        results = [one for one in found if one["type"] == "tool_result"]
        assert [result["isError"] for result in results] == [False, False, False, True], results
        assert "stranger" in results[-1]["content"]

        await daemon_rig.until(lambda: daemon_rig.reported("suggestion.created"), 60)
        assert FACT not in (vault / KIM).read_text()
        titled = "Kim takes the beans"  # by the curator, which runs after the agent's own title
        await daemon_rig.until(lambda: [*(vault / "Chat/sessions").glob(f"*{titled}*.md")], 60)
        (kept,) = (await get(daemon_rig, f"/api/chat/{talk}/bridge"))["stored"]
        assert kept["status"] == "waiting"
