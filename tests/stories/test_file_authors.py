"""What follows from a saved file reaches no further than who saved it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.api.calls import call, get, key_of, post
from tests.api.routes.test_modules import install
from tests.mcp.peers import client, refused
from tests.modules.small_modules import write_module
from tests.stories.daemon_rig import DaemonRig, Live, save, shared_daemon
from tests.stories.official_modules import install_official

pytestmark = pytest.mark.asyncio(loop_scope="module")
JO = "Brain/entities/people/jo-park.md"
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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daily(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DaemonRig]:
    """A daemon with Daily and a day; each test has agents of its own there."""
    async with shared_daemon(tmp_path_factory.mktemp("authors")) as daemon_rig:
        save(daemon_rig.vault / "Daily/journals/2026-02-24.md", "# Noon\n\nDug the beds.\n")
        await install_official(daemon_rig, "daily")
        yield daemon_rig


async def put(daemon_rig: DaemonRig, path: str, text: str, headers: dict[str, str]) -> None:
    status, answer = await call(
        daemon_rig,
        "PUT",
        f"/api/notes/{path}",
        data=text.encode(),
        headers={**headers, "Content-Type": "text/markdown", "If-None-Match": "*"},
    )
    assert status in {200, 201}, answer


def file_of(agent: str) -> str:
    return f"Daily/.agents/{agent}.md"


async def run(daemon_rig: DaemonRig, agent: str) -> dict:
    """What became of a run of that agent."""
    path = f"/api/modules/daily/agents/{agent}/run?date=2026-02-24&force=true"
    return await post(daemon_rig, path)


def planned(daemon_rig: DaemonRig) -> str:
    """The names of all modules' schedules."""
    schedules = daemon_rig.daemon.modules.manager.scheduler.schedules()
    return str([schedule.key for schedule in schedules])


async def test_a_module_copies_nothing_for_a_key_that_the_key_may_not_read(
    live: Live, vault: Path, tmp_path: Path
):
    """For a key for the vault, and for a person at an editor, it does."""
    save(vault / "Private/plan.md", "# Plan\n\nNobody else knows.\n")
    copied = vault / "Box/out.md"
    async with live() as daemon_rig:
        module = write_module(tmp_path / "copier", COPIES, name="copier", manifest=MANIFEST)
        await install(daemon_rig, module, "trusted")
        narrow = key_of(daemon_rig, "vault:read,write", paths=["Box/**"])
        await put(daemon_rig, "Box/in.md", "# In\n", narrow)
        await daemon_rig.until(lambda: daemon_rig.reported("copier.began"))
        await daemon_rig.until(lambda: daemon_rig.reported("module.failed"))
        assert not copied.exists()

        await put(daemon_rig, "Box/in-of-mine.md", "# In\n", key_of(daemon_rig, "vault:read,write"))
        await daemon_rig.until(copied.exists)
        copied.unlink()
        save(vault / "Box/in-by-hand.md", "# In\n")
        await daemon_rig.until(copied.exists)


@pytest.mark.parametrize(("agent", "paths"), [("spy", ["Daily/.agents/*"]), ("mole", ["Daily/**"])])
async def test_an_agent_that_a_narrow_key_planted_runs_when_a_person_approved_it(
    daily: DaemonRig, agent: str, paths: list[str]
):
    text = f"---\noutput: Daily/.agents/out/{agent}-{{date}}.md\n---\nRepeat all.\n"
    key = key_of(daily, "vault:read,write", paths=paths)
    await put(daily, file_of(agent), text, key)
    await daily.settled()

    refused = await run(daily, agent)
    assert (refused["status"], refused["output_path"]) == ("failed", None)
    assert f"parachute daily approve {agent}" in refused["error"]
    assert agent not in planned(daily)
    assert file_of(agent) in str(await get(daily, "/api/doctor"))

    key = key_of(daily, "*:read,write")
    approve = "/api/modules/daily/commands/approve"
    status, _ = await call(daily, "POST", approve, json={"name": agent}, headers=key)
    assert status == 403
    await post(daily, approve, {"name": agent})
    assert (await run(daily, agent))["status"] == "completed"
    assert agent in planned(daily)


async def test_a_limited_key_that_changes_an_agent_of_a_persons_stops_it(daily: DaemonRig):
    file = daily.vault / file_of("changed")
    save(file, "Repeat all.\n")
    await daily.settled()
    narrow = key_of(daily, "vault:read,write", paths=["Daily/**"])
    more = {**narrow, "Content-Type": "text/markdown", "If-Match": "*"}
    path = f"/api/notes/{file_of('changed')}"
    status, answer = await call(daily, "PUT", path, data=b"Repeat more.\n", headers=more)
    assert status == 200, answer
    assert (await run(daily, "changed"))["status"] == "failed"
    save(file, "Repeat what I say.\n")
    await daily.settled()
    assert (await run(daily, "changed"))["status"] == "completed"


