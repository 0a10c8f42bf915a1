"""Promised: what is on its way counts while it is, and whoever waits looks anew when one is over."""

from __future__ import annotations

import asyncio

from parachuted.agents.gateway.promised import Promise, Promised


async def test_what_is_on_its_way_counts_for_its_run_and_its_causes_until_it_is_over():
    promised = Promised()
    with promised.made(Promise(run="a", causes=("x", "y"), usd=1)), promised.made(Promise(run="b", causes=("y",), usd=2)):
        assert promised.of(lambda one: one.run == "a") == 1
        assert promised.of(lambda one: "y" in one.causes) == 3
    assert promised.of(lambda _: True) == 0


async def test_all_that_wait_look_anew_when_one_is_over():
    promised = Promised()
    async with asyncio.TaskGroup() as group:
        with promised.made(Promise(run="a", causes=(), usd=1)):
            waiting = [group.create_task(promised.one_ends()) for _ in range(3)]
            await asyncio.sleep(0)
            assert not any(task.done() for task in waiting)
        await asyncio.wait_for(asyncio.gather(*waiting), 5)
