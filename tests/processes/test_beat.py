"""Beat: who looks equally often looks at once."""

import asyncio
from unittest.mock import patch

import pytest

from parachuted.processes.beat import next_beat


@pytest.mark.parametrize(
    ("now", "wakes_at"), [(10.05, 10.5), (10.15, 10.5), (10.499, 10.5), (10.5, 11.0)]
)
async def test_two_that_begin_apart_wake_together_within_a_beat(now, wakes_at):
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with (
        patch.object(asyncio.get_running_loop(), "time", return_value=now),
        patch("parachuted.processes.beat.asyncio.sleep", sleep),
    ):
        await next_beat(0.5)

    assert slept == [pytest.approx(wakes_at - now)]
