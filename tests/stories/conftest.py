"""What several files of stories share."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.stories.restart_rig import crashing_program


@pytest.fixture(scope="session")
def program() -> Iterator[subprocess.Popen[bytes]]:
    """The program in which daemons die at a chosen step."""
    with crashing_program() as program:
        yield program
