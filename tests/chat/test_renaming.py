"""A session is found at each moment, also while its file gets another name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from parachuted.testing import ModuleHarness
from tests.chat.chat_of import acting_as_owner, conversations, session, sessions_of

_TITLE = "Beans in May"


async def _curated(
    chat: ModuleHarness,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[str, str], Awaitable[None]],
) -> str:
    """The id of a session whose file the curator renamed; `meanwhile` has its names after the file
    was renamed, before the index was.
    """
    made = (await conversations(chat).create())["id"]
    sessions = sessions_of(chat)
    vault = chat.instance.vault
    move = vault.move

    async def moved(source: str, target: str) -> str:
        digest = await move(source, target)
        await meanwhile(source, target)
        return str(digest)

    monkeypatch.setattr(type(vault), "move", lambda _vault, *names: moved(*names))
    with acting_as_owner():
        await sessions.change(made, title=_TITLE, title_source="ai")
    return str(made)


async def test_a_move_that_its_event_reported_first_leaves_the_session_listed(
    chat: ModuleHarness, monkeypatch: pytest.MonkeyPatch
):
    index = sessions_of(chat).files.index
    put, listed = index.put, list[list[str]]()

    def recorded(entries):
        listed.extend(index.paths_of(entry.session.id) for entry in entries if entry.session.title)
        put(entries)

    async def event(source: str, target: str) -> None:
        await asyncio.to_thread(index.move, source, target)
        monkeypatch.setattr(index, "put", recorded)

    made = await _curated(chat, monkeypatch, event)

    path = (await session(chat, made))["path"]
    assert path.endswith(f" {_TITLE}.md")
    assert listed
    assert all(one == [path] for one in listed)


@pytest.mark.parametrize("key", ["id", "para_id"])
async def test_a_session_asked_for_while_its_file_is_renamed_is_answered(
    chat: ModuleHarness, monkeypatch: pytest.MonkeyPatch, key: str
):
    tasks: list[asyncio.Task[Any]] = []

    async def event(source: str, target: str) -> None:
        del target
        loop = asyncio.get_running_loop()
        listed = sessions_of(chat).files.index.get_session(source)
        gone = loop.create_task(chat.event("file.deleted", path=source))
        await asyncio.wait([gone], timeout=0.2)
        asked = getattr(listed, key)
        tasks.extend(
            [
                gone,
                loop.create_task(chat.request("GET", f"/{asked}")),
                loop.create_task(chat.request("GET", f"/{asked}/pending-questions")),
            ]
        )
        await asyncio.wait(tasks[1:], timeout=0.2)

    await _curated(chat, monkeypatch, event)

    _, found, pending = await asyncio.gather(*tasks)
    assert found["title"] == _TITLE
    assert pending == {"pending": []}
