"""The versions of a file, what a run changed, and a file brought back, at a terminal."""

from __future__ import annotations

import re

from tests.cli.command_line import CommandLine

GARDEN = "Projects/garden/AGENTS.md"
NOTE = "AGENTS.md"


def run_of(command_line: CommandLine) -> str:
    return str(
        next(run["id"] for run in command_line.json("runs")["runs"] if run["agent"] == "curator")
    )


def test_the_versions_of_a_file_are_a_table(running: CommandLine):
    run = run_of(running)
    reported = running.does("history", NOTE, cwd=running.vault)

    assert re.search(
        rf"^[0-9a-f]{{12}} +\d{{4}}-\d\d-\d\d .* curator +\+\d+ -\d+ +{run} +changed$",
        reported,
        re.MULTILINE,
    )
    assert re.search(r"^[0-9a-f]{12} +\(unseen\) +you +\+\d+ -0 +created$", reported, re.MULTILINE)
    assert "parachute restore AGENTS.md@VERSION" in reported
    assert "older: parachute history" in running.does("history", NOTE, "-n", "1")
    assert len(running.json("history", NOTE)["versions"]) > 1
    assert "is not in the vault" in running.fails(1, "history", "nowhere.md")


def test_a_change_of_a_text_that_is_not_known_is_not_counted_in_lines(running: CommandLine):
    first = running.json("history", GARDEN)["versions"][-1]

    assert first == first | {"kind": "changed", "by": "person", "added": None, "removed": None}


def test_the_text_that_a_file_has_is_never_called_gone(running: CommandLine):
    (running.vault / "Seeds.md").write_text("# Seeds\n")
    running.until(lambda: re.search(r":\d\d +you +created", running("history", "Seeds.md").stdout))
    (latest,) = running.json("history", "Seeds.md")["versions"]

    assert not latest["kept"]
    assert "text gone" not in running.does("history", "Seeds.md")


def test_what_a_run_changed_is_shown_file_by_file(running: CommandLine):
    run = run_of(running)
    reported = running.does("diff", run)

    assert reported.startswith(f"AGENTS.md, by {run}\n")
    assert "+  - Plant the tomatoes out" in reported
    assert f"1 run, 1 file. Take it back with: parachute undo {run}" in reported
    assert running.does("diff", run, "--only") == reported
    assert "there is no run r-9" in running.fails(1, "diff", "r-9")


def test_a_file_is_brought_back_and_that_is_taken_back(running: CommandLine):
    run, after = run_of(running), (running.vault / NOTE).read_bytes()
    reported = running.does("restore", f"{NOTE}@{run}", cwd=running.vault)
    assert b"Plant the tomatoes out" not in (running.vault / NOTE).read_bytes()
    running.does("undo", reported.strip().rsplit(" ", 1)[-1], "--yes")
    assert (running.vault / NOTE).read_bytes() == after

    first = running.json("history", NOTE)["versions"][-1]["version"][:12]
    assert f"in version {first}." in running.does("restore", f"./{NOTE}@{first}", cwd=running.vault)
    assert f"parachute restore {NOTE}@VERSION" in running.does("history", NOTE)
    running.does("restore", f"{NOTE}@{run}", "--after")
    assert (running.vault / NOTE).read_bytes() == after
    assert "is so already" in running.does("restore", f"{NOTE}@{run}", "--after")


def test_a_request_that_names_no_version_learns_which_one_does(running: CommandLine):
    assert "FILE@VERSION" in running.fails(1, "restore", NOTE)
    assert "none.tar.gz is not there" in running.fails(1, "restore", "none.tar.gz")
    assert "no run or version r-9" in running.fails(1, "restore", f"{NOTE}@r-9")
    assert "no version fffff" in running.fails(1, "restore", f"{NOTE}@fffff")
    assert "goes with a run" in running.fails(1, "restore", f"{NOTE}@fffff", "--after")
