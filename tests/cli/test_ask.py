"""What the daemon watches, did and why, and taking it back, at a terminal."""

from __future__ import annotations

import json
import re

import pytest

from parachuted.cli import main
from tests.cli.command_line import CommandLine

GARDEN = "Projects/garden/AGENTS.md"


def line_of(command_line: CommandLine, text: str) -> int:
    lines = (command_line.vault / "AGENTS.md").read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("chain", "kind", "says"),
    [
        ([], "change", "your change of A.md at"),
        ([], "request", "your request to look at A.md at"),
        ([{"watcher": "B.md"}], "change", "your change of A.md at"),
        ([{"watcher": "B.md"}, {"watcher": "A.md"}], "change", "your change at"),
        ([{"watcher": "A.md"}, {"watcher": "B.md"}], "change", "your change of A.md at"),
    ],
)
def test_a_file_that_a_run_wrote_is_not_what_a_person_changed(
    chain, kind, says, monkeypatch, capsys
):
    cause = {"id": "c-1", "kind": kind, "path": "A.md", "at": "2026-01-06T12:00:00Z"}
    run = {"id": "r-1", "agent": "curator", "backend": "offline", "model": "", "cost_usd": 0.0}
    run |= {
        "reason": "updated",
        "reviewed": [],
        "causes": [cause],
        "undone": None,
        "watcher": "C.md",
    }
    shown = [{"id": "r-0", "agent": "module:brain", "reason": "on created", **one} for one in chain]
    answer = {"lines": [], "runs": {"r-1": run}, "chains": {"r-1": shown}}
    monkeypatch.setattr("parachuted.cli.ask.ask", lambda _call: answer)
    monkeypatch.setattr("parachuted.cli.ask.in_vault", str)

    assert main(["why", "C.md"]) == 0
    assert f"  started by {says} 2026-01-06 12:00:00 UTC (c-1)" in capsys.readouterr().out


def test_every_listing_is_a_text_and_with_json_a_document(running: CommandLine):
    run = running.json("runs")["runs"][0]["id"]
    listings = [["status"], ["watches"], ["tasks"], ["runs"], ["runs", run], ["why", "AGENTS.md"]]
    listings += [["bubble", "plan", GARDEN], ["doctor"], ["vault"], ["config"], ["auth", "status"]]
    for words in listings:
        assert len(running.does(*words)) > 10
        assert isinstance(json.loads(running.does(*words, "--json")), (dict, list))


def test_watches_and_runs_tell_who_watches_what_was_done_and_written(running: CommandLine):
    (run,) = running.json("runs")["runs"]
    row = r"^AGENTS\.md +Projects/\*, Areas/\* +\d"
    assert re.search(row, running.does("watches"), re.MULTILINE)
    row = rf"^{run['id']} .* AGENTS\.md +changed +\$0\.0000 "
    assert re.search(row, running.does("runs", "-n", "1"), re.MULTILINE)
    whole = running.does("runs", run["id"])
    assert f"reviewed {GARDEN}: modified" in whole
    assert "+  - Plant the tomatoes out" in whole
    assert "\x1b" not in whole


def test_plan_and_why_take_a_path_in_the_vault_or_on_the_disk(running: CommandLine, tmp_path):
    vault, number = running.vault, line_of(running, "Plant the tomatoes")
    (tmp_path / "link").symlink_to(vault)
    for spelling, cwd in (
        ("AGENTS.md", tmp_path),
        (str(vault / "AGENTS.md"), tmp_path),
        (f"{tmp_path}/link/AGENTS.md", tmp_path),
        ("link/AGENTS.md", tmp_path),
        ("./AGENTS.md", vault),
        ("../AGENTS.md", vault / "Projects"),
        ("AGENTS.md", vault),
    ):
        assert "curator" in running.does("why", f"{spelling}:{number}", cwd=cwd), spelling
    for spelling in ("AGENTS.md", GARDEN):
        said = running.does("bubble", "plan", spelling, cwd=vault / "Projects/garden")
        assert said.startswith(f"A change of {GARDEN} ")
    quiet = "A change of Welcome.md wakes no note and costs nothing.\n"
    assert running.does("bubble", "plan", "Welcome.md") == quiet
    odd = vault / "b\udcff.md"
    odd.write_bytes(b"# Odd\n")
    running.until(lambda: running("why", "b\udcff.md").returncode == 0)
    assert "# Odd" in running.does("why", str(odd))
    assert running.does("bubble", "plan", str(odd)).startswith("A change of b\\xff.md ")


