"""Reservations: what is on its way counts while it is, and each that waits looks again when one has
ended.
"""

from __future__ import annotations

import asyncio

from parachuted.agents.gateway.spending import Reservation, Reservations


async def test_what_is_on_its_way_counts_for_its_run_and_its_causes_until_it_has_ended():
    reservations = Reservations()
    one, other = (
        Reservation(run="a", causes=("x", "y"), usd=1),
        Reservation(run="b", causes=("y",), usd=2),
    )
    reservations.add(one)
    reservations.add(other)
    assert reservations.usd(lambda one: one.run == "a") == 1
    assert reservations.usd(lambda one: "y" in one.causes) == reservations.usd() == 3
    reservations.remove(one)
    reservations.remove(other)
    assert reservations.usd() == 0


async def test_all_that_wait_look_again_when_one_has_ended():
    reservations = Reservations()
    held = Reservation(run="a", causes=(), usd=1)
    reservations.add(held)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(reservations.wait_for_end()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        reservations.remove(held)
        await asyncio.wait_for(asyncio.gather(*waiting), 30)
