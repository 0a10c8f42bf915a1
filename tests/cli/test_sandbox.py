"""`parachute sandbox`: made and tried without a daemon."""

from __future__ import annotations

import json

import pytest

from tests.cli.typed import Typed


@pytest.fixture
def typed(home, vault, tmp_path):
    return Typed(home=home, vault=vault, folder=tmp_path)


def test_without_an_engine_the_doctor_says_what_to_install(typed, tmp_path):
    done = typed("sandbox", "doctor", DOCKER_HOST=f"unix://{tmp_path}/none")

    assert (done.returncode, done.stderr) == (1, "")
    assert "NOT WELL  engine" in done.stdout
    assert "install and start Docker" in done.stdout
    assert (
        "install and start Docker"
        in typed("sandbox", "build", "--offline", DOCKER_HOST=f"unix://{tmp_path}/none").stderr
    )


def test_the_image_is_made_offline_and_the_doctor_finds_all_well(typed, engine):
    assert "made parachute-sandbox:host" in typed.does("sandbox", "build", "--offline", **engine)

    found = json.loads(typed.does("sandbox", "doctor", "--json", **engine))

    assert found["is_well"], found
    assert "Agents with a shell can run here." in typed.does("sandbox", "doctor", **engine)


def test_where_the_daemon_that_runs_sees_no_engine_the_doctor_tells_that_too(
    typed, engine, tmp_path
):
    typed.does("sandbox", "build", "--offline", **engine)
    typed.does(
        "start", "--vault", str(typed.vault), "--port", "0", DOCKER_HOST=f"unix://{tmp_path}/none"
    )
    try:
        told = typed.does("sandbox", "doctor", **engine)
    finally:
        typed.does("stop")

    assert "Agents with a shell can run here." in told
    assert (
        f"note      not with the daemon that runs: no Docker engine answers at unix://{tmp_path}/none;"
        in told
    )
    assert "`parachute restart` from here gives it yours" in told
