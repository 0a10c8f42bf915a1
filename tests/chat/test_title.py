"""Titles: the one that a person gave is never overwritten, however close the race."""

from __future__ import annotations

import asyncio
from pathlib import Path

from parachuted.errors import EditRefusedError
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import acting_as_owner, conversations, files, session, sessions_of


async def _by_curator(chat: ModuleHarness, session_id: str, title: str) -> str:
    """What becomes of a title that the curator gives: done, or the error's name."""
    with acting_as_owner():
        try:
            await sessions_of(chat).change(session_id, title=title, title_source="ai")
        except EditRefusedError as error:
            return type(error).__name__
        return "done"


async def test_a_title_typed_a_moment_ago_is_protected_before_its_event_comes(
    chat: ModuleHarness, vault: Path
):
    made = (await conversations(chat).create())["id"]
    await _by_curator(chat, made, "Beans")
    (name,) = files(vault)
    path = vault / "Chat/sessions" / name
    path.write_text(path.read_text().replace("title: Beans", "title: Mine"))

    assert await _by_curator(chat, made, "Beans and peas") == "TitleProtectedError"

    found = await session(chat, made)
    assert (found["title"], found["metadata"]["title_source"]) == ("Mine", "user")


async def test_in_a_race_the_persons_title_wins(chat: ModuleHarness):
    for turns in (0, 7, 14):  # so that it comes at another point of the others' work
        made = (await conversations(chat).create())["id"]

        async def rename(session_id: str = made, turns: int = turns) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await chat.request("PATCH", f"/{session_id}", body={"title": "Mine"})

        await asyncio.gather(
            rename(), *(_by_curator(chat, made, f"Beans {number}") for number in range(3))
        )
        found = await session(chat, made)
        assert (found["title"], found["metadata"]["title_source"]) == ("Mine", "user")
