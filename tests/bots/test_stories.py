"""What people see of a bot, the same on each platform."""

from __future__ import annotations

from tests.bots.conftest import Bots


async def test_a_paired_persons_message_becomes_a_session_and_its_answer_a_message(bots: Bots):
    person, chat = await bots.paired()
    await bots.platform.say(person, chat, "Where are the beans?")
    await bots.answer(chat, "You said: Where are the beans?")
    (session,) = await bots.sessions()
    assert session["linkedBotPlatform"] == bots.platform.platform
    assert (session["linkedBotChatId"], session["linkedBotChatType"]) == (chat, "dm")
    assert session["title"] == f"{bots.platform.platform.title()}: direct message"
    assert await bots.said() == [
        "user: Where are the beans?",
        "assistant: You said: Where are the beans?",
    ]
