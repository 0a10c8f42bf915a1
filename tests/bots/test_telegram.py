"""The Telegram connector, for what no other platform has."""

from __future__ import annotations

import html
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.bots.connector import (
    Attachment,
    ConnectorError,
    CredentialsError,
    Incoming,
    RetryLaterError,
)
from modules.bots.telegram import TelegramConnector
from modules.bots.telegram_html import as_html
from tests.bots.listening import KeptCursor
from tests.bots.telegram_api import Refused, words_of
from tests.bots.telegram_rig import TelegramRig


@pytest.fixture
async def rig() -> AsyncIterator[TelegramRig]:
    rig = await TelegramRig().open()
    yield rig
    await rig.close()


@pytest.fixture
async def bot(rig: TelegramRig) -> AsyncIterator[TelegramConnector]:
    bot = TelegramConnector(rig.settings(), KeptCursor())
    assert await bot.connect() == "@NotesBot"
    yield bot
    await bot.close()


async def fetch_nothing(bot: TelegramConnector) -> None:
    await bot.connect()
    await bot.fetch(Attachment(key="nothing", name="a.txt"))


async def next_of(bot: TelegramConnector) -> Incoming:
    async with aclosing(bot.listen()) as found:  # type: ignore[type-var]  # a generator
        return await anext(found)


async def test_what_was_not_confirmed_comes_again_and_what_was_does_not(
    rig: TelegramRig, bot: TelegramConnector
):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    await rig.say(person, chat, "first")
    first = await next_of(bot)
    assert await next_of(bot) == first
    async with aclosing(bot.listen()) as found:  # type: ignore[type-var]  # a generator
        assert await anext(found) == first
        await rig.say(person, chat, "second")
        assert (await anext(found)).text == "second"
    assert (await next_of(bot)).text == "second"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"text": "@notesbot, hi"}, ("hi", False, None)),
        (
            {
                "text": "\U0001f331 hi @NotesBot",
                "entities": [{"type": "mention", "offset": 6, "length": 9}],
            },
            ("\U0001f331 hi @NotesBot", True, None),
        ),
        (
            {
                "text": "/stop@NotesBot",
                "entities": [{"type": "bot_command", "offset": 0, "length": 14}],
            },
            ("/stop@NotesBot", True, None),
        ),
        (
            {
                "text": "/stop@OtherBot",
                "entities": [{"type": "bot_command", "offset": 0, "length": 14}],
            },
            None,
        ),
        (
            {
                "text": "/new",
                "forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Ana"},
            },
            ("", False, ("/new", "", "Ana")),
        ),
        (
            {
                "text": "/new",
                "via_bot": {"id": 5, "is_bot": True, "first_name": "Gif"},
            },
            ("", False, ("/new", "", "Gif")),
        ),
        ({"text": "hi", "sender_chat": {"id": -5, "type": "channel", "title": "C"}}, None),
        ({"new_chat_title": "Garden"}, None),
        ({"dice": {"emoji": "x", "value": 1}}, ("", False, None)),
    ],
)
async def test_who_said_what_to_whom(
    rig: TelegramRig, bot: TelegramConnector, more: Any, expected: Any
):
    person = await rig.person("Ana")
    group = await rig.group(person)
    assert (await next_of(bot)).kind == "added"
    rig.post(person, group, **more)
    rig.post(person, group, text="the end")
    async with aclosing(bot.listen()) as updates:  # type: ignore[type-var]  # a generator
        await anext(updates)
        found = await anext(updates)
    if expected is None:
        assert found.text == "the end"
        return
    text, is_addressed, quote = expected
    assert (found.text, found.is_addressed, found.sender_id) == (text, is_addressed, person)
    assert bool(found.problem) == ("dice" in more)
    said = found.quote and (found.quote.text, found.quote.sender_id, found.quote.sender_name)
    assert said == quote


async def test_a_topic_is_a_chat_of_its_own(rig: TelegramRig, bot: TelegramConnector):
    person = await rig.person("Ana")
    group = await rig.group(person)
    await next_of(bot)
    rig.post(person, group, text="hi", message_thread_id=7, is_topic_message=True)
    async with aclosing(bot.listen()) as updates:  # type: ignore[type-var]  # a generator
        await anext(updates)
        found = await anext(updates)
    assert (found.chat_id, found.parent_id) == (f"{group} 7", group)
    sent = await bot.send(found.chat_id, "hello")
    await bot.edit(found.chat_id, sent, "hello again")
    assert rig.api.messages[int(group), int(sent)]["message_thread_id"] == 7


