"""A session is found at each moment, also while its file gets another name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parachuted.testing import ModuleHarness
from tests.chat.chat_of import acting_as_owner, conversations, session, sessions_of

_TITLE = "Beans in May"


async def test_a_session_asked_for_while_its_file_is_renamed_is_answered(
    chat: ModuleHarness, monkeypatch: pytest.MonkeyPatch
):
    made = await conversations(chat).create()
    vault, tasks = chat.instance.vault, list[asyncio.Task[Any]]()
    move = vault.move

    async def moved(_vault: object, source: str, target: str) -> str:
        """The file is renamed; its events come before the writer goes on, as do other calls."""
        digest = await move(source, target)
        calls = (
            chat.event("file.deleted", path=source),
            chat.event("file.moved", **{"path": target, "from": source, "run": "r"}),
            chat.request("GET", f"/{made['id']}"),
            chat.request("GET", f"/{made['paraId']}"),
        )
        tasks.extend(asyncio.get_running_loop().create_task(call) for call in calls)
        await asyncio.wait(tasks, timeout=0.2)
        return str(digest)

    monkeypatch.setattr(type(vault), "move", moved)
    with acting_as_owner():
        await sessions_of(chat).change(made["id"], title=_TITLE, title_source="ai")

    *_, by_id, by_para_id = await asyncio.gather(*tasks)
    assert by_id["title"] == by_para_id["title"] == _TITLE
    found = await session(chat, made["id"])
    assert found["path"].endswith(f" {_TITLE}.md")
    assert found["metadata"]["title_source"] == "ai"
