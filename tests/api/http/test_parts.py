from __future__ import annotations

import dataclasses

import pytest

from parachuted.api import ApiParts
from tests.stories.life import Live


async def test_the_parts_are_those_of_one_daemon_and_cannot_be_exchanged(live: Live):
    async with live() as life:
        parts = life.daemon._api_parts()

        assert (parts.bus, parts.queue, parts.index) == (
            life.daemon.bus,
            life.daemon.queue,
            life.daemon.index,
        )
        with pytest.raises(dataclasses.FrozenInstanceError):
            parts.backend = "claude"


def test_no_part_can_be_forgotten():
    assert [
        field.name
        for field in dataclasses.fields(ApiParts)
        if field.default is not dataclasses.MISSING
    ] == []
