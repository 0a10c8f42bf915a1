"""The commands that a running daemon answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine

GARDEN = "Projects/garden/AGENTS.md"


def line_of(command_line: CommandLine, text: str) -> int:
    lines = (command_line.vault / "AGENTS.md").read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_every_listing_is_a_table_and_with_json_a_document(running: CommandLine):
    listings = [
        ("status",),
        ("watches",),
        ("tasks",),
        ("runs",),
        ("bubble", "plan", GARDEN),
        ("why", "AGENTS.md"),
        ("doctor",),
    ]
    listings += [
        ("runs", running.json("runs")["runs"][0]["id"]),
        ("vault",),
        ("config",),
        ("auth", "status"),
    ]
    for words in listings:
        assert len(running.does(*words)) > 10
        assert isinstance(json.loads(running.does(*words, "--json")), (dict, list))


def test_watches_tells_who_watches_what(running: CommandLine):
    assert re.search(
        r"^AGENTS\.md +Projects/\*, Areas/\* +\d", running.does("watches"), re.MULTILINE
    )


def test_runs_tells_what_was_done_and_one_run_what_was_written(running: CommandLine):
    (run,) = running.json("runs")["runs"]
    assert re.search(
        rf"^{run['id']} .* AGENTS\.md +changed +\$0\.0000 ",
        running.does("runs", "-n", "1"),
        re.MULTILINE,
    )
    whole = running.does("runs", run["id"])
    assert f"reviewed {GARDEN}: modified" in whole
    assert "+  - Plant the tomatoes out" in whole
    assert "\x1b" not in whole


def test_plan_and_why_take_a_path_in_the_vault_or_on_the_disk(running: CommandLine, tmp_path):
    vault, number = running.vault, line_of(running, "Plant the tomatoes")
    (tmp_path / "link").symlink_to(vault)
    spellings: list[tuple[str, Path]] = [
        ("AGENTS.md", tmp_path),
        (str(vault / "AGENTS.md"), tmp_path),
        (f"{tmp_path}/link/AGENTS.md", tmp_path),
        ("link/AGENTS.md", tmp_path),
        ("./AGENTS.md", vault),
        ("../AGENTS.md", vault / "Projects"),
        ("AGENTS.md", vault),
    ]
    for spelling, cwd in spellings:
        assert "curator" in running.does("why", f"{spelling}:{number}", cwd=cwd), spelling
    assert running.does("bubble", "plan", "AGENTS.md", cwd=vault / "Projects/garden").startswith(
        f"A change of {GARDEN} "
    )
    assert running.does("bubble", "plan", GARDEN, cwd=vault / "Projects/garden").startswith(
        f"A change of {GARDEN} "
    )
    assert (
        running.does("bubble", "plan", "Welcome.md")
        == "A change of Welcome.md wakes no note and costs nothing.\n"
    )
    assert "is not in the vault" in running.fails(1, "why", "/etc/passwd")
    assert "is not in the vault" in running.fails(1, "why", "../../x")


def test_why_tells_who_wrote_each_line_and_how_to_take_it_back(running: CommandLine):
    (run,) = running.json("runs")["runs"]
    whole, one = (
        running.does("why", "AGENTS.md"),
        running.does("why", f"AGENTS.md:{line_of(running, 'Plant the tomatoes')}"),
    )

    assert re.search(r"^ +1  you  ", whole, re.MULTILINE)
    assert f"parachute undo {run['id']}" in one
    assert "sha256" not in whole + one
    assert re.search(r'"prompt_digest": "[0-9a-f]{64}"', running.does("why", "AGENTS.md", "--json"))
    assert f"your change of {GARDEN}" in one
    assert one.count("\n") < whole.count("\n")
    for wrong in ("AGENTS.md:0", "AGENTS.md:99999", "AGENTS.md:999999999999999"):
        assert "line" in running.fails(1, "why", wrong)
    assert "not in the vault" in running.fails(1, "why", "none.md")


def test_what_is_not_there_is_said_in_a_sentence(running: CommandLine):
    assert (
        running.fails(1, "runs", "r-none")
        == "parachute: there is no run r-none; `parachute runs` lists them\n"
    )
    assert (
        running.fails(1, "undo", "r-none")
        == "parachute: there is no run r-none; `parachute runs` lists them\n"
    )
    assert running.fails(1, "undo", "../..").startswith("parachute: ")
    assert "nothing watches" in running.fails(1, "bubble", "run", "README.md")
    assert "\x1b" not in running.fails(1, "runs", "\x1b[31m")


def test_a_file_that_is_not_utf8_can_be_asked_about(running: CommandLine):
    odd = running.vault / "b\udcff.md"
    odd.write_bytes(b"# Odd\n")
    running.until(lambda: running("why", "b\udcff.md").returncode == 0)
    assert "# Odd" in running.does("why", str(odd))
    assert running.does("bubble", "plan", str(odd)).startswith("A change of b\\xff.md ")


def test_pausing_holds_runs_back_until_they_may_begin_again(command_line: CommandLine):
    command_line.does("init", str(command_line.vault / "new"))
    command_line.does("start", "--port", "0", PARACHUTE_BUBBLE_QUIET_S="0.05")
    garden = "new/Projects/garden/AGENTS.md"
    before = (command_line.vault / "new/AGENTS.md").read_bytes()
    assert "Paused" in command_line.does("pause")
    assert "PAUSED" in command_line.does("status")
    command_line.save(garden, "Start the tomatoes indoors", "Plant \x1b[31mred\x07 tomatoes \u202e")
    command_line.until(lambda: command_line.json("tasks")["tasks"])
    assert "Paused" in command_line.does("tasks")
    assert "AGENTS.md has not seen all" in command_line.does("status")
    command_line.does("resume")
    command_line.until(
        lambda: command_line.json("runs")["runs"] and not command_line.json("tasks")["tasks"]
    )
    run = command_line.json("runs")["runs"][0]["id"]

    shown = [
        command_line.does("why", "AGENTS.md"),
        command_line.does("why", garden.removeprefix("new/")),
        command_line.does("runs", run),
    ]
    assert "\\x1b[31mred\\x07 tomatoes" in shown[1]
    assert "\\u202e" in shown[1]
    assert not {"\x1b", "\x07", "\u202e"} & set("".join(shown))

    plan = command_line("undo", run)
    assert (plan.returncode, plan.stderr) == (1, ""), "without a terminal it only shows the plan"
    assert run in plan.stdout
    assert "This is in 1 file." in plan.stdout
    assert json.loads(command_line("undo", run, "--json").stdout)["plan"]["paths"] == ["AGENTS.md"]
    assert (command_line.vault / "new/AGENTS.md").read_bytes() != before
    assert "Taken back: 1 run; changed AGENTS.md." in command_line.does("undo", run, "--yes")
    assert (command_line.vault / "new/AGENTS.md").read_bytes() == before
    assert "(undone)" in command_line.does("runs")
    assert "\nundone   2" in command_line.does("runs", run)
    assert "Asked: 1 task queued" in command_line.does("bubble", "run", garden.removeprefix("new/"))
    command_line.does("stop")


def test_an_undone_migration_says_what_stayed_and_why_does_not_advise_to_undo_it_again(
    command_line: CommandLine,
):
    old = command_line.vault / "Chat/contexts/attic.md"
    old.parent.mkdir(parents=True)
    old.write_text("# Attic\n", "utf-8")
    command_line.does("start", "--vault", str(command_line.vault), "--port", "0")
    command_line.does("contexts", "migrate", "--apply")
    before = command_line.does("why", "Projects/attic/AGENTS.md")
    command_line.save("Projects/attic/AGENTS.md", "# Attic\n", "# Attic\n\nLater.\n")
    run = command_line.json("runs")["runs"][0]["id"]
    undone = command_line.does("undo", run, "--yes")
    after = command_line.does("why", "Projects/attic/AGENTS.md")

    assert before.endswith(f"  take it back with: parachute undo {run}\n")
    assert (
        "Kept in Projects/attic/AGENTS.md, which was written to later:\n  the new file has been "
        "edited since\n" in undone
    )
    assert "prompt sha256" not in before + after
    assert "parachute undo" not in after
    assert "  taken back 2" in after
    assert old.read_text("utf-8") == "# Attic\n"


def test_the_doctor_names_each_note_with_its_reason_and_each_problem_with_what_to_do(
    command_line: CommandLine,
):
    (command_line.vault / "broken.md").write_bytes(b"---\na: [1\n---\n# Broken\n")
    (command_line.vault / "latin.md").write_bytes(b"# \xe9t\xe9\n")
    (command_line.vault / "w\x1b.md").write_bytes(b"x")
    (command_line.vault / "watch.md").write_bytes(b"---\nwatch: ['../../etc/*']\n---\n# W\n")
    command_line.does("start", "--vault", str(command_line.vault), "--port", "0")
    done = command_line("doctor")

    for name in ("broken.md", "latin.md", "watch.md"):
        assert re.search(rf"^note     {name}: .{{10}}", done.stdout, re.MULTILINE), done.stdout
    assert "\x1b" not in done.stdout
    assert done.returncode == (1 if "problem" in done.stdout else 0)
    assert command_line("doctor", "--json").returncode == done.returncode


@pytest.mark.parametrize(
    "words",
    [
        *(
            ("status",),
            ("status", "--json"),
            ("watches",),
            ("tasks",),
            ("runs",),
            ("runs", "x"),
            ("bubble", "plan", "x"),
        ),
        *(
            ("bubble", "run", "x"),
            ("why", "x:1"),
            ("undo", "x"),
            ("doctor",),
            ("pause",),
            ("resume",),
            ("stop",),
        ),
    ],
)
def test_without_a_daemon_the_code_is_three(command_line: CommandLine, words):
    assert "no daemon is running" in command_line.fails(3, *words).lower()


def test_undo_of_a_conversation_that_is_not_there_says_where_its_id_stands(running: CommandLine):
    complaint = running.fails(1, "undo", "--session", "none", "--yes")

    assert "there is no conversation none" in complaint
    assert "Chat/sessions/" in complaint
