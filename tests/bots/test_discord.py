"""The Discord connector, for what no other platform has."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import hikari
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.bots.connector import (
    Attachment,
    ConnectorError,
    CredentialsError,
    RetryLaterError,
)
from modules.bots.discord import DiscordConnector
from modules.bots.discord_messages import ODD, Reader, with_tables
from tests.bots.conftest import Bots, eventually
from tests.bots.discord_api import DiscordApi
from tests.bots.discord_rig import DiscordRig
from tests.bots.listening import KeptCursor, Listening
from tests.odd_json import with_odd_members


def listening(rig: DiscordRig, cursor: KeptCursor | None = None) -> Listening:
    cursor = cursor or KeptCursor()
    return Listening(DiscordConnector(rig.settings(), cursor), lambda: rig.api.is_online)


@pytest.fixture
async def rig() -> AsyncIterator[DiscordRig]:
    rig = await DiscordRig().open()
    yield rig
    await rig.close()


async def send_nowhere(bot: DiscordConnector) -> None:
    await bot.connect()
    await bot.send("1", "hello")


@pytest.mark.parametrize("how", ["lost", "deaf", "forgotten"])
async def test_what_happens_while_the_connection_is_lost_is_not_missed(rig: DiscordRig, how: str):
    rig.api.heartbeat_ms = 200 if how == "deaf" else 41_250
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    async with listening(rig) as bot:
        first = await rig.say(person, chat, "first")
        await bot.message("first")
        if how == "deaf":
            rig.api.is_deaf = True
            await bot.until(lambda: not rig.api.is_online)
            rig.api.is_deaf = False
        else:
            await rig.api.cut(4000, forget=how == "forgotten")
        await rig.say(person, chat, "second")
        await rig.edit(person, chat, first, "First")
        await bot.message("second")
        if how == "forgotten":
            assert rig.api.opcodes.count(2) == 2
        else:  # the gateway itself repeats all, also that a message was edited
            await bot.until(lambda: bot.found[-1].kind == "edited")
            assert rig.api.opcodes.count(2) == 1
        assert bot.texts == ["first", "second"]
        assert 6 in rig.api.opcodes


async def test_what_was_written_while_it_was_away_comes_whole_and_in_order(rig: DiscordRig):
    cursor, person = KeptCursor(), await rig.person("Ana")
    chat, group = await rig.dm(person), await rig.group(person)
    guild = rig.api.channels[int(group)]["guild_id"]
    hidden = rig.channel(type=0, name="hidden", guild_id=guild, is_hidden=True)
    async with listening(rig, cursor) as bot:
        await rig.say(person, chat, "first")
        await bot.message("first")
    said = [f"message {number}" for number in range(230)]
    for text in said:
        await rig.say(person, chat, text)
    other, number = rig.server()
    await rig.say(person, other, "before it was added", to_bot=True)
    await rig.api.join(number, int(person))
    thread = rig.channel(type=11, name="peas", guild_id=guild, parent_id=group)
    for one in (other, hidden, group, thread):
        await rig.say(person, one, f"in {one}", to_bot=True)
    async with listening(rig, cursor) as bot:
        await bot.message(f"in {thread}")
        assert [one.text for one in bot.found if one.chat_id == chat] == said
        found = await bot.message(f"in {thread}")
        assert (found.parent_id, found.chat_title) == (guild, "Garden club #peas")
        await bot.message(f"in {other}")
        assert f"in {group}" in bot.texts
        assert "before it was added" not in bot.texts
        assert [one.sender_id for one in bot.found if one.kind == "added"] == [person, person]
    async with listening(rig, cursor) as bot:
        await rig.say(person, chat, "the end")
        await bot.message("the end")
        assert {*bot.texts} == {"the end"}


async def test_an_earlier_message_of_an_unknown_chat_comes_with_the_next(
    rig: DiscordRig,
):
    cursor, ana, bob = KeptCursor(), await rig.person("Ana"), await rig.person("Bob")
    known, chat = await rig.dm(ana), await rig.dm(bob)
    async with listening(rig, cursor) as bot:
        await rig.say(ana, known, "first")
        await bot.message("first")
    rig.api.message(int(chat), rig.people[bob], content="are you there")
    async with listening(rig, cursor) as bot:
        await rig.say(bob, chat, "now")
        await bot.message("now")
        assert bot.texts[:2] == ["are you there", "now"]


ANA = {"id": "5", "username": "ana", "discriminator": "0", "avatar": None}
BEANS = {
    "type": 0,
    "content": "Beans",
    "timestamp": "2026-01-01T00:00:00+00:00",
    "edited_timestamp": None,
    "flags": 0,
    "embeds": [],
    "attachments": [],
    "mentions": [],
    "mention_roles": [],
    "components": [],
}
FORWARD = {"message_snapshots": [{"message": BEANS}]}
OWN = {**ANA, "id": DiscordApi().bot["id"]}


def answering(author: Any, **more: Any) -> Any:
    place = {"message_id": "7", "channel_id": "6", "type": 0}
    said = {**BEANS, "id": "7", "channel_id": "6", "author": author, **more}
    return {"type": 19, "message_reference": place, "referenced_message": said}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"content": f"<@!{OWN['id']}>, hi"}, ("hi", False, None)),
        ({"content": "hi <@4>", "mentions": [OWN]}, ("hi <@4>", True, None)),
        ({"content": "yes", **answering(OWN)}, ("yes", True, None)),
        ({"content": "why?", **answering(ANA)}, ("why?", False, ("Beans", "5", "ana"))),
        ({"content": "why?", **answering(ANA, webhook_id="5")}, ("why?", False, ("Beans", "", ""))),
        (
            {"content": "why?", **answering(ANA, **FORWARD, content="")},
            ("why?", False, ("Beans", "", "")),
        ),
        ({"content": "why?", "type": 19, "referenced_message": None}, ("why?", False, None)),
        (FORWARD, ("", False, ("Beans", "", ""))),
        ({"sticker_items": [{"id": "4", "name": "x", "format_type": 1}]}, ("", False, None)),
        ({"content": "hi", "webhook_id": "5"}, None),
        ({"content": "hi", "author": {**ANA, "bot": True}}, None),
        ({"content": "hi", "type": 7}, None),
        ({"content": ""}, None),
    ],
)
async def test_who_said_what_to_whom(rig: DiscordRig, more: Any, expected: Any):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    said = {"author": rig.people[person], **more}
    async with listening(rig) as bot:
        await rig.api.tell("MESSAGE_CREATE", rig.api.message(int(chat), **said))
        await rig.say(person, chat, "the end")
        await bot.message("the end")
        if expected is None:
            assert bot.texts == ["the end"]
            return
        found, quote = bot.found[0], bot.found[0].quote
        assert (found.text, found.is_addressed) == expected[:2]
        assert (quote and (quote.text, quote.sender_id, quote.sender_name)) == expected[2]
        assert bool(found.problem) == ("sticker_items" in more)


async def test_many_messages_deleted_at_once_and_a_link_that_discord_looked_at(rig: DiscordRig):
    person = await rig.person("Ana")
    group = await rig.group(person)
    async with listening(rig) as bot:
        said = rig.api.messages[int(group), int(await rig.say(person, group, "https://a.example"))]
        await rig.api.tell("MESSAGE_UPDATE", {**said, "embeds": []})
        ids = {"ids": ["7", "8"], "channel_id": group}
        await rig.api.tell("MESSAGE_DELETE_BULK", ids)
        await bot.until(lambda: bot.found and bot.found[-1].message_id == "8")
        assert [one.kind for one in bot.found] == ["message", "deleted", "deleted"]


async def test_a_press_is_acknowledged_and_good_only_for_the_bots_own_buttons(rig: DiscordRig):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    async with listening(rig) as bot:
        other = await rig.say(person, chat, "first")
        sent = await bot.connector.send(chat, "Which?", [str(at) * 90 for at in range(1, 9)])
        await rig.press(person, chat, other, 1)
        await rig.press(person, chat, sent, 6)
        await bot.until(lambda: bot.found[-1].kind == "button")
        assert [(one.message_id, one.button) for one in bot.found[1:]] == [(sent, 6)]
        await bot.until(lambda: len(rig.api.acknowledged) == 2)
        await bot.connector.edit(chat, sent, "Decided.")
        assert [one.buttons for one in await rig.shown(chat)] == [0]


@pytest.mark.parametrize("who", ["another", "unknown"])
async def test_a_server_is_left_unless_it_is_known_who_added_the_bot(rig: DiscordRig, who: str):
    ana, bob = await rig.person("Ana"), await rig.person("Bob")
    rig.api.sees_log = who == "another"
    group = await rig.group(bob, ana)
    async with listening(rig) as bot:
        await rig.say(ana, group, "Not to it")
        await rig.say(ana, group, "Hello", to_bot=True)
        await bot.message("Hello")
        assert [one.kind for one in bot.found] == ["message", "added", "message"]
        assert bot.found[1].sender_id == (bob if who == "another" else "")
        assert len(await rig.shown(group)) == (who == "unknown")
        await bot.connector.leave(rig.api.channels[int(group)]["guild_id"])
        with pytest.raises(ConnectorError, match="Missing Access"):
            await bot.connector.send(group, "Still here?")


LIMIT = {"message": "You are being rate limited.", "retry_after": 7.5, "global": False}


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        ((429, LIMIT), RetryLaterError),
        ((429, {}), RetryLaterError),
        ((401, {"message": "401: Unauthorized", "code": 0}), CredentialsError),
        ((403, {"message": "Cannot send messages to this user", "code": 50007}), ConnectorError),
        ((502, {}), RetryLaterError),
        ((200, {"id": 1}), ConnectorError),
    ],
)
async def test_what_the_server_refuses(rig: DiscordRig, refusal: Any, raised: type[ConnectorError]):
    chat = await rig.dm(await rig.person("Ana"))
    bot = DiscordConnector(rig.settings(), KeptCursor())
    await bot.connect()
    rig.api.refusals.append(refusal)
    with pytest.raises(ConnectorError) as found:
        await bot.send(chat, "hello")
    await bot.close()
    assert isinstance(found.value, raised)
    assert isinstance(found.value, RetryLaterError | CredentialsError) == (
        raised is not ConnectorError
    )
    if refusal[0] == 429:
        assert found.value.after_s == refusal[1].get("retry_after", 30.0)


async def test_a_message_that_is_sent_again_calls_no_one_and_is_one(rig: DiscordRig):
    chat = await rig.dm(await rig.person("Ana"))
    bot = DiscordConnector(rig.settings(), KeptCursor())
    await bot.connect()
    sent = await bot.send(chat, "@everyone https://a.example", key="k1")
    assert await bot.send(chat, "@everyone https://a.example", key="k1") == sent
    said = rig.api.messages[int(chat), int(sent)]
    assert said["flags"] == hikari.MessageFlag.SUPPRESS_EMBEDS
    file = rig.api.attachment("a.txt", b"x" * (11 << 20), "text/plain")
    with pytest.raises(ConnectorError, match="too large"):
        await bot.fetch(Attachment(key=file["url"], name="a.txt"))
    with pytest.raises(ConnectorError):
        await bot.fetch(Attachment(key=f"{rig.api.url}/cdn/none", name="a.txt"))
    await bot.close()


async def test_an_intent_that_is_missing_and_a_token_that_is_none_are_said(rig: DiscordRig):
    rig.api.flags = 0
    bot = DiscordConnector(rig.settings(), KeptCursor())
    with pytest.raises(ConnectorError, match="turn on Message Content Intent"):
        await bot.connect()
    await bot.close()
    wrong = DiscordConnector({**rig.settings(), "token": "no"}, KeptCursor())
    with pytest.raises(CredentialsError, match="does not take"):
        await wrong.connect()
    await wrong.close()


@pytest.mark.parametrize("platform", ["discord"], indirect=True)
async def test_doctor_says_that_an_intent_was_turned_off(bots: Bots, platform: DiscordRig):
    platform.api.flags = 0
    await platform.api.cut(4000, forget=True)

    async def finding() -> bool | None:
        found = (await bots.api("GET", "doctor"))["findings"]
        said = [one["problem"] for one in found if "Message Content Intent" in one["problem"]]
        return True if len(said) == 1 else None

    await eventually(finding, lambda: bots.api("GET", "doctor"))


async def test_a_bot_that_finds_no_gateway_says_so_and_leaves_nothing_running(rig: DiscordRig):
    bot = DiscordConnector(rig.settings(), KeptCursor(), reconnect_s=0.5)
    await bot.connect()
    rig.api.gateway = "ws://127.0.0.1:1/"
    with pytest.raises(RetryLaterError):
        await anext(bot.listen())
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if "(shard" in task.get_name()]
    await bot.close()


async def test_the_token_is_in_no_error_and_no_log(rig: DiscordRig, caplog):
    caplog.set_level(logging.DEBUG)
    token = rig.settings()["token"]
    for more in ({}, {"base_url": "http://127.0.0.1:1"}, {"base_url": "x://["}, {"token": "a\nb"}):
        bot = DiscordConnector({**rig.settings(), **more}, KeptCursor())
        with pytest.raises(ConnectorError) as raised:
            await send_nowhere(bot)
        logging.getLogger("test").error("refused", exc_info=raised.value)
        assert token not in repr(raised.value)
        await bot.close()
    assert token not in caplog.text


MESSAGE = {**BEANS, "id": "8", "channel_id": "6", "guild_id": "9", "author": ANA, "tts": False}
MESSAGE |= {"pinned": False, **FORWARD, **answering(ANA), "ids": ["7"]}
PRESS = {"id": "9", "type": 3, "channel_id": "6", "guild_id": "9", "member": {"user": ANA}}
PRESS |= {"message": {"id": "8", "author": OWN}, "data": {"custom_id": "1"}}
KINDS = ("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK")


@given(
    st.tuples(st.sampled_from(KINDS), with_odd_members(MESSAGE))
    | st.tuples(st.just("INTERACTION_CREATE"), with_odd_members(PRESS))
)
def test_whatever_an_event_holds_it_is_read_or_left(event: Any):
    factory = hikari.impl.EntityFactoryImpl(None)  # type: ignore[arg-type]  # it asks for nothing
    try:
        found = Reader(factory, int(OWN["id"])).incoming(*event)
    except ODD:  # the connector leaves it out
        return
    for one in found:
        assert json.dumps(one.clean().document(), ensure_ascii=False).encode()


async def test_odd_events_end_nothing(rig: DiscordRig):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    async with listening(rig) as bot:
        for name in (*KINDS, "INTERACTION_CREATE", "GUILD_CREATE", "GUILD_DELETE", "UNKNOWN"):
            for payload in ({}, {"id": "x"}, {**MESSAGE, "thread": {"type": 99}}):
                await rig.api.dispatch(name, payload)
        await rig.say(person, chat, "the end")
        await bot.message("the end")


def test_a_table_is_code_and_all_else_as_it_was():
    table = "| a | b |\n|---|---|\n| 1 | é |"
    assert with_tables(f"**Beds**\n\n{table}\n\nend") == f"**Beds**\n\n```\n{table}\n```\n\nend"
    assert with_tables(f"```\n{table}\n```") == f"```\n{table}\n```"
    assert with_tables(f"- x\n\n  {table}") == f"- x\n\n  {table}"
