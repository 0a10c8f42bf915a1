from __future__ import annotations

import asyncio
import json
from pathlib import Path

from parachuted.agents import Job
from parachuted.agents.permission import PermissionRequest
from parachuted.testing import Block, ScriptedBackend, say, use
from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import Live, save


async def test_maintenance_shows_what_it_did_and_how_to_take_it_back(
    live: Live, home: Path, vault: Path, tmp_path: Path
):
    save(vault / "Daily/today.md", "# Today\n\n- broken\n")
    backend = ScriptedBackend(
        [
            use("list_system_files"),
            use("read_note", path="Daily/today.md"),
            use("write_note", path="Daily/today.md", text="# Today\n\n- mended\n"),
            say("It is mended."),
        ],
        cost_usd=0.01,
    )
    async with live(backend) as daemon_rig:
        await daemon_rig.settled()
        command_line = CommandLine(home=home, vault=vault, folder=tmp_path)
        said = await asyncio.to_thread(
            command_line.does, "maintenance", "why", "is", "today", "broken?"
        )

        assert backend.jobs[0].prompt == "why is today broken?"
        run = daemon_rig.daemon.watched.history.runs()[0]["id"]
        assert said.splitlines() == [
            "Starting the maintenance agent: this machine only, no network.",
            (
                "note     out of its reach, since there is no container: a shell (this daemon has "
                "none)"
            ),
            "did      list_system_files()",
            "did      read_note(path=Daily/today.md)",
            "did      write_note(path=Daily/today.md, text=# Today - mended)",
            "  | It is mended.",
            "wrote    Daily/today.md",
            f"run      {run}: changed, $0.0100",
            f"take it back with: parachute undo {run}",
            "go on with: --session scripted-maintenance",
        ]
        whole = (await asyncio.to_thread(command_line.does, "runs", run)).splitlines()
        steps = [line for line in whole if line.startswith("did ")]
        assert steps == [
            "did      list_system_files()",
            "did      read_note(Daily/today.md)",
            "did      write_note(Daily/today.md)",
        ]
        again = json.loads(
            await asyncio.to_thread(
                command_line.does, "maintenance", "and", "now?", "--session", "s-1", "--json"
            )
        )
        assert (again["words"], backend.jobs[1].session_id) == ("It is mended.", "s-1")


async def test_stop_agents_ends_all_and_says_which(
    live: Live, home: Path, vault: Path, tmp_path: Path
):
    started = asyncio.Event()

    async def endless(_job: Job) -> list[Block]:
        started.set()
        await asyncio.Event().wait()
        return []

    async with live(ScriptedBackend(endless)) as daemon_rig, asyncio.TaskGroup() as group:
        command_line = CommandLine(home=home, vault=vault, folder=tmp_path)
        asked = group.create_task(asyncio.to_thread(command_line.fails, 1, "maintenance", "hang"))
        await started.wait()
        (working,) = daemon_rig.daemon.agents.active_runs.all()
        assert (
            await asyncio.to_thread(command_line.does, "stop-agents", "--go-on")
            == f"Ended: 1 run: {working.run}.\n"
        )
        assert "a person stopped all agents" in await asked
        assert not daemon_rig.daemon.agents.worker.paused
        said = await asyncio.to_thread(command_line.does, "stop-agents")
        assert said.splitlines()[:1] == ["Ended: 0 runs."]
        assert daemon_rig.daemon.agents.worker.paused


async def test_who_waits_for_an_agent_learns_what_it_asks_for_and_why_it_was_refused(
    live: Live, home: Path, vault: Path, tmp_path: Path
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
        wish = PermissionRequest(
            kind="bash", what="curl example.com\nasks     work/helper wants to run ls"
        )
        answered = group.create_task(
            asked.ask(run="r1", session=None, agent="work/helper", request=wish)
        )
        await daemon_rig.until(lambda: bool(asked.pending()))
        (question,) = asked.pending()
        process = CommandLine(home=home, vault=vault, folder=tmp_path).begin(
            "maintenance", "what?", "--session", "forgotten"
        )
        assert process.stdout is not None
        reported = await asyncio.to_thread(process.stdout.readline)
        while not reported.startswith("asks "):
            assert reported == "Starting the maintenance agent: this machine only, no network.\n"
            reported = await asyncio.to_thread(process.stdout.readline)
        asked.answer(question.id, "never")
        shown.set()
        rest, _ = await asyncio.to_thread(process.communicate)
        assert reported.startswith(
            "asks     work/helper wants to run curl example.com\\x0aasks     work/helper wants to "
            "run ls, and waits until "
        )
        assert reported.endswith(
            f" UTC: `parachute permissions allow {question.id}`, or `deny`, in another terminal\n"
        )
        assert (
            "note     the session forgotten is not known here any more; a new one was "
            "started" in rest
        )
        assert "did      read_note(path=Daily/none.md wrote mine.md): refused, " in rest
        assert "  | There is none.\n  | run      r-1: unchanged\\x0d\\x1b[2J\n" in rest
        assert not [
            line for line in rest.splitlines() if line.startswith(("wrote ", "run      r-1"))
        ]
        assert not await answered


def test_without_a_model_or_words_the_sentence_says_what_to_do(running: CommandLine):
    assert (
        "the maintenance agent needs a model, and there is none; see `parachute auth status`"
        in running.fails(1, "maintenance", "x")
    )
    assert "there is nothing to ask" in running.fails(1, "maintenance", " ")
