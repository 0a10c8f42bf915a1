"""Settings and logs of one module over HTTP."""

from __future__ import annotations

import json

import pytest

from tests.api.calls import call, expect, get, key_of, refused
from tests.modules.small_modules import write_module
from tests.stories.daemon_rig import DaemonRig, Live

GARDEN = """
from dataclasses import dataclass
@dataclass
class Settings:
    days: int = 3
    layout: str = "beds"
"""
PLACE = "/api/modules/garden/settings"


@pytest.fixture
async def daemon_rig(live: Live, vault):
    write_module(vault / "Modules/garden", GARDEN, name="garden")
    async with live() as daemon_rig:
        trust = daemon_rig.daemon.modules.trust
        trust.approve("garden", trust.consent("garden").digest, trust="trusted")
        await daemon_rig.daemon.modules.manager.sync()
        yield daemon_rig


async def test_a_setting_is_shown_changed_and_restored(daemon_rig: DaemonRig):
    (days, layout) = (await get(daemon_rig, PLACE))["settings"]
    assert days == days | {"key": "days", "kind": "whole number", "value": 3, "is_set": False}
    assert layout["default"] == "beds"

    status, answer = await call(daemon_rig, "PUT", f"{PLACE}/days", json={"value": 7})
    assert (status, answer["settings"][0]["value"], answer["settings"][0]["is_set"]) == (
        200,
        7,
        True,
    )
    assert daemon_rig.daemon.modules.manager.approved("garden").config == {"days": 7}
    _, answer = await call(daemon_rig, "PUT", f"{PLACE}/days", json={"value": None})
    assert answer["settings"][0]["value"] == 3


async def test_a_value_that_the_module_does_not_take_changes_nothing(daemon_rig: DaemonRig):
    status, why = await refused(daemon_rig, "PUT", f"{PLACE}/days", json={"value": "many"})

    assert (status, "config.days" in why, "is as it was" in why) == (422, True, True)
    assert (await get(daemon_rig, "/api/modules/garden"))["status"] == "running"
    for name, wanted in (("garden/settings/dyas", 404), ("shed/settings/days", 404)):
        await expect(daemon_rig, wanted, "PUT", f"/api/modules/{name}", json={"value": 1})
    key = key_of(daemon_rig, "*:read,write")
    for method, place in (
        ("GET", PLACE),
        ("PUT", f"{PLACE}/days"),
        ("GET", "/api/modules/garden/logs"),
    ):
        await expect(daemon_rig, 403, method, place, headers=key, json={"value": 1})


async def test_the_log_shows_the_lines_of_that_module_alone(daemon_rig: DaemonRig):
    log = daemon_rig.daemon.watched.home / "logs" / "daemon.log"
    log.parent.mkdir(exist_ok=True)
    lines = [
        {"logger": "parachuted.modules.garden", "message": "sown", "bed": 4},
        {"logger": "parachuted.modules.shed", "message": "a garden was seen"},
        {"logger": "parachuted.modules.hosting", "message": "it failed", "module": "garden"},
    ]
    reported = [
        json.dumps({"at": "2026-03-01 12:00:00", "level": "info", **line}) for line in lines
    ]
    log.write_text("of a line, garden\n" + "\n".join(reported) + "\n")

    answer = await get(daemon_rig, "/api/modules/garden/logs")
    assert [(one["message"], one["fields"]) for one in answer["lines"]] == [
        ("sown", {"bed": 4}),
        ("it failed", {"module": "garden"}),
    ]
    last = await get(daemon_rig, "/api/modules/garden/logs?limit=1")
    assert [one["message"] for one in last["lines"]] == ["it failed"]


async def test_modules_that_come_with_parachuted_are_offered_until_they_are_installed(
    daemon_rig: DaemonRig,
):
    offered = {one["name"]: one for one in (await get(daemon_rig, "/api/modules"))["available"]}

    assert {"daily", "brain", "chat"} <= {*offered}
    assert offered["daily"]["source"] == "parachute://daily"
    await call(daemon_rig, "POST", "/api/modules/install", json={"source": "parachute://daily"})
    answer = await get(daemon_rig, "/api/modules")
    assert "daily" not in {one["name"] for one in answer["available"]}
