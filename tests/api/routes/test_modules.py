"""Modules over HTTP: installed, shown, approved by what was shown, switched and removed, with a
real daemon and real modules.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import aiohttp
import pytest

from parachuted.modules.registry.skeleton import new_module
from tests.api.calls import call, expect, get, messages, post, refused
from tests.stories.daemon_rig import DaemonRig, Live, save

EXAMPLES = Path(__file__).parents[2] / "modules" / "examples"


@pytest.fixture
def daily(tmp_path: Path) -> Path:
    """A folder with a module."""
    return Path(shutil.copytree(EXAMPLES / "daily", tmp_path / "from" / "daily"))


async def install(
    daemon_rig: DaemonRig, folder: Path, trust: str = "trusted", **more: object
) -> dict:
    """Install a module and approve what was shown."""
    body = {"source": str(folder), "trust": trust, **more}
    shown = await post(daemon_rig, "/api/modules/install", body)
    return await post(
        daemon_rig,
        f"/api/modules/{shown['module']['name']}/approve",
        {"hash": shown["hash"], "trust": trust},
    )


async def run_module(
    daemon_rig: DaemonRig,
    folder: Path,
    name: str,
    code: str,
    trust: str = "trusted",
    manifest: str = "",
) -> None:
    """Install a module with that code; `manifest` follows what every one says."""
    head = f"name: {name}\nversion: 0.1.0\nmodule: module.py\n"
    save(folder / name / "manifest.yaml", head + manifest)
    save(folder / name / "module.py", code)
    reported = await install(daemon_rig, folder / name, trust)
    assert reported["status"] == "running", reported["problem"]


async def test_an_installed_module_does_not_run_before_what_was_shown_is_approved(
    daily: Path, daemon_rig: DaemonRig
):
    shown = await post(daemon_rig, "/api/modules/install", {"source": str(daily)})
    before = await get(daemon_rig, "/api/modules/daily")
    status, _ = await call(daemon_rig, "GET", "/api/daily/entries")

    assert (before["status"], before["serving"], before["state"], status) == (
        "unapproved",
        False,
        "new",
        404,
    )
    assert "Daily/**" in shown["consent"]["text"]
    await expect(
        daemon_rig,
        409,
        "POST",
        "/api/modules/daily/approve",
        json={"hash": "sha256:" + "0" * 64},
    )

    reported = await post(
        daemon_rig, "/api/modules/daily/approve", {"hash": shown["hash"], "trust": "trusted"}
    )
    assert (
        reported["status"],
        reported["where"],
        reported["trust_level"],
        reported["hash"] is not None,
    ) == ("running", "in process", "trusted", True)
    assert (await get(daemon_rig, "/api/modules"))["modules"] == [reported]
    assert await get(daemon_rig, "/api/daily/entries") == {"entries": [], "count": 0}


async def test_what_was_approved_goes_on_until_the_change_is_approved_too(
    daily: Path, vault: Path, daemon_rig: DaemonRig
):
    await install(daemon_rig, daily)
    code = vault / "Modules/daily/module.py"
    code.write_text(
        code.read_text().replace('"count": len(found),', '"count": len(found), "changed": True,')
    )
    await daemon_rig.until(lambda: daemon_rig.reported("module.changed"))

    assert (await get(daemon_rig, "/api/modules/daily"))["state"] == "changed"
    assert "changed" not in await get(daemon_rig, "/api/daily/entries")
    shown = await get(daemon_rig, "/api/modules/daily/diff")
    assert '+            "count": len(found), "changed": True,' in shown["diff"]
    await post(daemon_rig, "/api/modules/daily/approve", {"hash": shown["hash"]})
    assert (await get(daemon_rig, "/api/daily/entries"))["changed"] is True


async def test_a_module_is_switched_off_and_on_restarted_and_removed(
    daily: Path, vault: Path, daemon_rig: DaemonRig
):
    await install(daemon_rig, daily)

    assert (await post(daemon_rig, "/api/modules/daily/disable"))["status"] == "disabled"
    await expect(daemon_rig, 404, "GET", "/api/daily/entries")
    await expect(daemon_rig, 404, "POST", "/api/modules/daily/restart")
    assert (await post(daemon_rig, "/api/modules/daily/enable"))["status"] == "running"
    assert (await post(daemon_rig, "/api/modules/daily/restart"))["status"] == "running"
    status, removed = await call(daemon_rig, "DELETE", "/api/modules/daily")
    assert (status, removed) == (
        200,
        {
            "name": "daily",
            "removed": True,
            "folder_removed": True,
            "data_deleted": False,
            "has_data": False,
        },
    )
    assert not (vault / "Modules/daily").exists()
    assert (await get(daemon_rig, "/api/modules"))["modules"] == []


async def test_a_module_comes_back_with_the_next_daemon(live: Live, daily: Path):
    async with live() as daemon_rig:
        await install(daemon_rig, daily)
    async with live() as daemon_rig:
        assert (await get(daemon_rig, "/api/daily/entries"))["count"] == 0, (
            "a request waits until the modules have started"
        )
        await expect(daemon_rig, 404, "GET", "/api/daily/none")


async def test_a_module_that_was_just_made_is_listed_at_once(vault: Path, daemon_rig: DaemonRig):
    await daemon_rig.until(lambda: daemon_rig.daemon.modules.manager._has_started)
    for name in ("garden", "kitchen", "cellar"):
        await asyncio.to_thread(new_module, vault / "Modules" / name, name)
        assert name in [one["name"] for one in (await get(daemon_rig, "/api/modules"))["modules"]]
        assert (await get(daemon_rig, f"/api/modules/{name}"))["status"] == "unapproved"


async def test_a_module_that_cannot_be_loaded_is_reported_and_the_daemon_goes_on(
    daily: Path, daemon_rig: DaemonRig
):
    (daily / "module.py").write_text("import nothing_of_that_name\n")
    reported = await install(daemon_rig, daily)
    assert (reported["status"], reported["serving"]) == ("failed", False)
    assert "nothing_of_that_name" in reported["problem"]
    assert any(
        "nothing_of_that_name" in str(problem)
        for problem in daemon_rig.daemon.watched.problems.open.values()
    )
    await expect(daemon_rig, 200, "GET", "/api/notes")


async def test_a_person_s_own_prompt_is_kept_shown_and_reset(daemon_rig: DaemonRig):
    await install(daemon_rig, EXAMPLES / "brain")
    usual = await get(daemon_rig, "/api/modules/brain/prompt")
    assert (usual["content"], usual["exists"], bool(usual["defaultPrompt"])) == (
        None,
        False,
        True,
    )
    status, kept = await call(
        daemon_rig, "PUT", "/api/modules/brain/prompt", json={"content": "Be brief."}
    )
    assert (status, kept) == (200, {**usual, "content": "Be brief.", "exists": True})
    assert (await get(daemon_rig, "/api/modules/brain/prompt")) == kept
    assert (await call(daemon_rig, "PUT", "/api/modules/brain/prompt", json={"reset": True}))[
        1
    ] == usual
    await expect(daemon_rig, 400, "PUT", "/api/modules/brain/prompt", json={})
    await expect(daemon_rig, 404, "GET", "/api/modules/nothing/prompt")


async def test_a_source_that_is_not_a_module_says_so(tmp_path: Path, daemon_rig: DaemonRig):
    (tmp_path / "empty").mkdir()
    status, message = await refused(
        daemon_rig, "POST", "/api/modules/install", json={"source": str(tmp_path / "empty")}
    )
    assert (400 <= status < 500, "manifest.yaml" in message) == (True, True)


SLOW = """
import asyncio
from pathlib import Path
from parachuted.modules import Module

