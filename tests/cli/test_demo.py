from __future__ import annotations

import os
from pathlib import Path

from tests.cli.command_line import CommandLine

STEPS = ["A vault in ", "$ parachute bubble plan ", "\n1. edit ", "\n2. queued ", "\n3. run "]
STEPS += ["  + ", "\n4. why ", "curator (offline)", "\n5. undo ", "That is the whole loop."]


def ours(command_line: CommandLine) -> list[str]:
    """The processes that have this test's folder in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(command_line.folder) in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_the_demo_shows_what_follows_from_what_and_leaves_nothing_behind(
    command_line: CommandLine,
):
    temporary = command_line.folder / "temporary"
    temporary.mkdir()
    said = command_line.does("demo", TMPDIR=str(temporary))

    place = 0
    for step in STEPS:
        place = said.find(step, place)
        assert place >= 0, (step, said)
    assert list(temporary.iterdir()) == []
    command_line.until(lambda: not ours(command_line))


def test_it_keeps_its_vault_when_asked_and_minds_no_setting_of_the_person(
    command_line: CommandLine,
):
    temporary = command_line.folder / "temporary"
    temporary.mkdir()
    said = command_line.does(
        "demo", "--keep", TMPDIR=str(temporary), PARACHUTE_PORT="1", PARACHUTE_VAULT="/nowhere"
    )

    (kept,) = temporary.iterdir()
    assert f"kept in {kept / 'Parachute'}" in said
    assert "frost" in (kept / "Parachute/Projects/garden/AGENTS.md").read_text("utf-8")
    assert list(command_line.home.iterdir()) == []
