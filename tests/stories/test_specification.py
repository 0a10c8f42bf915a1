"""The specification's own story on real files, with its project that works outside the vault: an
entry, a mention, an entity, a project, its parent, a chat, what it leaves, `why` and `undo`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import ScriptedMessages
from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import note, save
from tests.stories.specification_story import (
    ABOVE,
    CONTEXT,
    DAY,
    ENTRY,
    FACT,
    FILES,
    GUIDE,
    KEVIN,
    LINE,
    MET,
    OUTSIDE,
    SAID,
    StoryModel,
)


class Story:
    """A vault with the specification's project, a daemon, and the person's commands."""

    def __init__(self, command_line: CommandLine, model: StoryModel) -> None:
        self._command_line, self.model, self.vault = command_line, model, command_line.vault

    async def does(self, *words: str) -> str:
        return await asyncio.to_thread(self._command_line.does, *words)

    async def json(self, *words: str) -> Any:
        return json.loads(await self.does(*words, "--json"))

    async def until_it_says(self, path: str, text: str) -> None:
        await self._until(lambda: text in (self.vault / path).read_text())

    async def until_woken(self, watcher: str, times: int = 1) -> None:
        def is_woken() -> bool:
            runs = self._command_line.json("runs")["runs"]
            ended = [run for run in runs if run["outcome"] != "running"]
            return [one["watcher"] for one in ended].count(watcher) >= times

        await self._until(is_woken)

    async def until_at_rest(self) -> None:
        def is_at_rest() -> bool:
            runs = self._command_line.json("runs")["runs"]
            return not self._command_line.json("tasks")["tasks"] and all(
                run["outcome"] != "running" for run in runs
            )

        await self._until(is_at_rest)

    def line_of(self, path: str, text: str) -> str:
        found = (self.vault / path).read_text().splitlines()
        return f"{path}:{next(n for n, line in enumerate(found, 1) if text in line)}"

    async def _until(self, condition: Any) -> None:
        await asyncio.to_thread(self._command_line.until, condition)

    async def suggested(self, text: str) -> None:
        def is_there() -> bool:
            return any(
                text in path.read_text() for path in (self.vault / "Suggestions").glob("*.md")
            )

        await self._until(is_there)

    async def chats(self) -> str:
        """A chat about the project, and the id of the conversation."""
        await self.does("chat", "--context", "Projects/parachute", SAID)
        assert any(GUIDE.splitlines()[-1] in one for one in self.model.asked)
        (session,) = (await self.json("chat", "--list"))["sessions"]
        return str(session["id"])


@asynccontextmanager
async def told(home: Path, vault: Path, tmp_path: Path, *approved: str) -> AsyncIterator[Story]:
    model = StoryModel()
    for path, text in FILES.items():
        save(vault / path, text)
    save(vault / ABOVE, note("All of it", watch=["Projects/*"]))
    save(tmp_path / OUTSIDE, GUIDE)
    async with ScriptedMessages([model] * 500) as api:
        command_line = CommandLine(
            home=home,
            vault=vault,
            folder=tmp_path,
            environ={
                "PARACHUTE_AGENT_BACKEND": "claude",
                "PARACHUTE_AGENT_BASE_URL": api.url,
                "ANTHROPIC_API_KEY": "sk-ant-api03-test",
                "PARACHUTE_BUBBLE_QUIET_S": "0.05",
            },
        )
        story = Story(command_line, model)
        try:
            await story.does("init", str(vault))
            for folder in approved:
                await story.does("config", "set", "agent.own_folders", folder)
            await story.does("start", "--port", "0")
            for name in ("brain", "daily", "chat"):
                source = str(bundled_folder("modules") / name)
                await story.does("modules", "install", source, "--trust", "trusted", "--yes")
            yield story
        finally:
            for pid in command_line.started():
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def tell(home: Path, vault: Path, tmp_path: Path) -> partial[Any]:
    return partial(told, home, vault, tmp_path)


async def test_an_entry_reaches_its_project_and_a_chat_leaves_what_it_settled(tell):
    async with tell("~/Projects/parachute") as story:
        save(story.vault / DAY, ENTRY)
        await story.until_it_says(DAY, "mentions:")
        await story.until_it_says(KEVIN, "para_id: ")
        await story.until_it_says(CONTEXT, MET)
        await story.until_woken(ABOVE)

        session = await story.chats()
        await story.until_it_says(KEVIN, FACT)
        await story.until_it_says(CONTEXT, LINE)
        await story.until_woken(ABOVE, 2)
        await story.until_woken(CONTEXT, 2)
        await story.until_at_rest()

        assert session in await story.does("why", story.line_of(KEVIN, FACT))
        assert "chat/curator" in await story.does("why", story.line_of(CONTEXT, LINE))
        assert f"since {KEVIN}" in await story.does("why", story.line_of(CONTEXT, MET))
        await story.does("undo", "--session", session, "--yes")
        assert FACT not in (story.vault / KEVIN).read_text()
        project = (story.vault / CONTEXT).read_text()
        assert LINE not in project
        assert MET in project
        assert (story.vault / DAY).read_text().endswith(ENTRY)


async def test_a_chat_in_a_folder_that_only_a_note_names_suggests(tell):
    async with tell() as story:
        await story.chats()

        await story.suggested(FACT)
        await story.suggested(LINE)
        await story.suggested("in the setting `agent.own_folders`")
        assert FACT not in (story.vault / KEVIN).read_text()
        assert LINE not in (story.vault / CONTEXT).read_text()
