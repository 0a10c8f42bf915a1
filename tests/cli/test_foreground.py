"""A daemon in the foreground: what it says, and how it ends."""

from __future__ import annotations

import signal
import subprocess

from tests.cli.command_line import CommandLine

GARDEN = "new/Projects/garden/AGENTS.md"
OLD, NEW = "Start the tomatoes indoors", "Plant the tomatoes out"


def begin(command_line: CommandLine, *more: str) -> subprocess.Popen[str]:
    command_line.does("init", str(command_line.vault / "new"))
    process = command_line.begin("start", "--foreground", "--port", "0", *more)
    command_line.until(command_line.started)
    return process


def end(process: subprocess.Popen[str], how: int = signal.SIGTERM) -> str:
    """What it said until it was ended, as it should be."""
    process.send_signal(how)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    return said


def has_changed(command_line: CommandLine) -> bool:
    runs = command_line.json("runs")["runs"]
    return (
        any(run["outcome"] == "changed" for run in runs) and not command_line.json("tasks")["tasks"]
    )


def test_it_tells_what_it_watches_which_agent_and_what_to_do_next(command_line: CommandLine):
    process = begin(command_line)
    command_line.save(GARDEN, OLD, NEW)
    command_line.until(lambda: has_changed(command_line))
    welcome = command_line.vault / "new/Welcome.md"
    welcome.rename(welcome.with_name("Hello.md"))
    command_line.until(
        lambda: "moved from Welcome.md" in command_line("history", "Hello.md").stdout
    )
    process.send_signal(signal.SIGHUP)
    said = end(process, signal.SIGINT)

    for line in (
        "parachuted watches ",
        "  AGENTS.md watches Projects/*, Areas/*",
        "Agent: offline",
        "Modules: none. `parachute modules install parachute://chat --trust trusted` adds ",
        "`parachute://daily` a journal, `parachute://brain` people and projects.",
        "Page and API: http://127.0.0.1:",
        "`parachute open` opens the page",
        "Next: edit ",
        "person changed Projects/garden/AGENTS.md",
        "  AGENTS.md will look at Projects/garden/AGENTS.md",
        "  AGENTS.md: changed, ",
        "person moved Welcome.md to Hello.md",
        "Stopped.",
    ):
        assert line in said
    assert command_line.fails(3, "status")


def test_quiet_it_says_nothing_and_a_save_right_after_a_start_is_noticed(
    command_line: CommandLine,
):
    process = begin(command_line, "--quiet")
    command_line.until(lambda: command_line.json("status")["vault"]["watchers"])
    assert end(process) == ""
    process = command_line.begin("start", "--foreground", "--port", "0", "--quiet")
    command_line.until(command_line.started)
    command_line.save(GARDEN, OLD, NEW)

    assert command_line.json("status")["pid"] == process.pid
    command_line.until(lambda: has_changed(command_line))
    end(process)


def test_no_control_character_reaches_the_terminal_and_problems_are_named(
    command_line: CommandLine,
):
    registry = command_line.home / "modules.yaml"
    registry.write_text("modules:\n  garden: {enabled: true}\n  shed: {enabled: true}\n")
    registry.chmod(0o600)
    process = begin(command_line)
    odd = command_line.vault / "new/a\u202eb.md"
    odd.write_text('---\nwatch: ["\\e[31mx"]\n---\n# T\n', "utf-8")
    command_line.until(lambda: command_line.json("status")["vault"]["watchers"] == 2)
    command_line.until(lambda: "module:shed" in command_line("doctor").stdout)
    said = end(process)

    assert "a\\u202eb.md" in said
    assert "Stopped." in said
    assert not {"\x1b", "\u202e"} & set(said)
    assert "Modules: none" not in said
    for name in ("garden", "shed"):
        assert f"problem with module:{name}: there is no folder {command_line.vault}" in said


def test_it_ends_by_itself_when_it_cannot_begin(command_line: CommandLine):
    (command_line.home / "run").write_text("no folder")
    words = ("start", "--foreground", "--vault", str(command_line.vault), "--port", "0")
    assert "cannot be locked" in command_line.fails(1, *words)
