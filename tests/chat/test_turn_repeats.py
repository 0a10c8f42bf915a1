"""Messages that are sent again, since the answer to them was lost: each is said once."""

from __future__ import annotations

import asyncio

import pytest

from parachuted.errors import ParachuteError
from tests.chat.scripted_runs import ask, kinds, only, scripted_chat, words

ID = "abc123def456"


def questions(vault):
    """How often a person speaks in all sessions."""
    files = (vault / "Chat/sessions").glob("*.md")
    return sum(path.read_text().count('"role": "user"') for path in files)


async def test_a_first_message_is_said_once_however_often_it_is_sent(vault):
    async with scripted_chat(vault, words("On the left bed.")) as (module, _):
        first, second = await asyncio.gather(
            *(ask(module, "Where are the beans?", messageId=ID) for _ in range(2))
        )
        third = await ask(module, "Where are the beans?", messageId=ID)
        session = only(first, "done")["sessionId"]

        assert [only(one, "done")["sessionId"] for one in (second, third)] == [session, session]
        assert only(third, "text")["content"] == "On the left bed."
        assert questions(vault) == 1
    async with scripted_chat(vault, words("Elsewhere.")) as (module, _):  # after a restart too
        again = await ask(module, "Where are the beans?", messageId=ID)

        assert only(again, "done")["response"] == "On the left bed."
        assert kinds(again) == ["session", "user_message", "text", "done"]
        assert questions(vault) == 1


async def test_in_a_conversation_each_message_is_said_once_and_in_its_order(vault):
    async with scripted_chat(vault, lambda prompt, _options: words(f"Heard {prompt[-4:]}")) as (
        module,
        _,
    ):
        session = only(await ask(module, "Begin."), "done")["sessionId"]
        for text, message_id in (("one.", ID), ("two.", ID[::-1]), ("one.", ID)):
            events = await ask(module, text, session, messageId=message_id)

        assert only(events, "user_message")["content"] == "one."
        stored = (await module.request("GET", f"/{session}"))["messages"]
        assert [one["content"] for one in stored if one["role"] == "user"] == [
            *("Begin.", "one.", "two.")
        ]


async def test_only_the_key_that_sent_a_message_follows_its_turn(vault):
    goes_on = asyncio.Event()
    script = [*words("My secret."), goes_on]
    async with scripted_chat(vault, script) as (module, runs), asyncio.TaskGroup() as group:
        mine = group.create_task(ask(module, "Mine?", messageId=ID), name="my turn")
        while not runs.started:
            await asyncio.sleep(0)
        other = module.with_key("k_other", paths=["Nothing/**"])
        try:
            async with asyncio.timeout(20):
                theirs = str(await ask(other, "Theirs?", messageId=ID))
        except ParachuteError as refused:
            theirs = str(refused)
        goes_on.set()
        assert only(await mine, "done")["response"] == "My secret."

    assert "secret" not in theirs
    assert "Mine?" not in theirs


async def test_a_message_that_was_cut_off_is_not_said_again(vault):
    def breaks(_prompt, _options):
        raise asyncio.CancelledError

    async with scripted_chat(vault, breaks) as (module, _):
        await ask(module, "Where are the beans?", messageId=ID)
    async with scripted_chat(vault, words("Here.")) as (module, _):
        events = await ask(module, "Where are the beans?", messageId=ID)

        assert events[-1]["canRetry"] is True
        assert questions(vault) == 1
        session = events[-1]["sessionId"]
        again = await module.request("POST", f"/{session}/retry")
        assert again[-1].data["response"] == "Here."


async def test_an_id_that_is_none_is_refused(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, _):
        with pytest.raises(ParachuteError, match="message_id"):
            await ask(module, "Beans?", messageId="../x")
        assert questions(vault) == 0
