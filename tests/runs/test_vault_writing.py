"""Vault writing: an error tells no more than reading would."""

from __future__ import annotations

import pytest

from parachuted.access.authority import Authority, acting
from parachuted.access.grant import Grant
from parachuted.errors import ConflictError
from parachuted.keys import EVERYWHERE, NOWHERE
from parachuted.runs.run_request import CurrentRun
from tests.modules.module_rig import ModuleRig

PRIVATE = "# Day\n\nopen\n\n## Mine #private\n\nsecret\n"


@pytest.fixture
def module_rig(tmp_path):
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Daily/day.md", PRIVATE)
    yield module_rig
    module_rig.close()


async def test_a_conflict_shows_no_private_part_to_code_that_works_for_an_agent(module_rig):
    vault = module_rig.bounded(read=["Daily/**"], write=["Daily/**"])

    grant = Grant(agent="a", reads=EVERYWHERE, writes=EVERYWHERE, lane=NOWHERE)
    within = CurrentRun(grant=grant)
    for authority, is_shown in ((Authority(), True), (Authority(within=within), False)):
        with acting(authority), pytest.raises(ConflictError) as conflict:
            await vault.create("Daily/day.md", "mine\n")
        assert (b"secret" in conflict.value.theirs) is is_shown
        assert b"open" in conflict.value.theirs
