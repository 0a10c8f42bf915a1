"""Bounded vaults: anyone who opens the vault is the author of what is written through it."""

from __future__ import annotations

import pytest

from parachuted.access.authority import Authority, acting
from tests.modules.module_rig import ModuleRig


@pytest.fixture
def module_rig(tmp_path):
    module_rig = ModuleRig(tmp_path)
    yield module_rig
    module_rig.close()


async def test_a_modules_writes_name_it_and_the_request_that_it_answers(module_rig):
    vault = module_rig.bounded(read=["**"], write=["**"])

    with acting(Authority(request_id="q-1", causes=("c-1",))):
        await vault.create("a.md", "x\n")
    (write,) = module_rig.history.writes_of("a.md")
    assert (write.author.by, write.author.causes) == ("module:daily", ("c-1",))