def test_why_tells_who_wrote_each_line_and_how_to_take_it_back(running: CommandLine):
    (run,) = running.json("runs")["runs"]
    whole = running.does("why", "AGENTS.md")
    part = running.does("why", f"AGENTS.md:{line_of(running, 'Plant the tomatoes')}")

    assert re.search(r"^ +1  you  ", whole, re.MULTILINE)
    assert f"parachute undo {run['id']}" in part
    assert "sha256" not in whole + part
    assert re.search(r'"prompt_digest": "[0-9a-f]{64}"', running.does("why", "AGENTS.md", "--json"))
    assert f"your change of {GARDEN}" in part
    assert part.count("\n") < whole.count("\n")


def test_what_is_not_there_is_said_in_a_sentence(running: CommandLine):
    for words, says in (
        (["runs", "r-none"], "there is no run r-none; `parachute runs` lists them"),
        (["undo", "r-none"], "there is no run r-none; `parachute runs` lists them"),
        (["undo", "../.."], ""),
        (["undo", "--session", "none", "--yes"], "there is no conversation none; the frontmatter"),
        (["bubble", "run", "README.md"], "nothing watches"),
        (["why", "/etc/passwd"], "is not in the vault"),
        (["why", "../../x"], "is not in the vault"),
        (["why", "none.md"], "not in the vault"),
        (["why", "AGENTS.md:0"], "line"),
        (["why", "AGENTS.md:99999"], "line"),
        (["why", "AGENTS.md:999999999999999"], "line"),
        (["runs", "\x1b[31m"], ""),
    ):
        complaint = running.fails(1, *words)
        assert complaint.startswith("parachute: ")
        assert says in complaint
        assert "\x1b" not in complaint


def test_pausing_holds_runs_back_until_they_may_begin_again(command_line: CommandLine):
    command_line.does("init", str(command_line.vault / "new"))
    command_line.does("start", "--port", "0", PARACHUTE_BUBBLE_QUIET_S="0.05")
    garden, note = f"new/{GARDEN}", command_line.vault / "new/AGENTS.md"
    before = note.read_bytes()
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

    shown = command_line.does("why", GARDEN)
    assert "\\x1b[31mred\\x07 tomatoes" in shown
    assert "\\u202e" in shown
    shown += command_line.does("why", "AGENTS.md") + command_line.does("runs", run)
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)

    plan = command_line("undo", run)
    assert (plan.returncode, plan.stderr) == (1, ""), "without a terminal it only shows the plan"
    assert run in plan.stdout
    assert "This is in 1 file." in plan.stdout
    assert json.loads(command_line("undo", run, "--json").stdout)["plan"]["paths"] == ["AGENTS.md"]
    assert note.read_bytes() != before
    assert "Taken back: 1 run; changed AGENTS.md." in command_line.does("undo", run, "--yes")
    assert note.read_bytes() == before
    assert "(undone)" in command_line.does("runs")
    assert "\nundone   2" in command_line.does("runs", run)
    assert "Asked: 1 task queued" in command_line.does("bubble", "run", GARDEN)


def test_the_doctor_names_each_note_with_its_reason_and_what_to_do(
    command_line: CommandLine,
):
    (command_line.vault / "broken.md").write_bytes(b"---\na: [1\n---\n# Broken\n")
    (command_line.vault / "latin.md").write_bytes(b"# \xe9t\xe9\n")
    (command_line.vault / "w\x1b.md").write_bytes(b"x")
    (command_line.vault / "watch.md").write_bytes(b"---\nwatch: ['../../etc/*']\n---\n# W\n")
    command_line.start()
    done = command_line("doctor")

    for name in ("broken.md", "latin.md", "watch.md"):
        assert re.search(rf"^note     {name}: .{{10}}", done.stdout, re.MULTILINE), done.stdout
    assert "\x1b" not in done.stdout
    size = r"^history  \d+ writes? .*take \d+\.\d MB$"
    assert re.search(size, done.stdout, re.MULTILINE)
    assert done.returncode == (1 if "problem" in done.stdout else 0)
    assert command_line("doctor", "--json").returncode == done.returncode


@pytest.mark.parametrize(
    "words",
    [
        *("status", "status --json", "watches", "tasks", "runs", "runs x", "bubble plan x"),
        *("bubble run x", "why x:1", "undo x", "doctor", "pause", "resume", "stop"),
        *("contexts migrate", "agents list", "search x", "modules list", "hooks list", "usage"),
    ],
)
def test_without_a_daemon_the_code_is_three(command_line: CommandLine, words: str):
    assert "no daemon is running" in command_line.fails(3, *words.split()).lower()
