from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from parachuted.cli.demo import ENTRY, ON_THE_PAGE, QUESTION
from parachuted.cli.demo_story import FACT, LINE, MET, OVERVIEW
from tests.cli.command_line import CommandLine

LOOP = ["A vault in ", "$ parachute bubble plan ", "\n1. edit ", "\n2. queued ", "\n3. run "]
LOOP += ["  + ", "\n4. why ", "curator (offline)", "\n5. undo ", "That is the whole loop."]
JOURNAL = ["\n1. entry ", "\n2. mention ", "\n3. run        Projects/garden"]
JOURNAL += ["\n4. run        AGENTS.md: changed", "kim-lee.md): given an id", "\n5. undo "]
STORY = ["agents_path: ~/Projects/parachute/CLAUDE.md", "$ parachute config set agent.own_folders "]
STORY += ["\n2. entry ", "daily.entry.created[0]", "\n3. mention ", "\n4. entity ", "\n5. project "]
STORY += [MET, "\n6. parent ", OVERVIEW, "\n7. chat ", "\n8. write-back ", FACT, LINE, "\n9. why "]
STORY += ["since Brain/entities/people/", "\n10. undo ", "Taken back: 2 runs", MET]
BOT = ["\n1. add ", "Connected as @notes:demo", "\n2. pair ", "Kim < ", "Your code is"]
BOT += ["Kim (@kim:demo) may talk", "\n3. answer ", f"Kim > {QUESTION}", "what your notes say"]
BOT += ["\n4. file ", "linked_bot_platform: matrix", "\n5. journal ", ENTRY, "\n6. elsewhere "]
BOT += [f"Kim < On the page: {ON_THE_PAGE}", "\n7. stranger ", "Bo < ", "stays a stranger"]
BOT += ["\n8. remove ", "Matrix: direct message"]


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


@pytest.mark.parametrize(
    ("which", "steps"),
    [([], LOOP), (["--journal"], JOURNAL), (["--story"], STORY), (["--bot"], BOT)],
    ids=["loop", "journal", "story", "bot"],
)
def test_a_demo_shows_what_follows_from_what_and_leaves_nothing_behind(
    command_line: CommandLine, which: list[str], steps: list[str]
):
    temporary = command_line.folder / "temporary"
    temporary.mkdir()
    said = command_line.does("demo", *which, TMPDIR=str(temporary))

    assert not re.search(r"\b[0-9a-f]{32}\b", said)  # a bot's token
    place = 0
    for step in steps:
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
