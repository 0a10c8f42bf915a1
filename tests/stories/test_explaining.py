"""Explaining: for each line of a living note, who wrote it and what led to that."""

from __future__ import annotations

import json
from pathlib import Path

from parachuted.history import Why
from parachuted.vault import VaultPath
from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import DaemonRig, Live, save
from tests.stories.graphs import touch_up, write

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


async def test_each_line_is_its_writers_through_edits_and_an_undo(
    live: Live, vault: Path, home: Path
):
    command_line = CommandLine(home=home, vault=vault, folder=vault.parent)

    async def ask(place: str) -> dict:
        return json.loads(await command_line.tells("why", place, "--json"))

    write(vault, GRAPH)
    async with live() as daemon_rig:
        first = await follow(daemon_rig, "- sow")
        assert (authors(daemon_rig)["# b"], authors(daemon_rig)["  - sow"]) == ("person", first)

        lines = (vault / B).read_text("utf-8").splitlines()
        number = lines.index("  - sow") + 1
        answer = await ask(f"b/AGENTS.md:{number}")
        title = await ask(f"b/AGENTS.md:{lines.index('# b') + 1}")
        whole = await ask("b/AGENTS.md")
        (line,) = answer["lines"]
        assert (line["number"], line["text"], line["run"]) == (number, "  - sow", first)
        assert answer["runs"][first]["causes"][0]["path"] == "a/AGENTS.md"
        assert [(line["by"], line["run"]) for line in title["lines"]] == [("person", None)]
        assert [line["text"] for line in whole["lines"]] == lines

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

        # what a person makes of a run's line is the person's
        save(vault / B, (vault / B).read_text("utf-8").replace("  - sow", "  - sow, but late"))
        await daemon_rig.settled()
        reported = authors(daemon_rig)
        assert reported["  - sow, but late"] == "person"
        assert first in reported.values()
