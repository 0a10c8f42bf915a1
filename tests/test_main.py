"""`python -m parachuted` is the command."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from parachuted import __version__
from parachuted.cli import main


def test_the_module_is_the_command(home):
    done = subprocess.run(
        [sys.executable, "-m", "parachuted", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"parachuted {__version__}\n")
    done = subprocess.run(
        [sys.executable, "-m", "parachuted", "status"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")


def test_a_python_that_leaves_docstrings_out_is_told_what_to_do(home):
    words = [sys.executable, "-OO", "-m", "parachuted", "config", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "unset PYTHONOPTIMIZE" in done.stderr) == (1, True)


def test_so_is_the_script(home):
    script = shutil.which("parachute", path=str(Path(sys.executable).parent))
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"parachuted {__version__}\n")


def test_a_file_that_may_not_be_read_or_written_is_named_in_a_sentence(
    home, monkeypatch: pytest.MonkeyPatch, capsys
):
    def refuse(*_given: object) -> None:
        raise PermissionError(13, "Permission denied", "/notes/mine")

    monkeypatch.setattr("parachuted.cli._run", refuse)

    assert main(["auth", "set", "ANTHROPIC_API_KEY"]) == 1
    assert capsys.readouterr().err == "parachute: /notes/mine: Permission denied\n"
