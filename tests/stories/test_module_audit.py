"""Module audit: each way into a module, and what it publishes, is a line of the audit, with no
words of notes.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.api.calls import get, post
from tests.api.http.test_module_dispatcher import KEVIN
from tests.api.routes.test_modules import EXAMPLES, install, run_module
from tests.stories.daemon_rig import DaemonRig, Live, save

TICKING = """
from parachuted.modules import Module, schedule

class TickingModule(Module):
    @schedule(every="1s")
    async def tick(self):
        self.publish("ticking.ticked", words="the canary sings")
"""
SEARCH = "/api/modules/brain/tools/brain_search"
AWAITED = ("brain: event brain.mention.detected", "brain: BrainInterface.link")


async def calls(daemon_rig: DaemonRig, module: str) -> list[dict]:
    return (await get(daemon_rig, f"/api/audit?type=module_call&module={module}&limit=100"))[
        "events"
    ]


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_routes_tools_calls_and_events_are_reported_with_para_ids(
    live: Live, vault: Path, trust: str
):
    save(vault / "Brain/entities/Kevin.md", "# Kevin\n")
    async with live() as daemon_rig:
        await daemon_rig.settled()
        for name in ("brain", "daily"):
            reported = await install(daemon_rig, EXAMPLES / name, trust)
            assert reported["status"] == "running", reported["problem"]
        entry = {"content": "the canary met [[Kevin]]", "entry_id": "monday"}
        await post(daemon_rig, "/api/daily/entries", entry)
        await post(daemon_rig, SEARCH, {"query": "Kevin"})
        async with asyncio.timeout(30):
            brain: list[dict] = []
            while not set(AWAITED) <= {one["target_endpoint"] for one in brain}:
                await asyncio.sleep(0.05)
                brain = await calls(daemon_rig, "brain")
        daily = await calls(daemon_rig, "daily")

    found = {one["target_endpoint"]: one for one in (*brain, *daily)}
    route, tool = found["POST /api/daily/entries"], found[f"POST {SEARCH}"]
    published, linked = found["daily: event daily.entry.created"], found[AWAITED[1]]
    assert (route["source_type"], route["status"], route["success"]) == ("local", 201, True)
    for one in (tool, found["brain: BrainInterface.suggest"], found[AWAITED[0]]):
        assert one["para_ids_involved"] == [KEVIN]
    assert (published["source_type"], published["source_id"]) == ("module", "daily")
    assert published["request_id"] == route["request_id"]
    assert (linked["source_type"], linked["source_id"]) == ("module", "daily")
    assert (linked["target_module"], linked["success"]) == ("brain", True)
    assert "canary" not in json.dumps([*brain, *daily])


async def test_schedules_and_refused_events_are_reported(live: Live, tmp_path: Path):
    async with live() as daemon_rig:
        schedules = "schedules: [{every: 1s}]\n"
        await run_module(daemon_rig, tmp_path, "ticking", TICKING, manifest=schedules)
        jobs = (await get(daemon_rig, "/api/scheduler"))["jobs"]
        assert [(job["name"], job["module"], job["every_s"]) for job in jobs[1:]] == [
            ("ticking/tick/1", "ticking", 1)
        ]
        async with asyncio.timeout(30):
            while len(reported := await calls(daemon_rig, "ticking")) < 2:
                await asyncio.sleep(0.1)

    by_endpoint = {one["target_endpoint"]: one for one in reported}
    tick, refused = (
        by_endpoint["ticking: schedule tick"],
        by_endpoint["ticking: event ticking.ticked"],
    )
    assert (tick["source_type"], tick["source_id"], tick["success"]) == ("daemon", "clock", False)
    assert (refused["success"], refused["error"]) == (False, "ActRefusedError")
    assert "canary" not in json.dumps(reported)
