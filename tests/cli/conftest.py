"""The command: typed as a person types it, against a daemon in a process of its own, in a home and
a vault of this test.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.typed import Typed


@pytest.fixture
def typed(home: Path, vault: Path, tmp_path: Path) -> Iterator[Typed]:
    """Types commands; what they started is ended with the test."""
    typed = Typed(home=home, vault=vault, folder=tmp_path)
    yield typed
    for pid in typed.started():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    """One daemon for a file of tests that leave it as it is, on a vault made from the template,
    with one run done.
    """
    folder = tmp_path_factory.mktemp("running")
    typed = Typed(
        home=folder / "home",
        vault=folder / "vault",
        folder=folder,
        environ={"PARACHUTE_BUBBLE_QUIET_S": "0.05"},
    )
    typed.does("init", str(typed.vault))
    typed.does("start", "--port", "0")
    typed.save("Projects/garden/AGENTS.md", "Start the tomatoes indoors", "Plant the tomatoes out")
    typed.until(lambda: typed.json("runs")["runs"] and not typed.json("tasks")["tasks"])
    yield typed
    for pid in typed.started():
        os.kill(pid, signal.SIGKILL)
