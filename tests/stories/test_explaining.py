"""Explaining: for each line of a living note, who wrote it and what led to that."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from parachuted.history import Why
from parachuted.vault import VaultPath
from tests.stories.daemon_rig import DaemonRig, Live, save
from tests.stories.graphs import touch_up, write

ROOT = Path(__file__).resolve().parents[2]
GRAPH: dict[str, list[str]] = {"a": [], "b": ["a"]}
B = VaultPath("b/AGENTS.md")


async def follow(daemon_rig: DaemonRig, focus: str) -> str:
    """a is edited and b follows. Returns b's run."""
    before = len(daemon_rig.reported("run.finished"))
    touch_up(daemon_rig.vault, "a", focus, GRAPH)
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > before)
    await daemon_rig.settled()
    return str(daemon_rig.reported("run.finished")[-1]["run"])


def authors(daemon_rig: DaemonRig) -> dict[str, str]:
    """Each line of b with its run, or who else wrote it."""
    why = Why(daemon_rig.daemon.vault.store)
    return {line.text: line.run or line.by for line in why.lines(B) if line.text.strip()}


async def ask(place: str) -> dict[str, object]:
    """As a person types it."""
    command = [sys.executable, "-m", "parachuted", "why", place, "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    answer, _errors = await process.communicate()
    return dict(json.loads(answer))


async def test_lines_are_distinguished_through_edits_and_an_undo(live: Live, vault: Path):
    write(vault, GRAPH)
    async with live() as daemon_rig:
        first = await follow(daemon_rig, "- sow")
        assert (authors(daemon_rig)["# b"], authors(daemon_rig)["  - sow"]) == ("person", first)

        save(vault / B, (vault / B).read_text("utf-8").replace("> About b.", "> About b, by hand."))
        second = await follow(daemon_rig, "- harvest")
        reported = authors(daemon_rig)
        assert reported["> About b, by hand."] == "person"
        assert reported["  - harvest"] == second
        assert reported["- [a](../a/AGENTS.md) — About a."] == first

        await daemon_rig.daemon.vault.undo.undo(second)
        reported = authors(daemon_rig)
        assert (reported["> About b, by hand."], reported["  - sow"]) == ("person", first)
        assert set(reported.values()) == {"person", first}


async def test_what_a_person_makes_of_a_runs_line_is_the_persons(live: Live, vault: Path):
    write(vault, GRAPH)
    async with live() as daemon_rig:
        run = await follow(daemon_rig, "- sow")
        save(vault / B, (vault / B).read_text("utf-8").replace("  - sow", "  - sow, but late"))
        await daemon_rig.settled()

        assert authors(daemon_rig)["  - sow, but late"] == "person"
        assert run in authors(daemon_rig).values()


async def test_the_command_explains_a_line_down_to_the_edit_that_led_to_it(live: Live, vault: Path):
    write(vault, GRAPH)
    async with live() as daemon_rig:
        run = await follow(daemon_rig, "- sow")
        lines = (vault / B).read_text("utf-8").splitlines()
        number = lines.index("  - sow") + 1
        reported = await ask(f"b/AGENTS.md:{number}")
        title = await ask(f"b/AGENTS.md:{lines.index('# b') + 1}")
        whole = await ask("b/AGENTS.md")

        assert [(line["number"], line["text"], line["run"]) for line in reported["lines"]] == [
            (number, "  - sow", run)
        ]
        assert reported["runs"][run]["causes"][0]["path"] == "a/AGENTS.md"
        assert [(line["by"], line["run"]) for line in title["lines"]] == [("person", None)]
        assert [line["text"] for line in whole["lines"]] == lines
