"""The state that watchers are kept in, and how long others have to wait for the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from parachuted.state import StateStore, open_state


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateStore]:
    state = open_state(tmp_path / "state.db")
    yield state
    state.close()


@asynccontextmanager
async def loop_timed() -> AsyncIterator[Callable[[], float]]:
    """The seconds that the event loop was held at most, inside and at once."""
    longest, is_over = 0.0, False

    async def look_on() -> None:
        nonlocal longest
        before = time.perf_counter()
        while not is_over:
            await asyncio.sleep(0)
            longest, before = max(longest, time.perf_counter() - before), time.perf_counter()

    looking = asyncio.get_running_loop().create_task(look_on(), name="look on")
    yield lambda: longest
    is_over = True
    await looking
