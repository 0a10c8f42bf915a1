"""What tests of Daily share."""

from __future__ import annotations

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


@pytest.fixture
def spoken_words(tmp_path: Path) -> Path:
    """A recording, as its first bytes say."""
    path = tmp_path / "words.wav"
    path.write_bytes(
        b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80>\0\0\0}\0\0\2\0\x10\0data\0\0\0\0"
    )
    return path


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[ModuleHarness]:
    """Daily in an empty vault."""
    async with daily(tmp_path) as module:
        yield module
