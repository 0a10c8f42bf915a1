"""A conversation about a project, from its context to what it leaves in the notes, and back: with
real modules, on real files.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from parachuted.agents.job import Job
from parachuted.testing import ScriptedBackend, say, use
from tests.api.calls import get
from tests.chat.live_turns import turn
from tests.chat.talks import eventually
from tests.cli.command_line import CommandLine
from tests.module_files import install_official
from tests.stories.daemon_rig import DaemonRig, Live, note, save

GARDEN = "Projects/garden/AGENTS.md"
ABOVE = "Work/AGENTS.md"
KIM = "Brain/entities/people/kim-lee.md"
ADA = "Brain/entities/people/ada-berg.md"
OTHER = "Projects/other.md"
FACT = "Takes over the beans in May."
LINE = "Left bed: beans."
TITLE = "Kim takes the beans"
SAID = "Kim Lee takes over the beans from May on, and Ada Berg lends us the tools."


async def answers(job: Job) -> object:
    """A model that writes to a note; Brain and a watching note hear of what was said."""
    if job.agent == "chat/chat":
        return (say("Then Kim has the beans from May on."),)
    if job.agent == "chat/curator":
        return (
            use("update_context", file_path=GARDEN, section="Current Focus", content=LINE),
            use("update_title", title=TITLE),
        )
    if "judgment" in job.system_prompt:
        return (say(json.dumps({"judgment": "enrich", "queries": ["Kim beans"]})),)
    if job.agent == "chat/question":
        facts = [
            {"entity_type": "person", "name": "Kim Lee", "fact": FACT},
            {"entity_type": "person", "name": "Ada Berg", "fact": "Lends the tools."},
        ]
        return (say(json.dumps({"facts": facts})),)
    content = "- The garden has beans."
    return (use("update_context", file_path=job.watcher, section="Current Focus", content=content),)


async def settled_talk(daemon_rig: DaemonRig, backend: ScriptedBackend) -> str:
    """A conversation, of which all that it leads to is done; its id."""
    vault = daemon_rig.vault
    found = await turn(daemon_rig, SAID, contexts=["Projects/garden"])
    talk = str(found[-1]["sessionId"])
    (asked,) = [job for job in backend.jobs if job.agent == "chat/chat"]
    assert "About Garden." in asked.system_prompt
    assert "Grows beans." in asked.prompt
    assert {"brain-search", "chat-tag"} <= {tool.name for tool in asked.tools}
    (reported,) = [one for one in found if one["type"] == "prompt_metadata"]
    assert reported["brain_context_loaded"] is True

    await daemon_rig.until(lambda: FACT in (vault / KIM).read_text(), 60)
    await daemon_rig.until((vault / ADA).exists, 60)
    await daemon_rig.until(lambda: "has beans" in (vault / ABOVE).read_text(), 60)
    await daemon_rig.until(lambda: [*(vault / "Chat/sessions").glob(f"*{TITLE}.md")], 60)
    await daemon_rig.settled()
    assert (await get(daemon_rig, f"/api/chat/{talk}"))["contextFolders"] == ["Projects/garden"]
    (curator,) = [job for job in backend.jobs if job.agent == "chat/curator"]
    assert "brain-search" not in {tool.name for tool in curator.tools}
    (woken,) = [job for job in backend.jobs if job.watcher == ABOVE]
    assert LINE in woken.prompt
    number = (vault / GARDEN).read_text().splitlines().index(f"- {LINE}") + 1
    (line,) = (await get(daemon_rig, f"/api/why?path={GARDEN}&line={number}"))["lines"]
    assert line["run"]
    return talk


async def test_a_conversation_leaves_what_it_settled_and_is_undone_as_a_whole(
    live: Live, home: Path, vault: Path
):
    kim = "---\ntype: person\n---\n# Kim Lee\n\nGrows beans.\n\n## Facts\n- Is kind\n"
    before = {GARDEN: note("Garden"), ABOVE: note("Work", watch=["Projects/*"]), KIM: kim}
    for path, text in before.items():
        save(vault / path, text)
    command_line = CommandLine(home=home, vault=vault, folder=home.parent)

    async def undo(*words: str) -> tuple[int, str]:
        done = await asyncio.to_thread(command_line, "undo", *words)
        assert done.stderr == "", done
        return done.returncode, done.stdout

    backend = ScriptedBackend(answers)
    async with live(backend) as daemon_rig:
        await install_official(daemon_rig, "brain", "chat")
        talk = await settled_talk(daemon_rig, backend)
        save(vault / GARDEN, (vault / GARDEN).read_text() + "- Mine, and written later.\n")
        save(vault / OTHER, "# Other\n")
        await daemon_rig.settled()

        written = {path: (vault / path).read_text() for path in (*before, ADA)}
        code, plan = await undo("--session", talk)
        assert code == 1, "without a terminal it shows the plan, and does nothing"
        assert all(path in plan for path in written), plan
        assert "Chat/sessions" not in plan, "what was said is kept"
        assert {path: (vault / path).read_text() for path in written} == written
        code, as_json = await undo("--session", talk, "--json")
        assert (code, set(json.loads(as_json)["plan"]["paths"])) == (1, set(written)), as_json

    async with live(ScriptedBackend(answers)) as daemon_rig:  # what Chat held in memory is gone

        async def are_running() -> bool | None:
            modules = (await get(daemon_rig, "/api/modules"))["modules"]
            return all(module["status"] == "running" for module in modules) or None

        assert await eventually(are_running)
        code, said = await undo("--session", talk, "--yes")
        assert (code, "Taken back: 4 runs" in said) == (0, True), said
        assert not (vault / ADA).exists()
        assert (vault / KIM).read_text() == kim
        assert (vault / ABOVE).read_text() == before[ABOVE]
        assert (vault / GARDEN).read_text() == before[GARDEN] + "- Mine, and written later.\n"
        assert (vault / OTHER).read_text() == "# Other\n"
        assert [one["role"] for one in (await get(daemon_rig, f"/api/chat/{talk}"))["messages"]]

        async def are_undone() -> bool | None:
            stored = (await get(daemon_rig, f"/api/chat/{talk}/bridge"))["stored"]
            return [one["status"] for one in stored] == ["undone", "undone"] or None

        assert await eventually(are_undone), "Chat hears of it by an event"
        assert await undo("--session", talk) == (
            1,
            "Its runs changed nothing that is not taken back already.\n",
        )

        (again,) = (line for line in said.splitlines() if line.startswith("Do it again with"))
        code, redone = await undo(again.split()[-1], "--yes")
        assert (code, (vault / ADA).exists()) == (0, True), redone
        assert FACT in (vault / KIM).read_text()


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
        assert [result["isError"] for result in results] == [False] * 3, results

        await daemon_rig.until(lambda: daemon_rig.reported("suggestion.created"), 60)
        assert FACT not in (vault / KIM).read_text()
        # by the curator, which runs after the agent's own title
        await daemon_rig.until(lambda: [*(vault / "Chat/sessions").glob(f"*{TITLE}*.md")], 60)
        stored = (await get(daemon_rig, f"/api/chat/{talk}/bridge"))["stored"]
        assert {"Kim Lee": "waiting"}.items() <= {
            one["name"]: one["status"] for one in stored
        }.items()


async def test_a_run_that_a_conversations_file_only_names_is_not_taken_back(
    live: Live, home: Path, vault: Path
):
    save(vault / GARDEN, note("Garden"))
    save(vault / ABOVE, note("Work", watch=["Projects/*"]))
    command_line = CommandLine(home=home, vault=vault, folder=home.parent)

    async def script(job: Job) -> object:
        if job.agent.startswith("chat/"):
            return (say("Hello."),)
        return await answers(job)

    async with live(ScriptedBackend(script)) as daemon_rig:
        await install_official(daemon_rig, "chat")
        save(vault / GARDEN, note("Garden", focus="- dig"))
        await daemon_rig.until(lambda: "has beans" in (vault / ABOVE).read_text(), 60)
        await daemon_rig.settled()
        (curated,) = (await get(daemon_rig, "/api/runs"))["runs"]
        reported = await turn(daemon_rig, "Hello there")
        talk, run = reported[-1]["sessionId"], reported[-1]["runId"]
        await daemon_rig.settled()
        (file,) = (vault / "Chat/sessions").glob("*.md")
        assert run in file.read_text()
        save(file, file.read_text().replace(run, curated["id"]))
        await daemon_rig.settled()
        answer = await get(daemon_rig, f"/api/chat/{talk}/runs")
        assert curated["id"] in answer["runs"]

        done = await asyncio.to_thread(command_line, "undo", "--session", talk, "--yes")
        assert (done.returncode, "led to nothing" in done.stderr) == (1, True), done
        assert "has beans" in (vault / ABOVE).read_text()
