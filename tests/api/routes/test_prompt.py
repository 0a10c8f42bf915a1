"""Prompt: the preview that the app shows."""

from __future__ import annotations

from pathlib import Path

import pytest_asyncio

from tests.api.calls import error, expect, get, noticed
from tests.stories.daemon_rig import DaemonRig, note, save

PREVIEW = "/api/prompt/preview"


@pytest_asyncio.fixture(loop_scope="module")
async def tree(vault: Path, daemon_rig: DaemonRig) -> Path:
    save(vault / "AGENTS.md", note("Everything"))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    save(vault / "Projects/garden/CLAUDE.md", "# Tools\n")
    save(vault / "Chat/contexts/old.md", "# Old words\n")
    save(vault / "Agents/helper.md", "---\nname: Helper\n---\nYou help.\n")
    await noticed(daemon_rig)
    return vault


async def test_the_preview_is_the_prompt_and_what_it_is_made_of(tree: Path, daemon_rig: DaemonRig):
    contexts, folder = ".,Projects/garden,Chat/contexts/old.md", "Projects/garden"
    query = f"contexts={contexts}&workingDirectory={folder}"
    preview = await get(daemon_rig, f"{PREVIEW}?{query}")

    assert preview == preview | {
        "contextFiles": ["AGENTS.md", "Chat/contexts/old.md", "Projects/garden/AGENTS.md"],
        "workingDirectoryClaudeMd": "Projects/garden/CLAUDE.md",
        "promptSource": "default",
        "promptSourcePath": None,
        "agentName": None,
        "contextTruncated": False,
        "trustMode": False,
        "brain_context_loaded": False,
    }
    tokens = [file["tokens"] for file in preview["files"] if file["included"]]
    assert preview["contextTokens"] == sum(tokens)
    assert preview["totalPromptTokens"] == -(-len(preview["prompt"].encode()) // 4)


async def test_an_agent_is_a_note_of_the_vault(tree: Path, daemon_rig: DaemonRig):
    preview = await get(daemon_rig, f"{PREVIEW}?agentPath=Agents/helper.md")
    agent = {"prompt": "You help.\n", "agentName": "Helper", "promptSource": "agent"}
    assert preview == preview | agent | {"promptSourcePath": "Agents/helper.md"}
    await expect(daemon_rig, 404, "GET", f"{PREVIEW}?agentPath=Agents/none.md")
    assert await error(daemon_rig, "GET", f"{PREVIEW}?agentPath=Agents") in {400, 404}


async def test_the_working_folder_lies_in_the_vault_however_it_is_named(
    tree: Path, daemon_rig: DaemonRig
):
    secret = tree.parent / "secret"
    secret.mkdir()
    (secret / "CLAUDE.md").write_text("secret")
    (tree / "link").symlink_to(secret)
    for name in (f"{tree}/Projects/garden", f"{tree}/Projects/garden/", "Projects/garden/"):
        preview = await get(daemon_rig, f"{PREVIEW}?workingDirectory={name}")
        assert preview["workingDirectoryClaudeMd"] == "Projects/garden/CLAUDE.md"
    for name in (str(tree), ".", "", "Nowhere"):
        preview = await get(daemon_rig, f"{PREVIEW}?workingDirectory={name}")
        assert preview["workingDirectoryClaudeMd"] is None
    for name in (f"{tree}/../secret", f"{secret}", f"{tree}2", "/etc", "../secret", "~"):
        await expect(daemon_rig, 400, "GET", f"{PREVIEW}?workingDirectory={name}")
    preview = await get(daemon_rig, f"{PREVIEW}?workingDirectory=link&contexts=link")
    assert (preview["workingDirectoryClaudeMd"], preview["contextFiles"]) == (None, [])
    for path in ("link/CLAUDE.md", ".parachute/x.md"):
        await expect(daemon_rig, 404, "GET", f"{PREVIEW}?agentPath={path}")


async def test_the_budget_is_fifty_thousand_tokens_unless_said_otherwise(
    vault: Path, daemon_rig: DaemonRig
):
    for number in range(3):
        save(vault / f"big/{number}/AGENTS.md", "x" * 100_000)
    await noticed(daemon_rig)
    where = f"{PREVIEW}?contexts=big/0,big/1,big/2"
    for most, tokens, is_cut in (("", 50_000, True), ("&max_tokens=100000", 75_000, False)):
        preview = await get(daemon_rig, where + most)
        assert (preview["contextTokens"], preview["contextTruncated"]) == (tokens, is_cut)
