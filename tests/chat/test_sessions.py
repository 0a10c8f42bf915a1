"""Sessions: one readable file each, that people and the app change alike."""

from __future__ import annotations

from pathlib import Path

from parachuted.testing import ModuleHarness
from tests.chat.chat_of import conversations, files, running_chat, session, texts


async def test_a_session_is_a_note_that_any_editor_reads(chat: ModuleHarness, vault: Path):
    talk = conversations(chat)
    made = await talk.create("Garden plans")
    await talk.send_message(made["id"], "Where do the beans go?", "parachute")
    found = await session(chat, made["id"])

    (name,) = files(vault)
    assert name.endswith(" Garden plans.md")
    text = (vault / "Chat/sessions" / name).read_text()
    assert "\n### User\n\nWhere do the beans go?\n" in text
    assert found["title"] == "Garden plans"
    assert found["messages"][0]["role"] == "user"


async def test_a_message_survives_a_restart(vault: Path):
    async with running_chat(vault) as chat:
        made = await conversations(chat).create("Beans")
        await conversations(chat).send_message(made["id"], "Hello", "parachute")
    async with running_chat(vault) as chat:
        assert await texts(chat, made["id"]) == ["Hello"]
