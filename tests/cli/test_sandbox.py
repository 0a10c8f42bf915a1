"""`parachute sandbox`: made and tried without a daemon."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine


@pytest.fixture
def command_line(home, vault, tmp_path):
    return CommandLine(home=home, vault=vault, folder=tmp_path)


def test_without_an_engine_the_doctor_says_what_to_install(command_line, tmp_path):
    done = command_line("sandbox", "doctor", DOCKER_HOST=f"unix://{tmp_path}/none")

    assert (done.returncode, done.stderr) == (1, "")
    assert "NOT WELL  engine" in done.stdout
    assert "install and start Docker" in done.stdout
    assert (
        "install and start Docker"
        in command_line(
            "sandbox", "build", "--offline", DOCKER_HOST=f"unix://{tmp_path}/none"
        ).stderr
    )


def test_the_image_is_made_offline_and_the_doctor_finds_all_well(command_line, engine):
    assert "made parachute-sandbox:host" in command_line.does(
        "sandbox", "build", "--offline", **engine
    )

    found = json.loads(command_line.does("sandbox", "doctor", "--json", **engine))

    assert found["is_well"], found
    assert "Agents with a shell can run here." in command_line.does("sandbox", "doctor", **engine)


def test_the_doctor_tells_where_the_daemon_that_runs_sees_no_engine(command_line, engine, tmp_path):
    command_line.does("sandbox", "build", "--offline", **engine)
    command_line.start(
        DOCKER_HOST=f"unix://{tmp_path}/none",
    )
    try:
        reported = command_line.does("sandbox", "doctor", **engine)
    finally:
        command_line.does("stop")

    assert "Agents with a shell can run here." in reported
    assert (
        f"note      not with the daemon that runs: no Docker engine answers at unix://{tmp_path}/none;"
        in reported
    )
    assert "`parachute restart` from here gives it yours" in reported
