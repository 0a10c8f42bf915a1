"""Interfaces: who stands behind a name, and what is left in others' hands when they go."""

from __future__ import annotations

import pytest

from parachuted.access.caller import Caller
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.exchange import Interfaces
from tests.modules.module_rig import UNRECORDED

BRAIN = "BrainInterface"
ANYBODY = "", lambda: (Caller(), Caller())


class Provider:
    def __init__(self, name: str) -> None:
        self.name = name

    async def who(self, greeting: str = "") -> str:
        return f"{greeting}{self.name}"

    def provides(self, _name: str) -> bool:
        return True

    async def call_interface(self, _name, method, args, kwargs, _caller):
        return await getattr(self, method)(*args, **kwargs)


@pytest.fixture
def interfaces() -> Interfaces:
    return Interfaces(UNRECORDED)


def offer(interfaces: Interfaces, name: str, *, is_trusted: bool = True) -> Provider:
    provider = Provider(name)
    interfaces.add(provider, is_trusted=is_trusted)
    return provider


async def test_the_other_takes_over_and_without_any_a_kept_method_says_so(interfaces):
    for name in ("first", "second"):
        offer(interfaces, name)
    brain = interfaces.get(BRAIN, *ANYBODY)
    who = brain.who
    with pytest.raises(AttributeError, match="_name"):
        _ = brain._name_of_it
    assert "BrainInterface" in repr(brain)

    interfaces.remove("first")
    assert await brain.who(greeting="I am ") == "I am second"

    interfaces.remove("second")
    assert interfaces.get(BRAIN, *ANYBODY) is None
    with pytest.raises(ModuleFailedError, match="no module provides BrainInterface any more"):
        await who()


async def test_of_two_providers_a_trusted_one_serves(interfaces):
    offer(interfaces, "a-stranger", is_trusted=False)
    offer(interfaces, "z-trusted")

    assert await interfaces.get(BRAIN, *ANYBODY).who() == "z-trusted"
