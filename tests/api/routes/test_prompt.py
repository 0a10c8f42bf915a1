"""Prompt: the preview that the app shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.calls import error, expect, get
from tests.stories.daemon_rig import DaemonRig, note, save


@pytest.fixture
def tree(vault: Path) -> Path:
    save(vault / "AGENTS.md", note("Everything"))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    save(vault / "Projects/garden/CLAUDE.md", "# Tools\n")
    save(vault / "Chat/contexts/old.md", "# Old words\n")
    save(vault / "Agents/helper.md", "---\nname: Helper\n---\nYou help.\n")
    return vault


async def test_the_preview_is_the_prompt_and_what_it_is_made_of(tree: Path, daemon_rig: DaemonRig):
    preview = await get(
        daemon_rig,
        "/api/prompt/preview?contexts=.,Projects/garden,Chat/contexts/old.md&workingDirectory=Projects/garden",
    )

    assert preview["contextFiles"] == [
        "AGENTS.md",
        "Chat/contexts/old.md",
        "Projects/garden/AGENTS.md",
    ]
    assert preview["workingDirectoryClaudeMd"] == "Projects/garden/CLAUDE.md"
    assert preview["contextTokens"] == sum(
        file["tokens"] for file in preview["files"] if file["included"]
    )
    assert preview["totalPromptTokens"] == -(-len(preview["prompt"].encode()) // 4)
    assert (preview["promptSource"], preview["promptSourcePath"], preview["agentName"]) == (
        "default",
        None,
        None,
    )
    assert (preview["contextTruncated"], preview["trustMode"], preview["brain_context_loaded"]) == (
        False,
        False,
        False,
    )


async def test_an_agent_is_a_note_of_the_vault(tree: Path, daemon_rig: DaemonRig):
    preview = await get(daemon_rig, "/api/prompt/preview?agentPath=Agents/helper.md")
    assert (preview["prompt"], preview["agentName"]) == ("You help.\n", "Helper")
    assert preview == preview | {"promptSource": "agent", "promptSourcePath": "Agents/helper.md"}
    await expect(daemon_rig, 404, "GET", "/api/prompt/preview?agentPath=Agents/none.md")
    assert await error(daemon_rig, "GET", "/api/prompt/preview?agentPath=Agents") in {
        400,
        404,
    }


async def test_the_working_folder_may_be_named_as_the_disk_has_it(
    tree: Path, daemon_rig: DaemonRig
):
    for name in (f"{tree}/Projects/garden", f"{tree}/Projects/garden/", "Projects/garden/"):
        preview = await get(daemon_rig, f"/api/prompt/preview?workingDirectory={name}")
        assert preview["workingDirectoryClaudeMd"] == "Projects/garden/CLAUDE.md"
    for name in (str(tree), ".", "", "Nowhere"):
        assert (await get(daemon_rig, f"/api/prompt/preview?workingDirectory={name}"))[
            "workingDirectoryClaudeMd"
        ] is None


async def test_outside_of_the_vault_there_is_no_working_folder(tree: Path, daemon_rig: DaemonRig):
    (tree.parent / "secret").mkdir()
    (tree.parent / "secret/CLAUDE.md").write_text("secret")
    (tree / "link").symlink_to(tree.parent / "secret")
    for name in (
        f"{tree}/../secret",
        f"{tree.parent}/secret",
        f"{tree}2",
        "/etc",
        "../secret",
        "~",
    ):
        await expect(daemon_rig, 400, "GET", f"/api/prompt/preview?workingDirectory={name}")
    preview = await get(daemon_rig, "/api/prompt/preview?workingDirectory=link&contexts=link")
    assert (preview["workingDirectoryClaudeMd"], preview["contextFiles"]) == (None, [])
    await expect(daemon_rig, 404, "GET", "/api/prompt/preview?agentPath=link/CLAUDE.md")
    await expect(daemon_rig, 404, "GET", "/api/prompt/preview?agentPath=.parachute/x.md")


async def test_the_budget_is_fifty_thousand_tokens_unless_said_otherwise(
    tree: Path, daemon_rig: DaemonRig
):
    for number in range(3):
        save(tree / f"big/{number}/AGENTS.md", "x" * 100_000)
    usual = await get(daemon_rig, "/api/prompt/preview?contexts=big/0,big/1,big/2")
    more = await get(daemon_rig, "/api/prompt/preview?contexts=big/0,big/1,big/2&max_tokens=100000")

    assert (usual["contextTokens"], usual["contextTruncated"]) == (50_000, True)
    assert (more["contextTokens"], more["contextTruncated"]) == (75_000, False)