class SlowModule(Module):
    async def on_enable(self):
        while not Path(__file__).with_name("go").exists() and not Path({!r}).exists():
            await asyncio.sleep(0.01)
"""


async def test_a_module_that_has_not_started_yet_is_starting_and_has_not_failed(
    tmp_path: Path, daemon_rig: DaemonRig
):
    save(tmp_path / "slow/manifest.yaml", "name: slow\nversion: 0.1.0\nmodule: module.py\n")
    save(tmp_path / "slow/module.py", SLOW.format(str(tmp_path / "go")))
    beginning = asyncio.get_running_loop().create_task(install(daemon_rig, tmp_path / "slow"))
    while (await call(daemon_rig, "GET", "/api/modules/slow"))[1].get("status") in {
        None,
        "unapproved",
    }:
        await asyncio.sleep(0.01)
    reported = await get(daemon_rig, "/api/modules/slow")
    health = await get(daemon_rig, "/api/health?detailed=true")
    (tmp_path / "go").touch()
    started = await beginning
    after = await get(daemon_rig, "/api/health?detailed=true")

    assert reported == reported | {"status": "starting", "serving": False, "problem": None}
    assert health["modules"] == [{"name": "slow", "version": "0.1.0", "status": "starting"}]
    assert (started["status"], after["modules"][0]["status"]) == ("running", "running")


async def test_an_event_says_which_module_it_is_of(daily: Path, daemon_rig: DaemonRig):
    await install(daemon_rig, daily)
    async with (
        aiohttp.ClientSession() as session,
        session.get(daemon_rig.url + "/api/events") as stream,
    ):
        answers = messages(stream)
        await anext(answers)
        await call(daemon_rig, "POST", "/api/daily/entries", json={"content": "x"})
        heard = {}
        while "daily.entry.created" not in heard:
            reported = await asyncio.wait_for(anext(answers), 30)
            heard[reported.event] = reported.data["module"]

    assert heard["daily.entry.created"] == "daily"
    assert heard["file.created"] == "core"


async def test_what_lies_in_the_vault_already_is_not_made_by_installing_it(
    daily: Path, vault: Path, daemon_rig: DaemonRig
):
    await expect(daemon_rig, 201, "POST", "/api/modules/install", json={"source": str(daily)})
    await expect(
        daemon_rig,
        200,
        "POST",
        "/api/modules/install",
        json={"source": str(vault / "Modules/daily")},
    )


async def test_what_a_module_kept_is_deleted_with_it_only_if_that_is_said(
    daily: Path, vault: Path, daemon_rig: DaemonRig
):
    for query, has_data in (("", True), ("?data=true", False)):
        await install(daemon_rig, daily)
        data = daemon_rig.daemon.watched.folder / "module-data" / "daily"
        data.mkdir(parents=True, exist_ok=True)
        (data / "index.db").write_text("x")

        _, removed = await call(daemon_rig, "DELETE", f"/api/modules/daily{query}")

        assert (removed["has_data"], removed["data_deleted"]) == (has_data, not has_data)
        assert data.exists() is has_data
    await expect(daemon_rig, 404, "DELETE", "/api/modules/daily?data=true")
