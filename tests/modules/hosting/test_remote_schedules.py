"""Schedules over the pipe: both ends agree, and the daemon's end trusts nothing."""

from __future__ import annotations

import pytest

from parachuted.access.authority import Authority
from parachuted.errors import EditRefusedError, ModuleFailedError
from parachuted.modules.hosting.framing import AskFrame
from parachuted.modules.hosting.request_server import RequestServer
from parachuted.modules.hosting.set_schedules import ModuleSchedules
from parachuted.modules.scheduling import Timing
from tests.modules.hosting.test_remote_services import remote_of
from tests.modules.module_rig import ModuleRig
from tests.modules.small_modules import StubServices


@pytest.fixture
def module_rig(tmp_path):
    found = ModuleRig(tmp_path)
    yield found
    found.close()


@pytest.fixture
def access(module_rig):
    return ModuleSchedules("daily", module_rig.scheduler, Authority)


@pytest.fixture
def remote(access):
    return remote_of(StubServices(schedules=access)).schedules


async def test_both_ends_agree(access, remote):
    timing = Timing(cron="0 3 * * *", timezone="Europe/Berlin")
    await remote.set("nightly", "reflect", {"agent": "a"}, timing)

    assert await remote.list() == await access.list()
    assert (await remote.list())[0].timing == timing
    assert (await remote.remove("nightly"), await remote.remove("nightly")) == (True, False)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("set", {}),
        ("set", {"name": "a", "method": "m", "arguments": [], "timing": {"at": "03:00"}}),
        ("set", {"name": "a", "method": "m", "arguments": {}, "timing": {"every_s": "1"}}),
        ("set", {"name": "a", "method": "m", "arguments": {}, "timing": {"on": "Monday"}}),
        ("remove", {"name": 1}),
        ("clear", {}),
    ],
)
async def test_what_is_not_a_request_is_refused(access, verb, body):
    with pytest.raises(ModuleFailedError):
        await RequestServer(StubServices(schedules=access)).serve(
            AskFrame(id=1, verb=f"schedules.{verb}", body=body)
        )


async def test_a_timing_that_no_author_could_write_is_refused(remote):
    with pytest.raises(EditRefusedError, match="not between"):
        await remote.set("flood", "reflect", {}, Timing(every_s=0))
