"""What tests of Daily share."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from parachuted.testing import ModuleHarness
from tests.daily.journal_of import daily


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The daemon's time zone is UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(scope="session")
def spoken_words(tmp_path_factory) -> Path:
    """A recording in which a synthetic voice counts."""
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    path = tmp_path_factory.mktemp("speech") / "words.wav"
    subprocess.run(
        ["espeak-ng", "-v", "en-us", "-s", "130", "-w", path, "one two three four five"], check=True
    )
    return path


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[ModuleHarness]:
    """Daily in an empty vault."""
    async with daily(tmp_path) as module:
        yield module
