"""Contexts: the command that moves an older program's context files, typed as a person types it."""

from __future__ import annotations

from tests.cli.command_line import CommandLine


def test_the_plan_is_shown_first_then_done_then_undone(command_line: CommandLine):
    vault, text = command_line.vault, "# Old garden\n\n## Plans\n- beans\n"
    old, garden = vault / "Chat/contexts/garden-context.md", vault / "Projects/garden/AGENTS.md"
    old.parent.mkdir(parents=True)
    old.write_text(text)
    command_line.start()

    plan = command_line.does("contexts", "migrate")
    assert "Chat/contexts/garden-context.md  move  Projects/garden/AGENTS.md" in plan
    assert "Nothing was changed" in plan
    assert old.exists()

    done = command_line.does("contexts", "migrate", "--apply")
    assert garden.read_text() == text
    assert not old.exists()
    again = command_line.does("contexts", "migrate", "--apply")
    assert again == "There are no context files in Chat/contexts.\n"
    run = command_line.json("runs")["runs"][0]["id"]
    assert f"parachute undo {run}" in done
    assert run in command_line.does("runs", run)

    command_line.does("undo", run, "--yes")
    assert not garden.exists()
    assert old.read_text() == text


def test_what_cannot_be_moved_is_reported_and_fails(command_line: CommandLine):
    (command_line.vault / "Chat/contexts").mkdir(parents=True)
    (command_line.vault / "Chat/contexts/general-context.md").write_text("# Old\n")
    (command_line.vault / "AGENTS.md").write_text("# Mine\n")
    command_line.start()

    assert command_line.json("contexts", "migrate")["moves"][0]["action"] == "refuse"
    assert "is there already" in command_line("contexts", "migrate", "--apply").stdout
    command_line.fails(1, "contexts", "migrate", "--apply")
