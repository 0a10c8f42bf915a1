"""Exposure: private data, strangers' text and a way out, and only the three together."""

from __future__ import annotations

import pytest

from parachuted.access.agent_config import AgentConfig
from parachuted.access.grant import build_grant, exposure
from parachuted.keys import EVERYWHERE


def of(*, private: int = 0, strangers: int = 0, calls: tuple[str, ...] = (), **said: object):
    config = AgentConfig(**said)
    grant = build_grant(
        config, agent="a", bounds_read=EVERYWHERE, bounds_write=EVERYWHERE, entry="cli"
    )
    return exposure(grant, private_files=private, untrusted_files=strangers, calls=calls)


@pytest.mark.parametrize(
    ("found", "exposed"),
    [
        (of(), False),
        (of(private=3), False),
        (of(private=3, strangers=1), False),
        (of(network=True), False),  # a way out and strangers' text, and nothing to take
        (of(private=3, network=True), True),
        (of(private=3, calls=("send_message",)), True),
        (of(paths=("~/Work/",), bash=True, network=("x.org",)), True),
        (of(private=3, paths=("a/**",), bash=True), False),
    ],
)
def test_only_the_three_together_are_an_exposure(found, exposed):
    assert found.is_whole == exposed


def test_each_is_reported_by_how_it_comes_about():
    found = of(private=3, strangers=2, calls=("send_message",), network=("x.org", "y.org"))

    assert found.private == "3 notes"
    assert (
        found.untrusted
        == "2 notes of strangers; what x.org, y.org answers; what the tools send_message answer"
    )
    assert found.outward == "the network (x.org, y.org); the tools send_message"


def test_a_network_that_nothing_can_use_is_no_way_out():
    assert of(private=3, network=True, capabilities=("read",)).outward is None
