"""Cause: what a module does is part of what led to it."""

from __future__ import annotations

import asyncio

import pytest

from parachuted.modules.cause import carried, carrying, causes_at
from tests.modules.yard import NOON


def test_what_nothing_led_to_begins_a_cause_of_its_own():
    assert carried() == ()
    assert len({causes_at(NOON), causes_at(NOON)}) == 2


async def test_causes_are_carried_into_what_begins_inside_and_no_further():
    with carrying(["c1", "c2"]):
        with carrying(["c3"]):
            assert causes_at(NOON) == ("c3",)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.to_thread(carried))
        assert (task.result(), causes_at(NOON)) == (("c1", "c2"), ("c1", "c2"))
    with pytest.raises(ValueError, match="x"), carrying(["c4"]):
        raise ValueError("x")
    assert carried() == ()
