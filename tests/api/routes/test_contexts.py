from __future__ import annotations

from pathlib import Path

import pytest_asyncio

from tests.api.calls import code, expect, get, noticed
from tests.stories.daemon_rig import DaemonRig, Live, note, save

SESSION = "/api/contexts/session/s"


@pytest_asyncio.fixture(loop_scope="module")
async def tree(vault: Path, daemon_rig: DaemonRig) -> Path:
    """A vault with context files of both names, and one note that is none."""
    save(vault / "AGENTS.md", note("Everything"))
    save(vault / "Areas/home/CLAUDE.md", note("Home"))
    save(vault / "Projects/AGENTS.md", note("Projects", watch=["Areas/home"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    save(vault / "Projects/garden/CLAUDE.md", note("Garden"))
    save(vault / "Daily/today.md", note("Today"))
    await noticed(daemon_rig)
    return vault


async def test_a_chain_has_what_is_chosen_and_watched_and_lists_parents(
    tree, daemon_rig: DaemonRig
):
    answer = await get(daemon_rig, "/api/contexts/chain?folders=Projects")
    files, fields = answer["files"], ("path", "folder_path", "level", "included")

    assert [tuple(file[field] for field in fields) for file in files] == [
        ("AGENTS.md", "", "root", False),
        ("Areas/home/CLAUDE.md", "Areas/home", "watched", True),
        ("Projects/AGENTS.md", "Projects", "direct", True),
    ]
    assert all(file["exists"] is True and type(file["tokens"]) is int for file in files)
    assert answer["total_tokens"] == sum(file["tokens"] for file in files if file["included"])
    assert answer["truncated"] is False
    below = (await get(daemon_rig, "/api/contexts/chain?folders=Projects/garden"))["files"]
    assert [(file["path"], file["level"]) for file in below if not file["included"]] == [
        ("AGENTS.md", "root"),
        ("Projects/AGENTS.md", "parent"),
    ]


async def test_names_that_are_no_utf8_do_not_break_the_answer(vault, daemon_rig: DaemonRig):
    save(vault / "b\udcff/AGENTS.md", note("Odd"))
    await noticed(daemon_rig)
    folders = (await get(daemon_rig, "/api/contexts/folders"))["folders"]
    files = (await get(daemon_rig, "/api/contexts/chain?folders=b%FF"))["files"]
    assert (folders[0]["path"], files[0]["path"]) == ("b\\xff", "b\\xff/AGENTS.md")


async def test_the_listing_follows_the_disk(tree, daemon_rig: DaemonRig):
    before = await get(daemon_rig, "/api/contexts/folders")
    save(tree / "Daily/note.md", note("No context"))
    await noticed(daemon_rig)
    assert await get(daemon_rig, "/api/contexts/folders") == before
    save(tree / "Daily/CLAUDE.md", note("Daily"))
    (tree / "AGENTS.md").write_text("x" * 4000)
    await noticed(daemon_rig)
    folders = (await get(daemon_rig, "/api/contexts/folders"))["folders"]

    paths = [folder["path"] for folder in folders]
    assert paths == ["", "Areas/home", "Daily", "Projects", "Projects/garden"]
    assert folders[0]["tokens"] == 1000


async def test_a_session_keeps_what_was_chosen_for_it_through_a_restart(live: Live, vault):
    for folder in ("", "Areas/home/", "Projects/garden/"):
        save(vault / f"{folder}AGENTS.md", note("Here"))
    session, garden = "/api/contexts/session/0b8b0c62", "Projects/garden"
    async with live() as daemon_rig:
        assert (await get(daemon_rig, session))["folder_paths"] == []
        chosen = [garden, "", f"{garden}/", "Areas/home", "Chat/contexts/old.md"]
        body = {"folderPaths": chosen, "unknown": 1}
        await expect(daemon_rig, 200, "PUT", session, json=body)
    async with live() as daemon_rig:
        chosen = await get(daemon_rig, session)
        assert chosen["folder_paths"] == [garden, "", "Areas/home", "Chat/contexts/old.md"]
        assert chosen["missing"] == ["Chat/contexts/old.md"]
        body = {"folder_paths": [garden, "Nope"]}
        chosen = await expect(daemon_rig, 200, "PUT", f"{session}1", json=body)
        assert (chosen["folder_paths"], chosen["missing"]) == ([garden, "Nope"], ["Nope"])
        cleared = await expect(daemon_rig, 200, "PUT", session, json={"folder_paths": []})
        assert cleared["folder_paths"] == []


async def test_what_is_not_a_list_of_folders_is_refused_and_changes_nothing(daemon_rig: DaemonRig):
    hundred = [str(number) for number in range(100)]
    await expect(daemon_rig, 200, "PUT", SESSION, json={"folder_paths": hundred})
    for body in (
        {},
        {"folder_paths": None},
        {"folder_paths": "a"},
        {"folder_paths": [1]},
        {"folder_paths": ["../x"]},
        {"folder_paths": ["/etc"]},
        {"folder_paths": ["a", "~"]},
        {"folder_paths": ["a" * 5000]},
        {"folder_paths": [*hundred, "more"]},
    ):
        await expect(daemon_rig, 400, "PUT", SESSION, json=body)
    names = ",".join([*hundred, "more"])
    await expect(daemon_rig, 400, "GET", f"/api/contexts/chain?folders={names}")
    assert (await get(daemon_rig, SESSION))["folder_paths"] == hundred


async def test_what_is_not_an_id_of_a_session_is_refused(daemon_rig: DaemonRig):
    for session in ["x" * 201, "a%00b", "a%0ab", "%20", "a%1bb", "%E2%80%AE"]:
        path, body = f"/api/contexts/session/{session}", {"folder_paths": []}
        for method in ("GET", "PUT"):
            assert await code(daemon_rig, method, path, json=body) in {400, 403}
