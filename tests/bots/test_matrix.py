"""The Matrix connector against a real server, for what no other platform has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path

import nio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.bots.connector import ConnectorError, CredentialsError, Incoming, RetryLaterError
from modules.bots.matrix import MatrixConnector
from modules.bots.store import Store
from tests.bots.conftest import Bots, eventually, on_page
from tests.bots.listening import KeptCursor, Listening
from tests.bots.matrix_rig import MatrixRig
from tests.odd_json import with_odd_members


def listening(rig: MatrixRig, cursor: KeptCursor | None = None) -> Listening:
    cursor = cursor or KeptCursor()
    return Listening(MatrixConnector(rig.settings(), cursor), lambda: cursor.text)


@pytest.fixture
async def rig(synapse: str) -> AsyncIterator[MatrixRig]:
    rig = await MatrixRig(synapse).open()
    yield rig
    await rig.close()


async def test_what_came_while_it_was_away_comes_whole_and_in_order(rig: MatrixRig):
    cursor, person = KeptCursor(), await rig.person("Ana")
    chat = await rig.dm(person)
    async with listening(rig, cursor) as bot:
        await rig.say(person, chat, "first")
        await bot.message("first")
    said = [f"message {number}" for number in range(130)]
    for text in said:
        await rig.say(person, chat, text)
    async with listening(rig, cursor) as bot:
        await bot.message(said[-1])
        assert [one.text for one in bot.found if one.kind == "message"] == said
        assert len({one.update_id for one in bot.found}) == len(bot.found)


async def test_what_was_said_before_it_was_invited_is_not_for_it(rig: MatrixRig):
    person, bob = await rig.person("Ana"), await rig.person("Bob")
    room = await rig.ask(person, "POST", "createRoom", {"invite": [bob], "preset": "private_chat"})
    chat = str(room["room_id"])
    await rig.ask(bob, "POST", f"rooms/{chat}/join", {})
    await rig.say(person, chat, "a secret")
    async with listening(rig) as bot:
        await rig.ask(person, "POST", f"rooms/{chat}/invite", {"user_id": rig.bot_id})
        await rig.say(person, chat, "for all")
        found = await bot.message("for all")
        assert (found.chat_type, found.sender_name) == ("group", "Ana")
        assert [one.kind for one in bot.found] == ["added", "message"]


async def test_a_thread_is_a_chat_of_its_own_and_its_room_is_known(rig: MatrixRig):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    async with listening(rig) as bot:
        root = await rig.say(person, chat, "Beans")
        relation = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
        said = {"msgtype": "m.text", "body": "And peas", "m.relates_to": relation}
        await rig.send(person, chat, "m.room.message", said)
        found = await bot.message("And peas")
        assert (found.chat_id, found.parent_id, found.quote) == (f"{chat} {root}", chat, None)
        sent = await bot.connector.send(found.chat_id, "Both.", key="k1")
        assert await bot.connector.send(found.chat_id, "Both.", key="k1") == sent
        (event,) = [one for one in await rig.events(chat) if one["event_id"] == sent]
        assert event["content"]["m.relates_to"]["event_id"] == root


async def test_what_is_asked_after_a_threads_message_is_found_by_its_room(tmp_path: Path):
    said = Incoming(
        update_id="1",
        kind="message",
        chat_id="!room $root",
        parent_id="!room",
        chat_type="dm",
        sender_id="@ana:localhost",
        message_id="$said",
    )
    with closing(Store(tmp_path / "bots.db")) as store:
        update = await store.add("matrix", said)
        assert update is not None
        assert await store.last_said("matrix", said.chat_id, "s1") is None
        update.session_id, update.message_id = "s1", "m1"
        await store.save(update)
        assert await store.last_said("matrix", said.chat_id, "s1") == said


async def test_an_encrypted_message_says_why_it_cannot_be_read(rig: MatrixRig):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    async with listening(rig) as bot:
        body = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x", "session_id": "s"}
        await rig.send(person, chat, "m.room.encrypted", body)
        await bot.until(lambda: bot.found and bot.found[-1].problem)
        assert "without encryption" in bot.found[-1].problem


async def test_a_server_that_asks_for_a_pause_says_for_how_long(rig: MatrixRig):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    async with listening(rig) as bot:
        await rig.say(person, chat, "Where?")
        await bot.message("Where?")
        await rig.limit_messages(per_second=1)
        sending = [bot.connector.send(chat, f"Row {n}.", key=f"k{n}") for n in range(5)]
        results = await asyncio.gather(*sending, return_exceptions=True)
    waits = [one.after_s for one in results if isinstance(one, RetryLaterError)]
    assert waits
    assert all(0 < wait_s < 10 for wait_s in waits)
    assert len([one for one in results if isinstance(one, str)]) + len(waits) == len(results)


MESSAGE = {
    "msgtype": "m.image",
    "body": "bot: Beans",
    "filename": "a.png",
    "url": "mxc://x/y",
    "info": {"mimetype": "image/png", "size": 3},
    "m.mentions": {"user_ids": ["@x:y"]},
    "m.new_content": {"body": "Peas"},
    "m.relates_to": {
        "rel_type": "m.thread",
        "event_id": "$e",
        "key": "1\ufe0f\u20e3",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$e"},
    },
}
KINDS = ("m.room.message", "m.reaction", "m.room.redaction", "m.room.encrypted", "m.odd")


@given(with_odd_members({"content": MESSAGE}), st.sampled_from(KINDS))
async def test_whatever_an_event_holds_it_is_read_or_left(event, kind: str):
    connector = MatrixConnector(
        {"homeserver_url": "http://127.0.0.1:1", "user_id": "@b:l", "access_token": "t"},
        KeptCursor(),
    )
    connector._client.rooms["!r"] = nio.MatrixRoom("!r", "@b:l")
    event = {"event_id": "$1", "sender": "@a:l", **event, "type": kind}
    try:
        found = await connector._incoming("!r", event)
    except RetryLaterError:  # it answers a message, which no server has here
        found = None
    finally:
        await connector.close()
    assert found is None or Incoming.of(found.document()) == found
    assert found is None or json.dumps(found.clean().document(), ensure_ascii=False).encode()


async def test_odd_events_of_others_end_nothing(rig: MatrixRig):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    odd: list[object] = [
        {"msgtype": "m.text", "body": "x", "m.relates_to": "none"},
        {"msgtype": "m.text", "body": "x", "m.relates_to": {"m.in_reply_to": {"event_id": 3}}},
        {"msgtype": "m.text", "body": "\ud800"},
        {"msgtype": "m.image", "body": "x", "url": 5, "info": [1]},
        {"msgtype": "m.notice", "body": "of another bot"},
    ]
    async with listening(rig) as bot:
        for content in odd:
            with suppress(AssertionError):  # the server itself refuses some
                await rig.send(person, chat, "m.room.message", content)
        for content in ({}, {"m.relates_to": {"key": 3}}, {"m.relates_to": []}):
            with suppress(AssertionError):
                await rig.send(person, chat, "m.reaction", content)
        await rig.say(person, chat, "the end")
        await bot.message("the end")
        assert not any("another bot" in one.text for one in bot.found)


async def test_files_have_a_name_that_says_what_they_are_and_come_whole(rig: MatrixRig):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    async with listening(rig) as bot:
        await rig.send_file(person, chat, "Voice message", b"ogg", "audio/ogg")
        await bot.until(lambda: bot.found and bot.found[-1].attachments)
        (voice,) = bot.found[-1].attachments
        assert (voice.name, voice.size, bot.found[-1].text) == ("Voice message.ogg", 3, "")
        assert await bot.connector.fetch(voice) == b"ogg"
        await bot.connector.send_file(chat, "a.png", b"png", key="f")
        assert [one.file for one in await rig.shown(chat)] == [b"png"]


async def test_a_token_that_is_none_and_a_room_that_is_not_its_own_are_refused(rig: MatrixRig):
    wrong = MatrixConnector({**rig.settings(), "access_token": "no"}, KeptCursor())
    with pytest.raises(CredentialsError, match="does not take") as raised:
        await wrong.connect()
    assert "no" not in raised.value.message.split()
    await wrong.close()
    person = await rig.person("Ana")
    mine = MatrixConnector(rig.settings(), KeptCursor())
    room = await rig.ask(person, "POST", "createRoom", {})
    with pytest.raises(ConnectorError, match="refused it"):
        await mine.send(str(room["room_id"]), "Hello")
    await mine.close()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"homeserver_url": "matrix.example.org"}, "address is malformed"),
        ({"homeserver_url": "http://[x"}, "address is malformed"),
        ({"user_id": "notes"}, "account is malformed"),
        ({}, "server 127.0.0.1:1 cannot be reached"),
    ],
)
async def test_what_cannot_be_an_address_or_an_account_is_said(changed, said: str):
    given = {"homeserver_url": "http://127.0.0.1:1", "user_id": "@a:b", "access_token": "x"}
    bot = MatrixConnector({**given, **changed}, KeptCursor())
    with pytest.raises(ConnectorError, match=said):
        await bot.connect()
    await bot.close()


@pytest.mark.parametrize("platform", ["matrix"], indirect=True)
async def test_a_direct_chat_that_somebody_joins_is_a_group_on_the_page_too(
    bots: Bots, platform: MatrixRig
):
    ana, chat = await bots.paired()
    bob = await platform.person("Bob")
    await bots.exchange(ana, chat, "Beans", "Beans")
    (session,) = await bots.sessions()
    more = {"allowed_folders": ["Garden"], "allowed_mcps": None, "capabilities": ["Read"]}
    await bots.api("PATCH", f"chat/{session['id']}", json={"permissions": more})
    await platform.ask(ana, "POST", f"rooms/{chat}/invite", {"user_id": bob})
    await platform.ask(bob, "POST", f"rooms/{chat}/join", {})

    async def is_group() -> bool | None:
        (found,) = await bots.sessions()
        return found["linkedBotChatType"] == "group" or None

    await eventually(is_group, bots.sessions)
    await on_page(bots, session["id"], "What is in the diary?")
    await bots.answer(chat, "You said: What is in the diary?")
    assert "do not have direct access to files" in bots.model.jobs[-1].system_prompt
