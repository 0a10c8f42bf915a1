"""Settings and logs of one module over HTTP."""

from __future__ import annotations

import json

import pytest_asyncio

from tests.api.calls import expect, get, key_of, post, refused
from tests.modules.small_modules import write_module
from tests.stories.daemon_rig import DaemonRig

GARDEN = """
from dataclasses import dataclass
@dataclass
class Settings:
    days: int = 3
    layout: str = "beds"
"""
PLACE = "/api/modules/garden/settings"


async def approved(daemon_rig: DaemonRig, name: str, code: str) -> None:
    """A module of that code runs."""
    write_module(daemon_rig.vault / "Modules" / name, code, name=name)
    modules = daemon_rig.daemon.modules
    modules.trust.approve(name, modules.trust.consent(name).digest, trust="trusted")
    await modules.manager.sync()


@pytest_asyncio.fixture(loop_scope="module")
async def garden(daemon_rig: DaemonRig) -> None:
    await approved(daemon_rig, "garden", GARDEN)


async def test_a_setting_is_shown_changed_and_restored(garden, daemon_rig: DaemonRig):
    (days, layout) = (await get(daemon_rig, PLACE))["settings"]
    assert days == days | {"key": "days", "kind": "whole number", "value": 3, "is_set": False}
    assert layout["default"] == "beds"

    answer = await expect(daemon_rig, 200, "PUT", f"{PLACE}/days", json={"value": 7})
    assert answer["settings"][0] == days | {"value": 7, "is_set": True}
    assert daemon_rig.daemon.modules.manager.approved("garden").config == {"days": 7}
    answer = await expect(daemon_rig, 200, "PUT", f"{PLACE}/days", json={"value": None})
    assert answer["settings"][0]["value"] == 3


async def test_a_value_that_the_module_does_not_take_changes_nothing(garden, daemon_rig: DaemonRig):
    status, why = await refused(daemon_rig, "PUT", f"{PLACE}/days", json={"value": "many"})

    assert (status, "config.days" in why, "is as it was" in why) == (422, True, True)
    assert (await get(daemon_rig, "/api/modules/garden"))["status"] == "running"
    for name, wanted in (("garden/settings/dyas", 404), ("shed/settings/days", 404)):
        await expect(daemon_rig, wanted, "PUT", f"/api/modules/{name}", json={"value": 1})
    key = key_of(daemon_rig, "*:read,write")
    logs = "/api/modules/garden/logs"
    for method, place in (("GET", PLACE), ("PUT", f"{PLACE}/days"), ("GET", logs)):
        await expect(daemon_rig, 403, method, place, headers=key, json={"value": 1})


async def test_the_log_shows_the_lines_of_that_module_alone(garden, daemon_rig: DaemonRig):
    log = daemon_rig.daemon.watched.home / "logs" / "daemon.log"
    log.parent.mkdir(exist_ok=True)
    head = {"at": "2026-03-01 12:00:00", "level": "info"}
    lines = [
        {"logger": "parachuted.modules.garden", "message": "sown", "bed": 4},
        {"logger": "parachuted.modules.shed", "message": "a garden was seen"},
        {"logger": "parachuted.modules.hosting", "message": "it failed", "module": "garden"},
    ]
    reported = "\n".join(json.dumps(head | line) for line in lines)
    log.write_text(f"of a line, garden\n{reported}\n")

    where = "/api/modules/garden/logs"
    shown = (await get(daemon_rig, where))["lines"]
    assert [(one["message"], one["fields"]) for one in shown] == [
        ("sown", {"bed": 4}),
        ("it failed", {"module": "garden"}),
    ]
    assert (await get(daemon_rig, f"{where}?limit=1"))["lines"] == shown[1:]


async def test_official_modules_are_offered_until_they_are_installed(daemon_rig: DaemonRig):
    offered = {one["name"]: one for one in (await get(daemon_rig, "/api/modules"))["available"]}

    assert {"daily", "brain", "chat"} <= {*offered}
    assert offered["daily"]["source"] == "parachute://daily"
    await post(daemon_rig, "/api/modules/install", {"source": "parachute://daily"})
    answer = await get(daemon_rig, "/api/modules")
    assert "daily" not in {one["name"] for one in answer["available"]}
