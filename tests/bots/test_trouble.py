"""What a bot does when its daemon is killed, the platform is down, or the token is taken back."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from modules.bots.connectors import connector_class
from parachuted.agents.job import Job, Step, TextDelta
from tests.bots.conftest import (
    Bots,
    Starting,
    eventually,
    holds,
    in_parts,
    says_so,
)
from tests.bots.killable import LAST, in_pieces, killed_after
from tests.bots.rigs import PlatformRig
from tests.bots.telegram_rig import TelegramRig


def memory_of(home: Path) -> Path:
    (found,) = home.glob("state/*/module-data/bots/bots.db")
    return found


def read_memory(home: Path) -> bytes:
    """What the module remembers at this moment."""
    with closing(sqlite3.connect(memory_of(home))) as live, closing(sqlite3.connect("")) as kept:
        live.backup(kept)
        return kept.serialize()


def put_back(home: Path, memory: bytes) -> None:
    path = memory_of(home)
    for one in path.parent.glob("bots.db*"):
        one.unlink()
    path.write_bytes(memory)


@pytest.mark.shared
async def test_a_daemon_that_is_killed_answers_each_message_once(
    starting: Starting, platform: PlatformRig, vault: Path, home: Path, *, torture: bool
):
    moments = random.Random(30)  # noqa: S311  moments, no secrets
    said: dict[str, list[str]] = {}
    async with starting() as bots:
        people_of = await bots.let_in(5 if torture else 3)
        bots.model.script = in_pieces
        for chat, person in people_of.items():  # Discord: its bots do not see it else
            said[chat] = ["Is anyone there?"]
            await platform.say(person, chat, *said[chat])
            await bots.answer(chat, LAST)
    for number in range(200 if torture else 2):
        chat = [*people_of][number % len(people_of)]
        text = f"What about bed {number}?"
        said[chat].append(text)
        if is_early := moments.random() < 0.5:
            await platform.say(people_of[chat], chat, text)
        async with killed_after(vault, home, platform.platform):
            if not is_early:
                await platform.say(people_of[chat], chat, text)
            await asyncio.sleep(2 * moments.random() ** 4)  # the first steps are the shortest
    async with starting() as bots:
        for chat, texts in said.items():
            texts.append("And the last?")
            await platform.say(people_of[chat], chat, texts[-1])
        for chat, texts in said.items():
            shown = [one.text for one in await bots.answer(chat, "And the last?")]
            (session,) = [one for one in await bots.sessions() if one["linkedBotChatId"] == chat]
            found = (await bots.api("GET", f"chat/{session['id']}"))["messages"]
            assert [one["content"] for one in found if one["role"] == "user"] == texts
            cut = [one for one in shown if "cut off" in one]
            begun = [text for text in texts if any(text in one for one in shown)]
            assert all(sum(text in one for one in shown) <= 1 for text in texts)
            assert [text for one in shown for text in texts if text in one] == begun
            whole = (LAST, "You said: ")  # of the killed daemons, and of the last
            answers = [one for one in shown[:-1] if one not in cut]
            partial = [answer for answer in answers if not any(words in answer for words in whole)]
            notices = [one for one in cut if "bed" not in one]
            assert len(partial) + len(texts) - len(begun) <= len(notices)
            if connector_class(platform.platform).limits.repeats_safely:
                assert (len(shown), partial) == (len(texts), [])


@pytest.mark.shared
@pytest.mark.parametrize("moment", ["asked", "begun"])
async def test_an_answer_that_was_given_and_not_noted_is_not_given_again(
    starting: Starting, platform: PlatformRig, home: Path, moment: str
):
    """The module's memory is set back to a moment of the turn, as if the daemon had been killed
    there; the session's file and the platform have what came later.
    """
    limits = connector_class(platform.platform).limits
    if moment == "asked" and not limits.repeats_safely:
        pytest.skip("that an answer is being sent is kept before it is sent there")
    going = {"asked": asyncio.Event(), "begun": asyncio.Event()}

    async def slowly(_job: Job) -> AsyncIterator[Step]:
        await going["asked"].wait()
        yield TextDelta(text="On the ")
        await going["begun"].wait()
        yield TextDelta(text="south bed.")

    async with starting() as bots:
        person, chat = await bots.paired()
        bots.model.script = slowly
        await platform.say(person, chat, "Where are the beans?")
        await bots.asked()
        if moment == "begun":
            going["asked"].set()
            await bots.answer(chat, "On the")
        memory = read_memory(home)
        for event in going.values():
            event.set()
        before = await bots.answer(chat, "On the south bed.")
        await bots.exchange(person, chat, "/status", "Mode:")
        model = bots.model
    put_back(home, memory)
    async with starting(model) as bots:
        model.script = says_so
        shown = await bots.exchange(person, chat, "And the peas?", "And the peas?")
        assert [one.text for one in shown if "south bed" in one.text] == ["On the south bed."]
        assert [one.id for one in shown][: len(before)] == [one.id for one in before]
        assert (await bots.said())[:2] == [
            "user: Where are the beans?",
            "assistant: On the south bed.",
        ]
        assert sum("beans" in job.prompt for job in model.jobs) == 1


async def test_what_comes_while_the_platform_is_down_arrives_afterwards(
    bots: Bots, platform: PlatformRig
):
    person, chat = await bots.paired()
    async with platform.outage():
        await platform.say(person, chat, "Is it you?")

        async def lost() -> bool | None:
            found = await bots.status()
            return True if found["problem"] and not found["running"] else None

        await eventually(lost, bots.status)
    shown = await bots.answer(chat, "You said: Is it you?")
    assert len(shown) == len({one.id for one in shown}) == 2

    going = asyncio.Event()
    bots.model.script = in_parts("", going, "Here it is.")
    await platform.say(person, chat, "Where?")
    await holds(lambda: len(bots.model.jobs) == 2)
    async with platform.outage():
        going.set()
        await asyncio.sleep(0.5)
    shown = await bots.answer(chat, "Here it is.")
    assert [one.text for one in shown][2:] == ["Here it is."]


async def test_an_answer_that_was_sent_and_not_acknowledged_is_not_sent_again(
    bots: Bots, platform: PlatformRig
):
    going = asyncio.Event()
    person, chat = await bots.paired()
    bots.model.script = in_parts("", going, "Here it is.")
    await platform.say(person, chat, "Where?")
    await bots.asked()
    async with platform.losing_answers():
        going.set()
        await bots.until(chat, lambda shown: any(one.text == "Here it is." for one in shown))
    bots.model.script = says_so
    await platform.say(person, chat, "Thanks")
    shown = [one.text for one in await bots.answer(chat, "You said: Thanks")]
    notices = [one for one in shown if "cut off" in one]
    # none: the answer got through after all, or the message may be sent again
    assert not (notices and connector_class(platform.platform).limits.repeats_safely)
    assert [one for one in shown[1:] if one not in notices] == ["Here it is.", "You said: Thanks"]


async def test_a_chat_that_shuts_the_bot_out_leaves_it_connected_to_the_others(
    bots: Bots, platform: PlatformRig
):
    going = asyncio.Event()
    ana, chat = await bots.paired("Ana")
    bob, other = await bots.paired("Bob")
    bots.model.script = in_parts("", going, "Here it is.")
    await platform.say(ana, chat, "Where?")
    await bots.asked()
    await platform.shut_out(ana, chat)
    going.set()
    waiting = "SELECT 1 FROM updates WHERE is_done = 0"
    with closing(sqlite3.connect(memory_of(bots.daemon.daemon.watched.home))) as live:
        await holds(lambda: not live.execute(waiting).fetchall())
    assert await bots.is_well()
    await bots.exchange(bob, other, "And you?", "Here it is.")


@pytest.mark.parametrize("platform", ["telegram"], indirect=True)
async def test_a_chat_shows_work_and_waits_as_long_as_telegram_asks_for(
    bots: Bots, platform: TelegramRig
):
    pause = (429, "Too Many Requests: retry after 2", {"retry_after": 2})
    platform.api.refusals.append(pause)
    person, chat = await bots.paired()
    platform.api.refusals += [pause, pause]
    before = len(platform.api.asked)
    shown = await bots.exchange(person, chat, "Where?")
    calls = [at for name, at in platform.api.asked[before:] if name != "getUpdates"]
    assert all(later - earlier >= 2 for earlier, later in pairwise(calls[:3]))
    assert [one.text for one in shown[1:]] == ["You said: Where?"]
    assert await bots.is_well()

    going, before = asyncio.Event(), len(platform.api.asked)
    bots.model.script = in_parts("", going, "Here it is.")
    await platform.say(person, chat, "And now?")
    await holds(lambda: "sendChatAction" in dict(platform.api.asked[before:]))
    going.set()
    await bots.answer(chat, "Here it is.")


@pytest.mark.parametrize("platform", ["telegram"], indirect=True)
async def test_a_message_is_answered_once_however_often_it_comes(
    starting: Starting, platform: TelegramRig
):
    updates = []
    async with starting() as bots:
        people = await bots.let_in(3)
        for (chat, person), at_once, date in zip(
            people.items(), (1, 50, 2), (1_700_000_000, 1, 4_000_000_000), strict=True
        ):
            sender = platform.people[person]
            said = platform.api.message(int(chat), sender, text="Where?", date=date)
            updates.append(platform.api.update(message=said))
            for _ in range(1, at_once):
                platform.api.update(**updates[-1])
        for chat in people:
            await bots.answer(chat, "You said: Where?")
        for update in updates:
            platform.api.update(**update)
        for chat, person in people.items():
            await bots.exchange(person, chat, "Thanks")
    async with starting() as bots:
        for update in updates:
            platform.api.update(**update)
        for chat, person in people.items():
            shown = await bots.exchange(person, chat, "And now?")
            answers = [f"You said: {one}" for one in ("Where?", "Thanks", "And now?")]
            assert [one.text for one in shown] == answers
        for number in range(len(people)):
            said = await bots.said(number)
            assert len([one for one in said if one.startswith("user")]) == len(answers)


@pytest.mark.parametrize("platform", ["telegram"], indirect=True)
async def test_a_group_that_becomes_a_supergroup_goes_on_with_its_conversation(
    bots: Bots, platform: TelegramRig
):
    person, _ = await bots.paired()
    group = await platform.group(person)
    await bots.exchange(person, group, "Where?", "You said: Ana: Where?", to_bot=True)
    new = platform.migrate(group)
    await bots.exchange(person, new, "And now?", "You said: Ana: And now?", to_bot=True)
    (session,) = await bots.sessions()
    assert session["linkedBotChatId"] == new
    assert [one for one in await bots.said() if one.startswith("user")] == [
        "user: Ana: Where?",
        "user: Ana: And now?",
    ]


@pytest.mark.shared
async def test_settings_that_change_during_an_answer_lose_and_double_nothing(
    bots: Bots, platform: PlatformRig
):
    going = asyncio.Event()
    person, chat = await bots.paired()
    bots.model.script = in_parts("Here ", going, "it is.")
    await bots.exchange(person, chat, "Where?", "Here")
    await platform.say(person, chat, "And then?")
    for level in ("sandboxed", "direct"):
        said = {platform.platform: {"dm_trust_level": level}}
        await bots.api("PUT", "bots/config", json=said)
    going.set()
    shown = await bots.until(
        chat, lambda shown: [one.text for one in shown][1:] == ["Here it is."] * 2
    )
    assert len(shown) == len(bots.model.jobs) + 1


async def test_a_token_that_is_taken_back_is_one_line_of_doctor_and_no_loop(
    bots: Bots, platform: PlatformRig
):
    await bots.paired()
    await platform.revoke()

    async def stopped() -> str | None:
        found = await bots.status()
        return found["problem"] if found["status"] == "stopped" else None

    problem = await eventually(stopped, bots.status)
    assert "token" in problem
    findings = (await bots.api("GET", "doctor"))["findings"]
    (advice,) = [finding["advice"] for finding in findings if problem in finding["problem"]]
    assert f"`parachute bots add {platform.platform} - < token.txt`" in advice
    tried = await bots.api("POST", f"bots/{platform.platform}/test")
    assert (tried["success"], "token" in tried["error"]) == (False, True)


@pytest.mark.shared
async def test_many_chats_at_once_each_get_their_own_answers_in_order(
    bots: Bots, platform: PlatformRig, *, torture: bool
):
    people = await bots.let_in(50 if torture else 8)
    for turn in range(3):
        for number, (chat, person) in enumerate(people.items()):
            await platform.say(person, chat, f"Say {number} and {turn}")
    for number, chat in enumerate(people):
        shown = await bots.until(chat, lambda shown: len(shown) >= 3 and "and 2" in shown[-1].text)
        assert [one.text for one in shown] == [
            f"You said: Say {number} and {turn}" for turn in range(3)
        ]
