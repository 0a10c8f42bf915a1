"""`parachute permissions`: what agents ask for, and answering it at a terminal."""

from __future__ import annotations

import asyncio

from parachuted.agents.permission import PermissionRequest
from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import Live


async def test_what_an_agent_asks_for_is_listed_allowed_and_denied(
    live: Live, home, vault, tmp_path
):
    command_line = CommandLine(home=home, vault=vault, folder=tmp_path)

    async def does(*words: str) -> str:
        return await asyncio.to_thread(command_line.does, "permissions", *words)

    async with live() as daemon_rig:
        asked = daemon_rig.daemon.agents.permissions
        assert (await does("list")).startswith("No agent asks for anything.")
        wishes = [
            PermissionRequest(kind="read", what="Diary/a.md", why="it is named"),
            PermissionRequest(kind="bash", what=f"git log{' ' * 80}as root"),
            PermissionRequest(kind="write", what="b.md"),
        ]
        async with asyncio.TaskGroup() as group:
            runs = [
                group.create_task(
                    asked.ask(run="r1", session="s1", agent="work/helper", request=wish)
                )
                for wish in wishes
            ]
            await daemon_rig.until(lambda: len(asked.pending()) == 3)
            first, second, third = asked.pending()
            listed = (await does("list")).splitlines()
            asked_for = [
                line for line in listed if line.startswith(("wants", "which", "agent", "says"))
            ]
            assert [
                line.split()[1].rstrip(",") for line in listed if line.startswith("question")
            ] == [first.id, second.id, third.id]
            assert asked_for[:4] == [
                "agent     | work/helper",
                "wants       read",
                "which     | Diary/a.md",
                "says      | it is named",
            ]
            assert asked_for[6] == "which     | git log as root"
            assert (
                await does("allow", first.id) == "work/helper: read Diary/a.md is allowed once.\n"
            )
            assert (
                await does("allow", "--session", second.id)
                == "work/helper: bash git log as root is allowed for as long as its session "
                "lasts.\n"
            )
            assert (
                await does("deny", third.id)
                == "work/helper: write b.md is denied, and not asked again.\n"
            )
        assert [one.result() for one in runs] == [True, True, False]
        assert "never     | work/helper write b.md" in await does("list")
        assert (
            await does("forget", "work/helper")
            == "work/helper may ask again: 1 answer forgotten.\n"
        )
        assert (await does("forget", "helper")).startswith(
            "Nothing was denied to helper for ever; `parachute permissions list` shows"
        )
        assert "parachute permissions list" in await asyncio.to_thread(
            command_line.fails, 1, "permissions", "allow", "p-0"
        )
