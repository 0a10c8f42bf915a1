"""`self.activity`, as an author uses it, and a module's command beside it."""

from __future__ import annotations

import pytest

from parachuted.errors import NotFoundError
from parachuted.modules.registry.arguments import WrongArgumentsError
from parachuted.testing import running_module
from tests.modules.small_modules import write_module

BODY = """
from parachuted.modules import command
@command("add")
async def add(self, summary: str, times: int = 1):
    "Note what was talked about."
    for number in range(times):
        await self.activity.log(summary, session_id="s1", exchange_number=number)
    return f"noted {times} times"
@route("GET", "/{day}")
async def of_day(self, day: str):
    return await self.activity.read(day)
"""


async def test_what_is_logged_is_read_on_its_day(tmp_path):
    (tmp_path / "vault").mkdir()
    async with running_module(
        write_module(tmp_path / "daily", BODY), vault=tmp_path / "vault"
    ) as module:
        assert await module.command("add", summary="beans", times=2) == "noted 2 times"
        [file] = (tmp_path / "vault/.parachute/activity").iterdir()
        found = await module.request("GET", f"/{file.stem}")
        assert [(one["summary"], one["exchange_number"]) for one in found] == [
            ("beans", 0),
            ("beans", 1),
        ]
        with pytest.raises(WrongArgumentsError):
            await module.command("add", times="many")
        with pytest.raises(NotFoundError):
            await module.command("drop")
