from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from parachuted.cli.demo_bot import ENTRY, ON_THE_PAGE, QUESTION
from parachuted.cli.demo_story import FACT, LINE, MET, OVERVIEW
from tests.cli.command_line import CommandLine


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


def test_the_demo_shows_the_whole_loop_and_leaves_nothing_behind(command_line: CommandLine):
    temporary = command_line.folder / "temporary"
    temporary.mkdir()
    said = command_line.does("demo", TMPDIR=str(temporary))

    steps = [
        "A vault in ",
        "$ parachute bubble plan ",
        "\n1. You edit ",
        "\n2. noticed ",
        "\n3. queued ",
        "\n4. run ",
    ]
    steps += ["  + ", "\n5. why ", "by curator (offline)", "\n6. undo ", "That is the whole loop."]
    places = [said.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)
    assert list(temporary.iterdir()) == []
    assert ours(command_line) == []


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


JOURNAL = ["\n1. You type ", "\n2. entry ", "\n3. mention ", "\n4. run        Projects/garden"]
JOURNAL += [
    "Kim Lee](../../Brain/entities/people/kim-lee.md): given an id",
    "\n5. run        AGENTS.md: changed",
    "\n6. recall ",
    "Kim Lee, Brain/",
    "\n7. undo ",
]
STORY = ["agents_path: ~/Projects/parachute/CLAUDE.md", "$ parachute config set agent.own_folders "]
STORY += ["\n2. entry ", "daily.entry.created[0]", "\n3. mention ", "\n4. entity ", "\n5. project "]
STORY += [
    MET,
    "\n6. parent ",
    OVERVIEW,
    "\n7. chat ",
    "chat/workspace",
    "\n8. write-back ",
    FACT,
    LINE,
]
STORY += ["\n9. why ", "since Brain/entities/people/", "\n10. undo ", "Taken back: 2 runs", MET]


BOT = ["\n2. add ", "Connected as @notes:demo", "\n3. pair ", "Kim < ", "Your code is"]
BOT += ["No conversations yet", "Kim (@kim:demo) may talk", "\n4. answer ", f"Kim > {QUESTION}"]
BOT += ["what your notes say", "\n5. file ", "linked_bot_platform: matrix", "\n6. journal ", ENTRY]
BOT += ["\n7. elsewhere ", f"Kim < On the page: {ON_THE_PAGE}", "\n8. stranger ", "Bo < "]
BOT += ["stays a stranger", "\n9. remove ", "Matrix: direct message"]


@pytest.mark.parametrize(
    ("which", "steps"), [("--journal", JOURNAL), ("--story", STORY), ("--bot", BOT)]
)
def test_a_demo_shows_what_follows_from_what_step_by_step_and_leaves_nothing_behind(
    command_line: CommandLine, which: str, steps: list[str]
):
    temporary = command_line.folder / "temporary"
    temporary.mkdir()
    said = command_line.does("demo", which, TMPDIR=str(temporary))

    assert not re.search(r"\b[0-9a-f]{32}\b", said)  # a bot's token
    place = 0
    for step in steps:
        place = said.find(step, place)
        assert place >= 0, (step, said)
    assert list(temporary.iterdir()) == []
    assert ours(command_line) == []
