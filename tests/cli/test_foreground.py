"""A daemon in the foreground: what it says, and how it ends."""

from __future__ import annotations

import signal

import pytest

from tests.cli.command_line import CommandLine


def begin(command_line: CommandLine, *more: str):
    command_line.does("init", str(command_line.vault / "new"))
    process = command_line.begin("start", "--foreground", "--port", "0", *more)
    command_line.until(command_line.started)
    return process


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_tells_what_it_watches_which_agent_and_what_to_do_next_and_ends_when_asked(
    command_line: CommandLine, ending
):
    process = begin(command_line)
    command_line.save(
        "new/Projects/garden/AGENTS.md", "Start the tomatoes indoors", "Plant the tomatoes out"
    )
    command_line.until(
        lambda: any(run["outcome"] == "changed" for run in command_line.json("runs")["runs"])
    )
    command_line.until(lambda: not command_line.json("tasks")["tasks"])
    process.send_signal(signal.SIGHUP)
    process.send_signal(ending)
    said, _ = process.communicate(timeout=30)

    assert process.returncode == 0
    for line in (
        *(
            "parachuted watches ",
            "  AGENTS.md watches Projects/*, Areas/*",
            "Agent: offline",
            "Modules: none. `parachute modules install parachute://chat --trust trusted` adds ",
            "`parachute://daily` a journal, `parachute://brain` people and projects.",
            "Page and API: http://127.0.0.1:",
            "`parachute open` opens the page",
            "Next: edit ",
        ),
        *(
            "person changed Projects/garden/AGENTS.md",
            "  AGENTS.md will look at Projects/garden/AGENTS.md",
        ),
        *("  AGENTS.md: changed, ", "Stopped."),
    ):
        assert line in said
    assert command_line.fails(3, "status")


def test_quiet_it_says_nothing(command_line: CommandLine):
    process = begin(command_line, "--quiet")
    process.send_signal(signal.SIGTERM)

    assert process.communicate(timeout=30)[0] == ""
    assert process.returncode == 0


def test_control_characters_in_names_and_notes_do_not_reach_the_terminal(command_line: CommandLine):
    process = begin(command_line)
    (command_line.vault / "new/a\u202eb.md").write_text(
        '---\nwatch: ["\\e[31mx"]\n---\n# T\n', "utf-8"
    )
    command_line.until(lambda: command_line.json("status")["vault"]["watchers"] == 2)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)

    assert "a\\u202eb.md" in said
    assert not {"\x1b", "\u202e"} & set(said)


def test_it_ends_by_itself_when_it_cannot_begin(command_line: CommandLine):
    (command_line.home / "run").write_text("no folder")
    assert "cannot be locked" in command_line.fails(
        1, "start", "--foreground", "--vault", str(command_line.vault), "--port", "0"
    )


def test_a_save_and_a_request_right_after_a_warm_start_are_noticed_and_answered(
    command_line: CommandLine,
):
    process = begin(command_line)
    command_line.until(lambda: command_line.json("status")["vault"]["watchers"])
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    process = command_line.begin("start", "--foreground", "--port", "0", "--quiet")
    command_line.until(command_line.started)
    command_line.save(
        "new/Projects/garden/AGENTS.md", "Start the tomatoes indoors", "Plant the tomatoes out"
    )

    assert command_line.json("status")["pid"] == process.pid
    command_line.until(
        lambda: any(run["outcome"] == "changed" for run in command_line.json("runs")["runs"])
    )
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


def test_modules_that_cannot_start_are_named_with_why(command_line: CommandLine):
    command_line.home.mkdir(exist_ok=True)
    entries = "modules:\n  garden: {enabled: true}\n  shed: {enabled: true}\n"
    (command_line.home / "modules.yaml").write_text(entries)
    (command_line.home / "modules.yaml").chmod(0o600)
    process = begin(command_line)
    command_line.until(lambda: "module:shed" in command_line("doctor").stdout)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert "Modules: none" not in said
    for name in ("garden", "shed"):
        assert f"problem with module:{name}: there is no folder {command_line.vault}" in said
