"""A module's own schedules: on whose behalf they are set, and what they carry on."""

from __future__ import annotations

import pytest

from parachuted.access.authority import Authority
from parachuted.access.grant import grant_of
from parachuted.errors import ActRefusedError
from parachuted.modules.hosting.schedules import ModuleSchedules
from parachuted.modules.scheduling import Timing
from tests.modules.module_rig import ModuleRig

HOURLY = Timing(every_s=3_600)


@pytest.fixture
def module_rig(tmp_path):
    found = ModuleRig(tmp_path)
    yield found
    found.close()


async def test_what_was_read_of_strangers_goes_with_the_schedule(module_rig):
    authority = Authority()
    authority.taint.read("Inbox/mail.md", "web")
    mine = ModuleSchedules("daily", module_rig.scheduler, lambda: authority)

    await mine.set("hourly", "look", {"text": "of a stranger"}, HOURLY)

    assert module_rig.scheduler._set.of("daily")["hourly"].read == {"Inbox/mail.md": "web"}
    assert [(one.name, one.method, one.timing) for one in await mine.list()] == [
        ("hourly", "look", HOURLY)
    ]
    assert await mine.remove("hourly")
    assert await mine.list() == []


async def test_whose_rights_have_ended_sets_and_removes_nothing(module_rig):
    mine = ModuleSchedules("daily", module_rig.scheduler, lambda: Authority(holds=lambda: False))

    for work in (mine.set("a", "b", {}, HOURLY), mine.remove("a"), mine.list()):
        with pytest.raises(ActRefusedError):
            await work


async def test_no_module_sees_the_schedules_of_another(module_rig):
    mine, other = (
        ModuleSchedules(name, module_rig.scheduler, Authority) for name in ("daily", "brain")
    )
    await mine.set("hourly", "look", {}, HOURLY)

    assert await other.list() == []
    assert not await other.remove("hourly")
    assert len(await mine.list()) == 1


async def test_a_caller_that_is_limited_to_some_paths_sets_and_removes_nothing(module_rig):
    limited = Authority(reads=grant_of(["Daily/**"]))
    mine = ModuleSchedules("daily", module_rig.scheduler, lambda: limited)
    own = ModuleSchedules("daily", module_rig.scheduler, Authority)
    await own.set("hourly", "look", {}, HOURLY)

    for work in (mine.set("a", "b", {}, HOURLY), mine.remove("hourly")):
        with pytest.raises(ActRefusedError, match="limited to some paths"):
            await work
    assert [one.name for one in await own.list()] == ["hourly"]
