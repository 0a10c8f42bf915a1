"""Schedules over the pipe: both ends agree, and the daemon's end trusts nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from parachuted.access.authority import Authority
from parachuted.errors import EditRefusedError, ModuleFailedError
from parachuted.modules.hosting.module_schedules import ModuleSchedules
from parachuted.modules.hosting.remote_schedules import RemoteSchedules, serve_schedules
from parachuted.modules.timing import Timing
from tests.modules.module_rig import ModuleRig


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
    class Pipe:
        async def ask(self, verb: str, body: Mapping[str, object]) -> object:
            return await serve_schedules(access, verb.partition(".")[2], body)

    return RemoteSchedules(Pipe())


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
        ("set", {"name": "a", "method": "m", "arguments": [], "every_s": 1, "at": None}),
        ("remove", {"name": 1}),
        ("clear", {}),
    ],
)
async def test_what_is_no_request_is_refused(access, verb, body):
    with pytest.raises(ModuleFailedError):
        await serve_schedules(access, verb, body)


async def test_a_timing_that_no_author_could_write_is_refused(remote):
    with pytest.raises(EditRefusedError, match="not between"):
        await remote.set("flood", "reflect", {}, Timing(every_s=0))
