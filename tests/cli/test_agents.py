"""`parachute agents` and `parachute sandbox explain`, as they are typed: cli/agents.py."""

from __future__ import annotations

import asyncio

from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import Live, note, save


async def test_agents_are_listed_audited_explained_and_a_note_is_trusted(
    live: Live, home, vault, tmp_path
):
    command_line = CommandLine(home=home, vault=vault, folder=tmp_path)
    save(vault / "Work/AGENTS.md", note("Work", watch=["Work/*.md"]))
    save(vault / "Work/plan.md", "# Plan\n")
    save(vault / "Inbox/mail.md", "# Mail\n")

    async def does(*words: str) -> str:
        return await asyncio.to_thread(command_line.does, *words)

    async with live() as daemon_rig:
        await daemon_rig.settled()
        listed = (await does("agents", "list")).splitlines()
        assert (await does("agents")).splitlines() == listed
        assert [line.split()[0] for line in listed[1:3]] == ["curator", "maintenance"]
        assert "No agent has private data, strangers' text and a way out at once." in await does(
            "agents", "audit"
        )
        explained = await does("sandbox", "explain", "curator")
        for part in (
            "runs here  yes",
            "writes     1 file:",
            "Work/AGENTS.md",
            "Work/plan.md",
            "network    no",
            "container  none",
        ):
            assert part in explained
        reported = await asyncio.to_thread(command_line.fails, 1, "sandbox", "explain", "nobody")
        assert "there is no agent" in reported
        assert (
            await does("agents", "trust", "Inbox/mail.md")
            == "Inbox/mail.md is trusted now, as it is; it counted as imported.\n"
        )
        assert (
            await does("agents", "trust", "Work/plan.md") == "Work/plan.md was trusted already.\n"
        )
