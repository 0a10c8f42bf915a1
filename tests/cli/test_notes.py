"""Notes found, read and made at a terminal."""

from __future__ import annotations

import subprocess

from tests.cli.command_line import PARACHUTE, CommandLine


def test_a_note_is_made_found_and_read(running: CommandLine):
    facts = "## Facts\n- tall\n\n### Deeper\n- x\n"
    text = f"# Stilts\n\nThe zanzibar walk.\n\n{facts}## End"
    assert running.does("new", "Inbox/Stilts", text) == "Made Inbox/Stilts.md.\n"
    running.until(lambda: running.json("search", "zanzibar")["results"])

    found = running.does("search", "zanzibar", "--in", "Inbox")
    assert "Inbox/Stilts.md\n    # Stilts The zanzibar walk." in found
    assert running.does("search", "zanzibar", "--in", "Projects") == "No note was found.\n"
    assert running.does("read", "Inbox/Stilts.md").endswith("- x\n## End\n")
    assert running.does("read", "Inbox/Stilts", "--section", "facts") == facts
    assert running.json("read", "Inbox/Stilts")["title"] == "Stilts"


def test_what_is_there_is_not_replaced_and_what_is_not_there_is_said(running: CommandLine):
    running.does("new", "Inbox/Once")

    assert running.does("read", "Inbox/Once") == "# Once\n"
    assert "exists with other content" in running.fails(1, "new", "Inbox/Once", "other")
    assert running.does("read", "Inbox/Once") == "# Once\n"
    assert "Inbox/Never.md" in running.fails(1, "read", "Inbox/Never")
    assert "has no section Facts" in running.fails(1, "read", "Inbox/Once", "--section", "Facts")


def test_reading_a_folder_names_its_context_file_and_how_to_read_it(running: CommandLine):
    how = "`parachute read Projects/garden/AGENTS.md` shows its context file"
    said = running.fails(1, "read", "Projects/garden")
    assert f"Projects/garden is a folder; {how}" in said
    assert how in running.fails(1, "read", "Projects/garden/", "--json")
    (running.vault / "My Plans").mkdir()

    said = running.fails(1, "read", "My Plans")

    assert "My Plans is a folder and has no context file (AGENTS.md or CLAUDE.md)" in said
    assert "`parachute search WORDS --in 'My Plans'`" in said


def test_a_note_is_made_of_what_comes_in(running: CommandLine):
    done = subprocess.run(
        [*PARACHUTE, "new", "Inbox/Piped", "-"],
        env=running.env(),
        input="from a pipe",
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "Made Inbox/Piped.md.\n"
    assert running.does("read", "Inbox/Piped") == "from a pipe\n"
