"""Beat: who looks equally often looks at once."""

import asyncio

from parachuted.processes.beat import next_beat


async def test_two_that_begin_apart_wake_together_and_wait_no_longer_than_one_beat():
    loop = asyncio.get_running_loop()
    woken = []

    async def look(after_s: float) -> None:
        await asyncio.sleep(after_s)
        begun = loop.time()
        await next_beat(0.5)
        woken.append((loop.time() // 0.5, loop.time() - begun))

    await next_beat(0.5)
    await asyncio.gather(look(0.05), look(0.15))

    (one, waited), (other, _) = woken
    assert one == other
    assert 0 < waited <= 0.5 + 0.2
