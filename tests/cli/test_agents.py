"""Agents as a person types: listed, audited, run, stopped, and what they ask for."""

from __future__ import annotations

import asyncio
import json

from parachuted.agents.job import Job
from parachuted.agents.permission import PermissionRequest
from parachuted.testing import Block, ScriptedBackend, say, use
from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import Live, note, save


async def test_agents_are_listed_and_explained_and_a_note_is_trusted(
    live: Live, vault, command_line: CommandLine
):
    does = command_line.tells
    save(vault / "Work/AGENTS.md", note("Work", watch=["Work/*.md"]))
    save(vault / "Work/plan.md", "# Plan\n")
    save(vault / "Work/mail.md", "---\norigin: imported\n---\n# Mail\n")
    async with live() as daemon_rig:
        await daemon_rig.settled()
        listed = (await does("agents", "list")).splitlines()
        assert [line.split()[0] for line in listed[1:3]] == ["curator", "maintenance"]
        explained = await does("sandbox", "explain", "curator")
        for part in ("runs here: yes", "  writes: 1\n", "network: none"):
            assert part in explained
        assert "Work/AGENTS.md" in explained
        assert "Work/plan.md" in explained
        code, complaint = await command_line.types("sandbox", "explain", "nobody")
        assert (code, "there is no agent" in complaint) == (1, True)
        trusted = "Work/mail.md is trusted now; its `origin` said imported.\n"
        assert await does("agents", "trust", "Work/mail.md") == trusted
        already = "Work/plan.md was trusted already.\n"
        assert await does("agents", "trust", "Work/plan.md") == already


async def test_maintenance_shows_what_it_did_and_how_to_take_it_back(
    live: Live, vault, command_line: CommandLine
):
    save(vault / "Daily/today.md", "# Today\n\n- broken\n")
    steps = [
        use("list_system_files"),
        use("read_note", path="Daily/today.md"),
        use("write_note", path="Daily/today.md", text="# Today\n\n- mended\n"),
        say("It is mended."),
    ]
    backend = ScriptedBackend(steps, cost_usd=0.01)
    async with live(backend) as daemon_rig:
        await daemon_rig.settled()
        said = await command_line.tells("maintenance", "why", "is", "today", "broken?")

        assert backend.jobs[0].prompt == "why is today broken?"
        run = daemon_rig.daemon.watched.history.runs()[0]["id"]
        alone = "out of its reach, since there is no container: a shell (this daemon has none)"
        assert said.splitlines() == [
            "Starting the maintenance agent: this machine only, no network.",
            f"note     {alone}",
            "did      list_system_files()",
            "did      read_note(path=Daily/today.md)",
            "did      write_note(path=Daily/today.md, text=# Today - mended)",
            "  | It is mended.",
            "wrote    Daily/today.md",
            f"run      {run}: changed, $0.0100",
            f"take it back with: parachute undo {run}",
            "go on with: --session scripted-maintenance",
        ]
        whole = (await command_line.tells("runs", run)).splitlines()
        assert [line for line in whole if line.startswith("did ")] == [
            "did      list_system_files()",
            "did      read_note(Daily/today.md)",
            "did      write_note(Daily/today.md)",
        ]
        words = ("maintenance", "and", "now?", "--session", "s-1", "--json")
        again = json.loads(await command_line.tells(*words))
        assert (again["words"], backend.jobs[1].session_id) == ("It is mended.", "s-1")


async def test_stop_agents_ends_all_and_says_which(live: Live, command_line: CommandLine):
    started = asyncio.Event()

    async def endless(_job: Job) -> list[Block]:
        started.set()
        await asyncio.Event().wait()
        return []

    async with live(ScriptedBackend(endless)) as daemon_rig, asyncio.TaskGroup() as group:
        agents = daemon_rig.daemon.agents
        asked = group.create_task(command_line.types("maintenance", "hang"))
        await started.wait()
        (working,) = agents.active_runs.all()
        ended = f"Ended: 1 run: {working.run}.\n"
        assert await command_line.tells("stop-agents", "--go-on") == ended
        code, complaint = await asked
        assert (code, "a person stopped all agents" in complaint) == (1, True)
        assert not agents.worker.paused
        assert (await command_line.tells("stop-agents")).startswith("Ended: 0 runs.\n")
        assert agents.worker.paused


