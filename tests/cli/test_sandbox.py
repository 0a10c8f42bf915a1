"""`parachute sandbox`: made and tried without a daemon."""

from __future__ import annotations

import json


def test_without_an_engine_the_doctor_says_what_to_install(command_line, tmp_path):
    nowhere = {"DOCKER_HOST": f"unix://{tmp_path}/none"}
    done = command_line("sandbox", "doctor", **nowhere)
    assert (done.returncode, done.stderr) == (1, "")
    assert "NOT WELL  no Docker engine" in done.stdout
    built = command_line("sandbox", "build", "--offline", **nowhere)
    for said in (done.stdout, built.stderr):
        assert "install and start Docker" in said


def test_the_image_is_made_offline_and_the_doctor_finds_all_well(command_line, engine, tmp_path):
    """Where the daemon that runs sees no engine, it tells that too."""
    well, nowhere = "Agents with a shell can run here (Docker ", f"unix://{tmp_path}/none"
    built = command_line.does("sandbox", "build", "--offline", **engine)
    assert "made parachute-sandbox:host" in built
    found = json.loads(command_line.does("sandbox", "doctor", "--json", **engine))
    assert found["available"], found
    assert well in command_line.does("sandbox", "doctor", **engine)

    command_line.start(DOCKER_HOST=nowhere)
    said = command_line.does("sandbox", "doctor", **engine)
    assert well in said
    differs = f"note      not with the daemon that runs: no Docker engine answers at {nowhere};"
    assert differs in said
    assert "`parachute restart` from here gives it yours" in said
