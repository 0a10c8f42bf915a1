"""The ConversationInterface as a bot uses it: links, changed messages, turns by their events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import acting_as_owner, conversations, files, sessions_of, texts
from tests.chat.scripted_runs import scripted_chat, words

LINK = {"platform": "matrix", "chat_id": "!room:server", "chat_type": "dm"}
ID = "abc123def456"


async def linked(chat: ModuleHarness, title: str = "Matrix: direct message") -> dict[str, Any]:
    found: dict[str, Any] = await conversations(chat).create(title=title, linked_bot=LINK)
    return found


async def test_a_session_of_a_chat_keeps_its_title_until_the_curator_finds_a_better_one(
    chat: ModuleHarness, vault: Path
):
    made = await linked(chat)
    assert "Matrix direct message" in files(vault)[0]
    with acting_as_owner():
        await sessions_of(chat).change(made["id"], title="Beans", title_source="ai")
    assert "Beans" in files(vault)[0]


async def test_a_link_is_moved_and_taken_away(chat: ModuleHarness):
    service, first = conversations(chat), await linked(chat)
    second = await service.create(title="Garden plans")
    await service.link(second["id"], LINK)
    assert (await service.get_by_bot_link("matrix", "!room:server"))["id"] == second["id"]
    assert (await service.get(first["id"]))["linkedBotChatId"] is None
    await service.link(second["id"], None)
    assert await service.get_by_bot_link("matrix", "!room:server") is None


async def test_permissions_that_are_none_are_refused(chat: ModuleHarness):
    made = await linked(chat)
    with pytest.raises(EditRefusedError, match="mode is one of"):
        await conversations(chat).set_permissions(made["id"], {"capabilities": ["Read"]}, "all")


async def test_a_message_is_changed_in_its_place_and_its_files_stay(
    chat: ModuleHarness, vault: Path
):
    service, made = conversations(chat), await linked(chat)
    first = await service.add_message(
        made["id"], "Where are the beens?\n\n![[a.png]]\n\n![[b.png]]"
    )
    second = await service.add_message(made["id"], "<!-- message x")
    await service.change_message(made["id"], first, "Where are the beans?")
    assert await texts(chat, made["id"]) == [
        "Where are the beans?\n\n![[a.png]]\n\n![[b.png]]",
        "<!-- message x",
    ]
    await service.change_message(made["id"], second, None)
    await service.add_message(made["id"], "Thanks")
    assert (await texts(chat, made["id"]))[1:] == ["Thanks"]
    assert "<!-- message x" not in (vault / "Chat/sessions" / files(vault)[0]).read_text("utf-8")
    with pytest.raises(NotFoundError, match="has no message"):
        await service.change_message(made["id"], second, "Again")


async def test_a_turn_is_followed_by_its_events_and_said_once(vault: Path):
    async with scripted_chat(vault, words("On the left bed.")) as (chat, runs):
        service, made = conversations(chat), await linked(chat)

        async def whole_turn() -> list[dict[str, Any]]:
            begun = await service.start_turn(made["id"], "Where?", "matrix", ID)
            found = list(begun["events"])
            while found[-1]["type"] not in {"done", "typed_error"}:
                begun = await service.turn_events(made["id"], begun["after"])
                found += begun["events"]
            return found

        first, second = await whole_turn(), await whole_turn()
        assert [one[-1]["response"] for one in (first, second)] == ["On the left bed."] * 2
        assert len(runs.started) == 1
        assert await texts(chat, made["id"]) == ["Where?", "On the left bed."]
        with pytest.raises(EditRefusedError, match="a message has"):
            await service.start_turn(made["id"], " ")
        with pytest.raises(NotFoundError):
            await service.stop_turn(made["id"])


async def test_many_that_begin_at_once_with_one_title_try_each_name_once(
    chat: ModuleHarness, monkeypatch: pytest.MonkeyPatch
):
    vault, tried = sessions_of(chat)._vault, []

    async def create(path: str, text: str) -> None:
        tried.append(path)
        await make(path, text)

    make = vault.create
    monkeypatch.setattr(vault, "create", create)
    titles = ["Telegram: direct message"] * 30
    made = await asyncio.gather(*(conversations(chat).create(title=one) for one in titles))
    assert len({one["path"] for one in made}) == len(tried) == len(set(tried)) == len(titles)
