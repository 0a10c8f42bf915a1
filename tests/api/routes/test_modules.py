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


async def test_a_module_does_not_run_before_what_was_shown_is_approved(
    daily: Path, daemon_rig: DaemonRig
):
    shown = await post(daemon_rig, "/api/modules/install", {"source": str(daily)})
    before = await get(daemon_rig, "/api/modules/daily")
    assert before == before | {"status": "unapproved", "where": None, "state": "new"}
    await expect(daemon_rig, 404, "GET", "/api/daily/entries")
    assert "Daily/**" in shown["consent"]["text"]
    approve, other = "/api/modules/daily/approve", {"hash": "sha256:" + "0" * 64}
    await expect(daemon_rig, 409, "POST", approve, json=other)

    reported = await post(daemon_rig, approve, {"hash": shown["hash"], "trust": "trusted"})
    now = {"status": "running", "where": "in process", "trust_level": "trusted"}
    assert reported == reported | now
    assert reported["hash"] is not None
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

    assert (await get(daemon_rig, "/api/modules/daily"))["state"] == "changed"
    assert daemon_rig.reported("module.changed")
    assert "changed" not in await get(daemon_rig, "/api/daily/entries")
    shown = await get(daemon_rig, "/api/modules/daily/diff")
    assert '+            "count": len(found), "changed": True,' in shown["diff"]
    await post(daemon_rig, "/api/modules/daily/approve", {"hash": shown["hash"]})
    assert (await get(daemon_rig, "/api/daily/entries"))["changed"] is True


async def test_a_module_is_switched_restarted_and_removed_with_its_data(
    daily: Path, vault: Path, daemon_rig: DaemonRig
):
    await install(daemon_rig, daily)

    assert (await post(daemon_rig, "/api/modules/daily/disable"))["status"] == "disabled"
    await expect(daemon_rig, 404, "GET", "/api/daily/entries")
    await expect(daemon_rig, 404, "POST", "/api/modules/daily/restart")
    for act in ("enable", "restart"):
        assert (await post(daemon_rig, f"/api/modules/daily/{act}"))["status"] == "running"
    data = daemon_rig.daemon.watched.folder / "module-data/daily"
    for query, has_data in (("", False), ("", True), ("?data=true", False)):
        if has_data:
            data.mkdir(parents=True, exist_ok=True)
            (data / "index.db").write_text("x")
        removed = await expect(daemon_rig, 200, "DELETE", f"/api/modules/daily{query}")
        assert removed == {
            "name": "daily",
            "removed": True,
            "folder_removed": True,
            "data_deleted": bool(query),
            "has_data": has_data,
        }
        assert data.exists() is has_data
        assert not (vault / "Modules/daily").exists()
        assert (await get(daemon_rig, "/api/modules"))["modules"] == []
        await install(daemon_rig, daily)


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
    assert (reported["status"], reported["where"]) == ("failed", None)
    assert "nothing_of_that_name" in reported["problem"]
    assert "nothing_of_that_name" in str(daemon_rig.daemon.watched.problems.open)
    await expect(daemon_rig, 200, "GET", "/api/notes")


async def test_a_person_s_own_prompt_is_kept_shown_and_reset(daemon_rig: DaemonRig):
    await install(daemon_rig, EXAMPLES / "brain")
    place = "/api/modules/brain/prompt"
    usual = await get(daemon_rig, place)
    assert usual == usual | {"content": None, "exists": False}
    assert usual["defaultPrompt"]
    kept = await expect(daemon_rig, 200, "PUT", place, json={"content": "Be brief."})
    assert kept == {**usual, "content": "Be brief.", "exists": True}
    assert await get(daemon_rig, place) == kept
    assert await expect(daemon_rig, 200, "PUT", place, json={"reset": True}) == usual
    await expect(daemon_rig, 400, "PUT", place, json={})
    await expect(daemon_rig, 404, "GET", "/api/modules/nothing/prompt")


async def test_what_is_no_module_says_so_and_one_in_the_vault_is_not_made(
    daily: Path, vault: Path, tmp_path: Path, daemon_rig: DaemonRig
):
    (tmp_path / "empty").mkdir()
    body = {"source": str(tmp_path / "empty")}
    status, message = await refused(daemon_rig, "POST", "/api/modules/install", json=body)
    assert (400 <= status < 500, "manifest.yaml" in message) == (True, True)
    for source, made in ((daily, 201), (vault / "Modules/daily", 200)):
        body = {"source": str(source)}
        await expect(daemon_rig, made, "POST", "/api/modules/install", json=body)


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
    place, health = "/api/modules/slow", "/api/health?detailed=true"
    async with asyncio.TaskGroup() as group:
        installing = group.create_task(install(daemon_rig, tmp_path / "slow"))
        while (await call(daemon_rig, "GET", place))[1].get("status") in {None, "unapproved"}:
            await asyncio.sleep(0.01)
        reported = await get(daemon_rig, place)
        meanwhile = (await get(daemon_rig, health))["modules"]
        (tmp_path / "go").touch()
    after = (await get(daemon_rig, health))["modules"]

    assert reported == reported | {"status": "starting", "where": None, "problem": None}
    assert meanwhile == [{"name": "slow", "version": "0.1.0", "status": "starting"}]
    assert (installing.result()["status"], after[0]["status"]) == ("running", "running")


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


async def test_what_was_never_installed_is_not_removed(daemon_rig: DaemonRig):
    await expect(daemon_rig, 404, "DELETE", "/api/modules/daily?data=true")
