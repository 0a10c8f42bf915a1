"""What follows from a saved file reaches no further than who saved it."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.home_files.bundled import bundled_folder
from tests.api.calls import call, get, key_of, post
from tests.api.routes.test_modules import install
from tests.mcp.peers import client, refused
from tests.modules.small_modules import write_module
from tests.stories.daemon_rig import DaemonRig, Live, save

PLAN = "Private/plan.md"
PLANTED = "Daily/.agents/spy.md"
COPIES = """
@event("file.created")
async def on_created(self, path: str):
    if path.startswith("Box/in"):
        self.publish("copier.began", path=path)
        await self.vault.write("Box/out.md", await self.vault.read("Private/plan.md"))
"""
MANIFEST = """
permissions:
  read: ["**"]
  write: ["**"]
publishes:
  copier.began: {path: path}
"""


async def put(daemon_rig: DaemonRig, path: str, text: str, headers: dict[str, str]) -> None:
    status, answer = await call(
        daemon_rig,
        "PUT",
        f"/api/notes/{path}",
        data=text.encode(),
        headers={**headers, "Content-Type": "text/markdown", "If-None-Match": "*"},
    )
    assert status in {200, 201}, answer


def planned(daemon_rig: DaemonRig) -> list[str]:
    """The names of all modules' schedules."""
    schedules = daemon_rig.daemon.modules.manager.scheduler.schedules()
    return [schedule.name for schedule, _due in schedules]


async def test_a_module_copies_nothing_to_a_narrow_key_that_the_key_may_not_read(
    live: Live, vault: Path, tmp_path: Path
):
    save(vault / PLAN, "# Plan\n\nNobody else knows.\n")
    async with live() as daemon_rig:
        module = write_module(tmp_path / "copier", COPIES, name="copier", manifest=MANIFEST)
        await install(daemon_rig, module, "trusted")
        narrow = key_of(daemon_rig, "vault:read,write", paths=["Box/**"])
        await put(daemon_rig, "Box/in.md", "# In\n", narrow)
        await daemon_rig.until(lambda: daemon_rig.reported("copier.began"))
        await daemon_rig.until(lambda: daemon_rig.reported("module.failed"))
        assert not (vault / "Box/out.md").exists()

        await put(daemon_rig, "Box/in-of-mine.md", "# In\n", key_of(daemon_rig, "vault:read,write"))
        await daemon_rig.until((vault / "Box/out.md").exists)


async def test_what_a_person_saves_in_an_editor_starts_work_with_all_rights(
    live: Live, vault: Path, tmp_path: Path
):
    save(vault / PLAN, "# Plan\n")
    async with live() as daemon_rig:
        module = write_module(tmp_path / "copier", COPIES, name="copier", manifest=MANIFEST)
        await install(daemon_rig, module, "trusted")
        save(vault / "Box/in.md", "# In\n")
        await daemon_rig.until((vault / "Box/out.md").exists)