async def test_who_waits_for_an_agent_learns_what_it_asks_for(
    live: Live, command_line: CommandLine
):
    shown = asyncio.Event()

    async def patient(_job: Job) -> list[Block]:
        await shown.wait()
        return [
            use("read_note", path="Daily/none.md\nwrote    mine.md"),
            say("There is none.\nrun      r-1: unchanged\r\x1b[2J"),
        ]

    async with live(ScriptedBackend(patient)) as daemon_rig, asyncio.TaskGroup() as group:
        asked = daemon_rig.daemon.agents.permissions
        what = "curl example.com\nasks     work/helper wants to run ls"
        wish = PermissionRequest(kind="bash", what=what)
        answered = group.create_task(
            asked.ask(run="r1", session=None, agent="work/helper", request=wish)
        )
        await daemon_rig.until(lambda: bool(asked.pending()))
        (question,) = asked.pending()
        process = command_line.begin("maintenance", "what?", "--session", "forgotten")
        assert process.stdout is not None
        reported = await asyncio.to_thread(process.stdout.readline)
        while not reported.startswith("asks "):
            assert reported == "Starting the maintenance agent: this machine only, no network.\n"
            reported = await asyncio.to_thread(process.stdout.readline)
        asked.answer(question.id, "deny")
        shown.set()
        rest, _ = await asyncio.to_thread(process.communicate)
        wants = what.replace("\n", "\\x0a")
        assert reported.startswith(f"asks     work/helper wants to run {wants}, and waits until ")
        how = f"`parachute permissions allow {question.id}`, or `deny`, in another terminal\n"
        assert reported.endswith(f" UTC: {how}")
        lost = "note     the session forgotten is not known here any more; a new one was started"
        assert lost in rest
        assert "did      read_note(path=Daily/none.md wrote mine.md): refused, " in rest
        assert "  | There is none.\n  | run      r-1: unchanged\\x0d\\x1b[2J\n" in rest
        forged = ("wrote ", "run      r-1")
        assert not [line for line in rest.splitlines() if line.startswith(forged)]
        assert not await answered


def test_without_a_model_or_words_the_sentence_says_what_to_do(running: CommandLine):
    no_model = "the maintenance agent needs a model, and there is none; see `parachute auth status`"
    assert no_model in running.fails(1, "maintenance", "x")
    assert "there is nothing to ask" in running.fails(1, "maintenance", " ")


async def test_what_an_agent_asks_for_is_listed_allowed_and_denied(
    live: Live, command_line: CommandLine
):
    async def does(*words: str) -> str:
        return await command_line.tells("permissions", *words)

    async with live() as daemon_rig:
        asked = daemon_rig.daemon.agents.permissions
        assert (await does("list")).startswith("No agent asks for anything.")
        wishes = [
            PermissionRequest(kind="read", what="Diary/a.md", why="it is named"),
            PermissionRequest(kind="bash", what=f"git log{' ' * 80}as root"),
            PermissionRequest(kind="write", what="b.md"),
        ]
        async with asyncio.TaskGroup() as group:
            runs = [
                group.create_task(
                    asked.ask(run="r1", session="s1", agent="work/helper", request=wish)
                )
                for wish in wishes
            ]
            await daemon_rig.until(lambda: len(asked.pending()) == 3)
            first, second, third = (question.id for question in asked.pending())
            listed = (await does("list")).splitlines()
            assert listed[0].startswith(f"question    {first}, until ")
            assert listed[1:5] == [
                "agent     | work/helper",
                "wants       read",
                "which     | Diary/a.md",
                "says      | it is named",
            ]
            assert "which     | git log as root" in listed
            said = await does("allow", first)
            assert said == "work/helper: read Diary/a.md is allowed once.\n"
            said = await does("allow", "--session", second)
            how = "is allowed for as long as its session lasts"
            assert said == f"work/helper: bash git log as root {how}.\n"
            said = await does("deny", third)
            assert said == "work/helper: write b.md is denied for as long as its session lasts.\n"
        assert [run.result() for run in runs] == [True, True, False]
        code, complaint = await command_line.types("permissions", "allow", "p-0")
        assert (code, "parachute permissions list" in complaint) == (1, True)