async def test_a_group_that_becomes_a_supergroup_is_written_to_there(
    rig: TelegramRig, bot: TelegramConnector
):
    person = await rig.person("Ana")
    group = await rig.group(person)
    new = rig.migrate(group)
    await bot.send(group, "hello")
    assert [one.text for one in await rig.shown(new)] == ["hello"]
    async with aclosing(bot.listen()) as updates:  # type: ignore[type-var]  # a generator
        await anext(updates)
        found = await anext(updates)
    assert (found.kind, found.chat_id, found.new_chat_id) == ("migrated", group, new)


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        ((429, "Too Many Requests: retry after 7", {"retry_after": 7}), RetryLaterError),
        ((401, "Unauthorized", {}), CredentialsError),
        ((403, "Forbidden: bot was blocked by the user", {}), ConnectorError),
        ((400, "Bad Request: chat not found", {}), ConnectorError),
        ((500, "Internal Server Error", {}), RetryLaterError),
        ((409, "Conflict: terminated by other getUpdates request", {}), RetryLaterError),
    ],
)
async def test_what_the_server_refuses(
    rig: TelegramRig, bot: TelegramConnector, refusal: Any, raised: type[ConnectorError]
):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    rig.api.refusals.append(refusal)
    with pytest.raises(ConnectorError) as found:
        await bot.send(chat, "hello")
    assert type(found.value) is raised
    if isinstance(found.value, RetryLaterError) and refusal[0] == 429:
        assert found.value.after_s == 7


async def test_the_same_text_again_is_no_error(rig: TelegramRig, bot: TelegramConnector):
    person = await rig.person("Ana")
    chat = await rig.dm(person)
    sent = await bot.send(chat, "**Where?**", ["South", "North"])
    await bot.edit(chat, sent, "**Where?**", ["South", "North"])
    with pytest.raises(ConnectorError):
        await bot.edit(chat, "99999", "elsewhere")


async def test_the_token_is_in_no_error_and_no_log(rig: TelegramRig, caplog):
    caplog.set_level(logging.DEBUG)
    token = rig.settings()["token"]
    for settings in (
        rig.settings(),
        {**rig.settings(), "base_url": "http://127.0.0.1:1/bot"},
        {**rig.settings(), "base_url": "nothing://a b/bot"},
        {**rig.settings(), "base_url": "http://[/bot"},
        {**rig.settings(), "token": f"{token} x"},
    ):
        bot = TelegramConnector(settings, KeptCursor())
        with pytest.raises(ConnectorError) as raised:
            await fetch_nothing(bot)
        error = raised.value
        logging.getLogger("test").error("refused", exc_info=error)
        assert token not in f"{error!r} {error.__cause__!r} {error.__context__!r}"
        await bot.close()
    assert "(the token)" in caplog.text
    assert token not in caplog.text


LETTERS, HIDING = re.compile("[ab\U0001f331]"), re.compile(r"\]\(|`{3}|~{3}|&|\]:")


@given(st.text(alphabet="ab*_`#>-1. \n[]()|~<&\\!\U0001f331", max_size=80) | st.text(max_size=60))
def test_what_is_formatted_is_taken_by_telegram_and_has_all_words(text: str):
    text = text.encode("utf-8", "replace").decode()
    formatted = as_html(text)
    try:
        words = words_of(formatted)
    except Refused as error:
        pytest.fail(f"{error}: {formatted}")
    shown, said = (LETTERS.findall(one) for one in (html.unescape(words), text))
    if HIDING.search(text):  # a link's address, or a code block's language
        assert not Counter(shown) - Counter(said)
    else:
        assert shown == said


def test_markdown_in_the_tags_of_telegram():
    text = (
        "# Beds\n\nThe *south* **bed** ~~now~~ `a<b` [map](https://example.org/?a&b) [x](tg://x)\n"
        "- one\n  1. two\n- three\n\n> so\n> it is\n\n```py\nx = 1 < 2\n```\n| a | b |\n|---|---|\n"
    )
    assert as_html(text) == (
        "<b>Beds</b>\n\nThe <i>south</i> <b>bed</b> <s>now</s> <code>a&lt;b</code> "
        '<a href="https://example.org/?a&amp;b">map</a> x\n\n• one\n  1. two\n• three\n\n'
        '<blockquote>so\nit is</blockquote>\n\n<pre><code class="language-py">x = 1 &lt; 2'
        "</code></pre>\n\n<pre>| a | b |\n|---|---|</pre>"
    )
