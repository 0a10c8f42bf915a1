import json
import os
import subprocess
import sys
from pathlib import Path

import parachuted.agents.sandbox.inside as subject
from parachuted.agents.sandbox.inside import main

SOURCE = Path(subject.__file__).read_text()


def started(tmp_path):
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", SOURCE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def frame(*command, env=None, cwd="/"):
    reported = json.dumps(
        {"command": command, "env": env or {"PATH": os.environ["PATH"]}, "cwd": cwd, "relay": None}
    ).encode()
    return len(reported).to_bytes(4, "big") + reported


def test_it_says_what_it_sees_before_it_is_asked_anything(tmp_path):
    (tmp_path / ".slot").write_text("abc")

    with started(tmp_path) as process:
        hello = json.loads(process.stdout.readline())
        process.communicate(b"", timeout=30)

    at = tmp_path.stat()
    assert hello == {
        "uid": os.getuid(),
        "mounts": {str(tmp_path): [at.st_dev, at.st_ino]},
        "slot": "abc",
    }
    assert process.returncode == 0


def test_the_program_gets_its_environment_its_folder_and_all_input_after_the_frame(tmp_path):
    with started(tmp_path) as process:
        process.stdout.readline()
        reported = frame(
            "sh", "-c", "pwd; echo $A; cat; exit 5", env={"A": "b", "PATH": "/usr/bin:/bin"}
        )
        out, _ = process.communicate(reported + b"input", timeout=30)

    assert out == b"/\nb\ninput"
    assert process.returncode == 5


def test_a_program_that_is_not_there_is_reported(tmp_path):
    with started(tmp_path) as process:
        process.stdout.readline()
        _, said = process.communicate(frame("no-such-program"), timeout=30)

    assert b"could not be started" in said
    assert process.returncode == 127


def test_a_program_that_was_killed_ends_as_a_shell_would_say(tmp_path):
    with started(tmp_path) as process:
        process.stdout.readline()
        process.communicate(frame("sh", "-c", "kill -KILL $$"), timeout=30)

    assert process.returncode == 137


def test_it_is_one_text_that_imports_nothing_of_ours():
    assert callable(main)
    assert "parachuted" not in SOURCE
