from __future__ import annotations

import pytest

from tests.api.calls import call, code, expect, get, post
from tests.stories.daemon_rig import DaemonRig, Live, note, save


@pytest.fixture
def tree(vault):
    """A vault with context files of both names, and one note that is none."""
    save(vault / "AGENTS.md", note("Everything"))
    save(vault / "Areas/home/CLAUDE.md", note("Home"))
    save(vault / "Projects/AGENTS.md", note("Projects", watch=["Areas/home"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    save(vault / "Projects/garden/CLAUDE.md", note("Garden"))
    save(vault / "Daily/today.md", note("Today"))
    return vault


async def test_a_chain_is_what_is_chosen_and_watched_and_lists_parents_without_them(
    tree, daemon_rig: DaemonRig
):
    answer = await get(daemon_rig, "/api/contexts/chain?folders=Projects")
    below = await get(daemon_rig, "/api/contexts/chain?folders=Projects/garden")

    assert [
        (file["path"], file["folder_path"], file["level"], file["included"])
        for file in answer["files"]
    ] == [
        ("AGENTS.md", "", "root", False),
        ("Areas/home/CLAUDE.md", "Areas/home", "watched", True),
        ("Projects/AGENTS.md", "Projects", "direct", True),
    ]
    assert all(file["exists"] is True and type(file["tokens"]) is int for file in answer["files"])
    assert answer["total_tokens"] == sum(
        file["tokens"] for file in answer["files"] if file["included"]
    )
    assert answer["truncated"] is False
    assert [(file["path"], file["level"]) for file in below["files"] if not file["included"]] == [
        ("AGENTS.md", "root"),
        ("Projects/AGENTS.md", "parent"),
    ]


async def test_names_that_are_no_utf8_do_not_break_the_answer(vault, daemon_rig: DaemonRig):
    save(vault / "b\udcff/AGENTS.md", note("Odd"))
    assert (await get(daemon_rig, "/api/contexts/folders"))["folders"][0]["path"] == "b\\xff"
    assert (await get(daemon_rig, "/api/contexts/chain?folders=b%FF"))["files"][0][
        "path"
    ] == "b\\xff/AGENTS.md"


async def test_the_listing_follows_the_disk(tree, daemon_rig: DaemonRig):
    before = await get(daemon_rig, "/api/contexts/folders")
    save(tree / "Daily/note.md", note("No context"))
    await daemon_rig.settled()
    assert await get(daemon_rig, "/api/contexts/folders") == before
    save(tree / "Daily/CLAUDE.md", note("Daily"))
    (tree / "AGENTS.md").write_text("x" * 4000)
    await daemon_rig.settled()
    after = await get(daemon_rig, "/api/contexts/folders")

    assert [folder["path"] for folder in after["folders"]] == [
        "",
        "Areas/home",
        "Daily",
        "Projects",
        "Projects/garden",
    ]
    assert after["folders"][0]["tokens"] == 1000


async def test_a_session_keeps_what_was_chosen_for_it_through_a_restart(live: Live, tree):
    session = "/api/contexts/session/0b8b0c62-55e4-4b70-9b6a-7b4c5a3a9a10"
    async with live() as daemon_rig:
        assert (await get(daemon_rig, session))["folder_paths"] == []
        await call(
            daemon_rig,
            "PUT",
            session,
            json={"folder_paths": ["Projects/garden", "", "Projects/garden/"], "unknown": 1},
        )
        await post(daemon_rig, f"{session}/add", {"folderPaths": ["Areas/home", "Projects/garden"]})
        await post(daemon_rig, f"{session}/add", {"folder_path": "Chat/contexts/old.md"})
    async with live() as daemon_rig:
        assert (await get(daemon_rig, session))["folder_paths"] == [
            "Projects/garden",
            "",
            "Areas/home",
            "Chat/contexts/old.md",
        ]
        assert (await get(daemon_rig, session))["missing"] == ["Chat/contexts/old.md"]
        status, chosen = await call(
            daemon_rig,
            "PUT",
            session.replace("0b8b", "1111"),
            json={"folder_paths": ["Projects/garden", "Nope"]},
        )
        assert (status, chosen["folder_paths"], chosen["missing"]) == (
            200,
            ["Projects/garden", "Nope"],
            ["Nope"],
        )
        assert (await post(daemon_rig, f"{session}/remove", {"folder_paths": ["", "Nowhere"]}))[
            "folder_paths"
        ] == ["Projects/garden", "Areas/home", "Chat/contexts/old.md"]
        status, cleared = await call(daemon_rig, "PUT", session, json={"folder_paths": []})
        assert (status, cleared["folder_paths"]) == (200, [])


async def test_what_is_not_a_list_of_folders_is_refused_and_changes_nothing(
    tree, daemon_rig: DaemonRig
):
    await call(daemon_rig, "PUT", "/api/contexts/session/s", json={"folder_paths": ["Projects"]})
    bodies = [
        {},
        {"folder_paths": None},
        {"folder_paths": "a"},
        {"folder_paths": [1]},
        {"folder_paths": ["../x"]},
        {"folder_paths": ["/etc"]},
        {"folder_paths": ["a", "~"]},
        {"folder_paths": ["a" * 5000]},
        {"folder_paths": [str(number) for number in range(101)]},
    ]
    for body in bodies:
        await expect(daemon_rig, 400, "PUT", "/api/contexts/session/s", json=body)
    assert (await get(daemon_rig, "/api/contexts/session/s"))["folder_paths"] == ["Projects"]


async def test_more_than_a_hundred_are_refused_however_they_come(tree, daemon_rig: DaemonRig):
    await call(
        daemon_rig,
        "PUT",
        "/api/contexts/session/s",
        json={"folder_paths": [str(number) for number in range(100)]},
    )
    await expect(
        daemon_rig, 400, "POST", "/api/contexts/session/s/add", json={"folder_path": "more"}
    )
    names = ",".join(str(number) for number in range(101))
    await expect(daemon_rig, 400, "GET", f"/api/contexts/chain?folders={names}")


async def test_what_is_not_an_id_of_a_session_is_refused(daemon_rig: DaemonRig):
    for session in ["x" * 201, "a%00b", "a%0ab", "%20", "a%1bb", "%E2%80%AE"]:
        for method in ("GET", "PUT"):
            assert await code(
                daemon_rig, method, f"/api/contexts/session/{session}", json={"folder_paths": []}
            ) in {400, 403}