async def test_an_undo_or_a_restore_makes_no_text_of_a_keys_one_of_the_persons(daily: DaemonRig):
    path = file_of("restored")
    narrow = key_of(daily, "vault:read,write", paths=["Daily/**"])
    await put(daily, path, "Repeat all.\n", narrow)
    page = (await get(daily, f"/api/history?path={path}"))["versions"]
    save(daily.vault / path, "Repeat what I say.\n")
    await daily.settled()
    assert (await run(daily, "restored"))["status"] == "completed"
    body = {"path": path, "version": page[0]["version"]}
    restored = await post(daily, "/api/history/restore", body)
    assert (daily.vault / path).read_text() == "Repeat all.\n"
    assert "parachute daily approve" in (await run(daily, "restored"))["error"]
    await post(daily, f"/api/runs/{restored['run']}/undo")
    assert (await run(daily, "restored"))["status"] == "completed"


@pytest.mark.parametrize(("end", "scope"), [("-a", "vault:read,write"), ("-b", "vault:write")])
async def test_a_key_for_the_vault_alone_starts_no_agent_by_any_call(
    daily: DaemonRig, end: str, scope: str
):
    save(daily.vault / file_of(f"patched{end}"), "# Task\n\nRepeat all.\n")
    await daily.settled()
    key = key_of(daily, scope)
    await put(daily, file_of(f"put{end}"), "Repeat all.\n", key)
    await put(daily, f"Box/moved{end}.md", "Repeat all.\n", key)
    change = {"section": "Task", "content": "Repeat more."}
    write = {"path": file_of(f"written{end}"), "content": "Repeat all.\n"}
    pushed = {"path": f".agents/pushed{end}.md", "content": "Repeat all.\n", "is_binary": False}
    moved = f"/api/notes/Box/moved{end}.md/move"
    for method, path, body in (
        ("PATCH", f"/api/notes/{file_of(f'patched{end}')}", change),
        ("POST", moved, {"to": file_of(f"moved{end}")}),
        ("PUT", "/api/write", write),
        ("POST", "/api/sync/push", {"root": "Daily", "files": [pushed]}),
    ):
        status, answer = await call(daily, method, path, json=body, headers=key)
        assert status == 200, answer
    await daily.settled()
    for how in ("put", "patched", "moved", "written", "pushed"):
        assert (daily.vault / file_of(f"{how}{end}")).exists()
        assert "parachute daily approve" in (await run(daily, f"{how}{end}"))["error"], how
    assert f"put{end}" not in planned(daily)


async def test_a_key_for_everything_writes_agents_as_the_person_does(daily: DaemonRig):
    await put(daily, file_of("mine"), "Repeat all.\n", key_of(daily, "*:read,write"))
    await daily.settled()
    assert (await run(daily, "mine"))["status"] == "completed"


async def test_an_mcp_client_writes_no_agent(daily: DaemonRig):
    save(daily.vault / "a.md", "# A\n")
    await daily.settled()
    async with client(daily) as peer:
        await refused(peer, "write_note", path=file_of("theirs"), content="Repeat all.\n")
        await refused(peer, "move_note", path="a.md", to=file_of("theirs"))
    assert not (daily.vault / file_of("theirs")).exists()


async def test_daily_and_brain_follow_what_narrow_keys_write_and_do_not_fail(
    live: Live, vault: Path
):
    save(vault / "Brain/entities/people/kim-lee.md", "# Kim Lee\n\nGrows beans.\n")
    async with live() as daemon_rig:
        await install_official(daemon_rig, "brain", "daily")
        diarist = key_of(daemon_rig, "vault:read,write", paths=["Daily/journals/**"])
        text = "# Noon\n\nLunch with Kim Lee and Jo Park.\n"
        await put(daemon_rig, "Daily/journals/2026-02-24.md", text, diarist)
        friend = key_of(daemon_rig, "vault:write", paths=["Brain/entities/**"])
        await put(daemon_rig, JO, "# Jo Park\n\nGrows peas.\n", friend)
        await daemon_rig.until(lambda: daemon_rig.reported("daily.entry.created"))
        await daemon_rig.settled()
        found = await get(daemon_rig, "/api/brain/resolve?q=Jo%20Park")
        assert found["match"]["path"] == JO
        assert not daemon_rig.reported("module.failed")
