"""`self.schedules`, as an author uses it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.errors import NotFoundError
from parachuted.testing import running_module
from tests.modules.small_modules import write_module

BODY = """
async def reflect(self, agent: str = "none"):
    await self.state.put("reflected", agent)
@schedule(cron="0 3 * * *", timezone="Europe/Berlin")
async def nightly(self):
    await self.state.put("nightly", True)
@route("POST", "/schedules/{name}")
async def keep(self, name: str, cron: str, method: str = "reflect", agent: str = "one"):
    await self.schedules.set(name, method, cron=cron, args={"agent": agent})
@route("GET", "/schedules")
async def all(self):
    return await self.schedules.list()
@route("DELETE", "/schedules/{name}")
async def drop(self, name: str):
    return await self.schedules.remove(name)
"""


@pytest.fixture
async def module(tmp_path):
    (tmp_path / "vault").mkdir()
    folder = write_module(tmp_path / "daily", BODY)
    async with running_module(folder, vault=tmp_path / "vault") as found:
        yield found


async def test_a_schedule_is_set_listed_run_and_removed(module):
    await module.request("POST", "/schedules/evening", body={"cron": "30 21 * * *"})
    [found] = await module.request("GET", "/schedules")
    assert (found["name"], found["method"], found["arguments"]) == (
        "evening",
        "reflect",
        {"agent": "one"},
    )
    assert datetime.fromisoformat(found["next_at"]) > datetime.now(UTC)

    await module.tick("evening")
    await module.tick("nightly")

    assert await module.state.get("reflected") == "one"
    assert await module.state.get("nightly") is True
    assert await module.request("DELETE", "/schedules/evening") is True
    with pytest.raises(NotFoundError):
        await module.tick("evening")


@pytest.mark.parametrize(
    "wrong",
    [{"cron": "* * * * * *"}, {"cron": "0 3 * * *", "method": "gone"}, {"cron": "never"}],
)
async def test_what_cannot_be_is_the_authors_mistake_and_sets_nothing(module, wrong):
    with pytest.raises(Exception, match="failed in keep"):
        await module.request("POST", "/schedules/a", body=wrong)

    assert "ValueError" in module.problem
    assert await module.request("GET", "/schedules") == []