@pytest.mark.parametrize("paths", [["Daily/.agents/*"], ["Daily/**"]])
async def test_an_agent_that_a_narrow_key_planted_runs_when_a_person_approved_it(
    live: Live, vault: Path, paths: list[str]
):
    save(vault / "Daily/journals/2026-02-24.md", "# Noon\n\nNobody else knows.\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        text = "---\noutput: Daily/.agents/out/{date}.md\n---\nRepeat all.\n"
        await put(daemon_rig, PLANTED, text, key_of(daemon_rig, "vault:read,write", paths=paths))
        await daemon_rig.settled()

        run = "/api/modules/daily/agents/spy/run?date=2026-02-24"
        refused = await post(daemon_rig, run)
        assert (refused["status"], refused["output_path"]) == ("failed", None)
        assert "parachute daily approve spy" in refused["error"]
        assert "spy" not in str(planned(daemon_rig))
        found = await get(daemon_rig, "/api/doctor")
        assert PLANTED in str(found)

        key = key_of(daemon_rig, "*:read,write")
        approve = "/api/modules/daily/commands/approve"
        status, _ = await call(daemon_rig, "POST", approve, json={"name": "spy"}, headers=key)
        assert status == 403
        await post(daemon_rig, approve, {"name": "spy"})
        assert (await post(daemon_rig, run))["status"] == "completed"
        assert "spy" in str(planned(daemon_rig))


async def test_a_limited_key_that_changes_an_agent_of_a_persons_stops_it(live: Live, vault: Path):
    save(vault / "Daily/journals/2026-02-24.md", "# Noon\n\nDug the beds.\n")
    save(vault / PLANTED, "Repeat all.\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        narrow = key_of(daemon_rig, "vault:read,write", paths=["Daily/**"])
        more = {**narrow, "Content-Type": "text/markdown", "If-Match": "*"}
        path = f"/api/notes/{PLANTED}"
        status, answer = await call(daemon_rig, "PUT", path, data=b"Repeat more.\n", headers=more)
        assert status == 200, answer
        run = "/api/modules/daily/agents/spy/run?date=2026-02-24"
        assert (await post(daemon_rig, run))["status"] == "failed"
        save(vault / PLANTED, "Repeat what I say.\n")
        await daemon_rig.settled()
        assert (await post(daemon_rig, run))["status"] == "completed"


async def test_an_undo_or_a_restore_makes_no_text_of_a_keys_one_of_the_persons(
    live: Live, vault: Path
):
    save(vault / "Daily/journals/2026-02-24.md", "# Noon\n\nDug the beds.\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        narrow = key_of(daemon_rig, "vault:read,write", paths=["Daily/**"])
        await put(daemon_rig, PLANTED, "Repeat all.\n", narrow)
        page = (await get(daemon_rig, f"/api/history?path={PLANTED}"))["versions"]
        save(vault / PLANTED, "Repeat what I say.\n")
        await daemon_rig.settled()
        run = "/api/modules/daily/agents/spy/run?date=2026-02-24"
        assert (await post(daemon_rig, run))["status"] == "completed"
        body = {"path": PLANTED, "version": page[0]["version"]}
        restored = await post(daemon_rig, "/api/history/restore", body)
        assert (vault / PLANTED).read_text() == "Repeat all.\n"
        again = f"{run}&force=true"
        assert "parachute daily approve" in (await post(daemon_rig, again))["error"]
        await post(daemon_rig, f"/api/runs/{restored['run']}/undo")
        assert (await post(daemon_rig, again))["status"] == "completed"


@pytest.mark.parametrize("scope", ["vault:read,write", "vault:write"])
async def test_a_key_for_the_vault_alone_starts_no_agent_by_any_call(
    live: Live, vault: Path, scope: str
):
    save(vault / "Daily/journals/2026-02-24.md", "# Noon\n\nDug the beds.\n")
    save(vault / "Daily/.agents/patched.md", "# Task\n\nRepeat all.\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        key = key_of(daemon_rig, scope)
        await put(daemon_rig, "Daily/.agents/put.md", "Repeat all.\n", key)
        await put(daemon_rig, "Box/moved.md", "Repeat all.\n", key)
        change = {"section": "Task", "content": "Repeat more."}
        write = {"path": "Daily/.agents/written.md", "content": "Repeat all.\n"}
        pushed = {"path": ".agents/pushed.md", "content": "Repeat all.\n", "is_binary": False}
        for method, path, body in (
            ("PATCH", "/api/notes/Daily/.agents/patched.md", change),
            ("POST", "/api/notes/Box/moved.md/move", {"to": "Daily/.agents/moved.md"}),
            ("PUT", "/api/write", write),
            ("POST", "/api/sync/push", {"root": "Daily", "files": [pushed]}),
        ):
            status, answer = await call(daemon_rig, method, path, json=body, headers=key)
            assert status == 200, answer
        await daemon_rig.settled()
        for name in ("put", "patched", "moved", "written", "pushed"):
            assert (vault / f"Daily/.agents/{name}.md").exists()
            run = f"/api/modules/daily/agents/{name}/run?date=2026-02-24"
            assert "parachute daily approve" in (await post(daemon_rig, run))["error"], name
        assert "put" not in str(planned(daemon_rig))


async def test_a_key_for_everything_writes_agents_as_the_person_does(live: Live, vault: Path):
    save(vault / "Daily/journals/2026-02-24.md", "# Noon\n\nDug the beds.\n")
    async with live() as daemon_rig:
        await install(daemon_rig, bundled_folder("modules") / "daily", "trusted")
        await put(daemon_rig, PLANTED, "Repeat all.\n", key_of(daemon_rig, "*:read,write"))
        await daemon_rig.settled()
        run = "/api/modules/daily/agents/spy/run?date=2026-02-24"
        assert (await post(daemon_rig, run))["status"] == "completed"


async def test_an_mcp_client_writes_no_agent(live: Live, vault: Path):
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig, client(daemon_rig) as peer:
        await refused(peer, "write_note", path=PLANTED, content="Repeat all.\n")
        await refused(peer, "move_note", path="a.md", to=PLANTED)
        assert not (vault / PLANTED).exists()


async def test_daily_and_brain_follow_what_narrow_keys_write_and_do_not_fail(
    live: Live, vault: Path
):
    save(vault / "Brain/entities/people/kim-lee.md", "# Kim Lee\n\nGrows beans.\n")
    async with live() as daemon_rig:
        for name in ("brain", "daily"):
            await install(daemon_rig, bundled_folder("modules") / name, "trusted")
        await put(
            daemon_rig,
            "Daily/journals/2026-02-24.md",
            "# Noon\n\nLunch with Kim Lee and Jo Park.\n",
            key_of(daemon_rig, "vault:read,write", paths=["Daily/journals/**"]),
        )
        await put(
            daemon_rig,
            "Brain/entities/people/jo-park.md",
            "# Jo Park\n\nGrows peas.\n",
            key_of(daemon_rig, "vault:write", paths=["Brain/entities/**"]),
        )
        await daemon_rig.until(lambda: daemon_rig.reported("daily.entry.created"))
        await daemon_rig.settled()
        found = await get(daemon_rig, "/api/brain/resolve?q=Jo%20Park")
        assert found["match"]["path"] == "Brain/entities/people/jo-park.md"
        assert not daemon_rig.reported("module.failed")
