"""Places: so many at a time, and no one waits for ever for one who waits for them."""

from __future__ import annotations

import asyncio

from parachuted.hooks.runner import ConcurrencyLimit


async def test_who_waits_inside_for_another_turn_gets_it_though_all_places_are_taken():
    places = ConcurrencyLimit(2, patience_s=0.01)
    inside: list[int] = []

    async def write(number):
        async with places.slot():
            await asyncio.sleep(0)
            async with places.slot():  # as a hook does that writes something itself
                inside.append(number)

    await asyncio.wait_for(asyncio.gather(*(write(number) for number in range(10))), 30)

    assert sorted(inside) == list(range(10))


async def test_no_more_at_a_time_while_one_after_the_other_ends():
    places = ConcurrencyLimit(2, patience_s=60)
    running, most = 0, 0

    async def work():
        nonlocal running, most
        async with places.slot():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(work() for _ in range(20)))

    assert most == 2


async def test_who_is_called_off_while_waiting_or_when_its_turn_has_just_come_takes_no_place_along():  # noqa: E501
    places = ConcurrencyLimit(1, patience_s=60)
    begun = asyncio.Event()
    end = asyncio.Event()

    async def hold():
        async with places.slot():
            begun.set()
            await end.wait()

    async def pass_through():
        async with places.slot():
            pass

    async with asyncio.TaskGroup() as group:
        group.create_task(hold())
        await begun.wait()
        waiting, next_one, last = (group.create_task(pass_through()) for _ in range(3))
        await asyncio.sleep(0)
        waiting.cancel()
        end.set()
        await asyncio.sleep(0)
        next_one.cancel()  # its turn has come, and it may not have heard of it yet

    assert last.done()
