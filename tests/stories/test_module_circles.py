"""Circles: what a module does because of an event follows from that event, so a module that answers
its own events comes to an end.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from parachuted.access.caller import MOST_EVENTS
from tests.api.calls import get, post
from tests.api.routes.test_modules import run_module
from tests.stories.daemon_rig import Live

MANIFEST = """\
permissions: {read: [Circle/], write: [Circle/]}
hooks: [circle.turned, file.created, file.modified]
publishes: {circle.turned: {n: number}}
"""
CODE = """
import asyncio
from parachuted.errors import ActRefusedError
from parachuted.modules import Module, event, route

class CircleModule(Module):
    times, refused, later = 0, "", ()

    @route("POST", "/turn")
    async def turn(self):
        self.publish("circle.turned", n=0)

    @route("POST", "/write")
    async def write(self):
        await self.vault.write("Circle/a.md", "# Begin")

    @route("GET", "/counts")
    async def counts(self):
        return {"times": self.times, "refused": self.refused}

    @event("circle.turned")
    async def on_turned(self, n: int):
        self.later = asyncio.create_task(self.turn_again())

    async def turn_again(self):
        await asyncio.sleep(0.01)
        try:
            self.times += 1
            self.publish("circle.turned", n=self.times)
        except ActRefusedError as error:
            self.refused = str(error)

    @event("file.created")
    async def on_created(self, path: str):
        await self.on_written(path)

    @event("file.modified")
    async def on_written(self, path: str):
        try:
            self.times += 1
            await self.vault.write(path, f"# Turn {self.times}")
        except ActRefusedError as error:
            self.refused = str(error)
"""


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_a_module_that_answers_its_own_events_or_writes_for_ever_is_halted(
    live: Live, tmp_path: Path, trust: str
):
    async with live() as daemon_rig:
        await run_module(daemon_rig, tmp_path, "circle", CODE, trust, MANIFEST)
        for way in ("turn", "write"):
            await post(daemon_rig, f"/api/circle/{way}", {})
            async with asyncio.timeout(30):
                while not (counts := await get(daemon_rig, "/api/circle/counts"))["refused"]:
                    assert counts["times"] <= MOST_EVENTS + 1
                    await asyncio.sleep(0.05)

            assert "in a circle" in counts["refused"]
            assert counts["times"] == MOST_EVENTS + 1
            await post(daemon_rig, "/api/modules/circle/restart")  # which counts from 0
