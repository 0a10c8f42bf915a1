"""The command: typed as a person types it, against a daemon in a process of its own, in a home and
a vault of this test.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine


@pytest.fixture
def command_line(home: Path, vault: Path, tmp_path: Path) -> Iterator[CommandLine]:
    """Types commands; what they started is ended with the test."""
    command_line = CommandLine(home=home, vault=vault, folder=tmp_path)
    yield command_line
    for pid in command_line.started():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """One daemon for a file of tests that leave it as it is, on a vault made from the template,
    with one run done.
    """
    folder = tmp_path_factory.mktemp("running")
    command_line = CommandLine(
        home=folder / "home",
        vault=folder / "vault",
        folder=folder,
        environ={"PARACHUTE_BUBBLE_QUIET_S": "0.05"},
    )
    command_line.does("init", str(command_line.vault))
    command_line.does("start", "--port", "0")
    command_line.save(
        "Projects/garden/AGENTS.md", "Start the tomatoes indoors", "Plant the tomatoes out"
    )
    command_line.until(
        lambda: command_line.json("runs")["runs"] and not command_line.json("tasks")["tasks"]
    )
    yield command_line
    for pid in command_line.started():
        os.kill(pid, signal.SIGKILL)
