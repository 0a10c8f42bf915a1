import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import parachuted.agents.sandbox.inside as subject
from parachuted.agents.sandbox.inside import main

SOURCE = Path(subject.__file__).read_text()


def ended(tmp_path, *command, data=b"", mark="abc\n"):
    """What it printed, said on stderr, and ended with."""
    (tmp_path / "mark").write_text(mark.strip())
    instructions = {"command": command, "mark": str(tmp_path / "mark"), "relay": None}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", SOURCE, json.dumps(instructions)],
        input=data,
        capture_output=True,
        env={"A": "b", "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        timeout=30,
        check=False,
    )
    return done.stdout, done.stderr, done.returncode


@pytest.mark.parametrize(
    ("command", "out", "complaint", "code"),
    [
        (("sh", "-c", "echo $A; cat; exit 5"), b"abc\nb\ninput", b"", 5),
        (("no-such-program",), b"abc\n", b"could not be started", 127),
        (("sh", "-c", "kill -KILL $$"), b"abc\n", b"", 137),
        (("sh", "-c", "(sleep 0.1; exit 9) & exit 3"), b"abc\n", b"", 3),
    ],
)
def test_it_prints_the_mark_and_ends_with_its_program(tmp_path, command, out, complaint, code):
    printed, said, ended_with = ended(tmp_path, *command, data=b"input")

    assert (printed, ended_with) == (out, code)
    assert complaint in said


def test_it_is_one_text_that_imports_nothing_of_ours():
    assert callable(main)
    assert "parachuted" not in SOURCE
