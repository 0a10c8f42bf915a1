"""What a bot does when its daemon is killed, the platform is down, or the token is taken back."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from modules.bots.connectors import connector_class
from parachuted.agents import Step, TextDelta
from parachuted.agents.job import Job
from parachuted.presence import running_daemon
from tests.bots.conftest import Bots, Starting, eventually, says_so
from tests.bots.rigs import PlatformRig

_ROUNDS, _CHATS = 6, 50


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


@asynccontextmanager
async def killed_after(vault: Path, home: Path) -> AsyncIterator[None]:
    """A daemon of its own that serves the vault; when the block ends it is killed."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PARACHUTE_HOME": str(home)}
    command = ["start", "--foreground", "--quiet", "--vault", str(vault), "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "parachuted", *command),
        env={**env, "PARACHUTE_AGENT_BACKEND": "offline"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:

        async def serves() -> bool | None:
            found = await asyncio.to_thread(running_daemon, home)
            return None if found is None else True

        await eventually(serves, serves)
        yield
    finally:
        process.kill()
        await process.wait()


async def test_a_daemon_that_is_killed_answers_each_message_once(
    starting: Starting, platform: PlatformRig, vault: Path, home: Path
):
    async with starting() as bots:
        person, chat = await bots.paired()
    moments = random.Random(27)  # noqa: S311  moments, no secrets
    said = [f"What about bed {number}?" for number in range(_ROUNDS)]
    for text in said:
        async with killed_after(vault, home):
            await platform.say(person, chat, text)
            await asyncio.sleep(moments.random() * 1.5)
    async with starting() as bots:
        await platform.say(person, chat, "And the last?")
        await bots.answer(chat, "And the last?")
        messages = await bots.said()
        shown = await platform.shown(chat)
    asked = [one.removeprefix("user: ") for one in messages if one.startswith("user")]
    assert sorted(asked) == sorted([*said, "And the last?"])
    assert len(shown) == len(asked) + 1  # and the code
    assert all(one.text for one in shown)


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
        await eventually(lambda: _true(bots.model.jobs), lambda: _true(bots.model.jobs))
        if moment == "begun":
            going["asked"].set()
            await bots.answer(chat, "On the")
        memory = read_memory(home)
        for event in going.values():
            event.set()
        before = await bots.answer(chat, "On the south bed.")
        await bots.platform.say(person, chat, "/status")
        await bots.answer(chat, "Mode:")
        model = bots.model
    put_back(home, memory)
    async with starting(model) as bots:
        model.script = says_so
        await platform.say(person, chat, "And the peas?")
        shown = await bots.answer(chat, "And the peas?")
        assert [one.text for one in shown if "south bed" in one.text] == ["On the south bed."]
        assert [one.id for one in shown][: len(before)] == [one.id for one in before]
        assert (await bots.said())[:2] == [
            "user: Where are the beans?",
            "assistant: On the south bed.",
        ]
        assert sum("beans" in one.prompt for one in model.jobs) == 1


async def test_what_is_sent_while_the_platform_is_down_is_answered_afterwards(
    bots: Bots, platform: PlatformRig
):
    person, chat = await bots.paired()
    async with platform.outage():
        await platform.say(person, chat, "Is it you?")

        async def lost() -> bool | None:
            found = (await bots.api("GET", "bots/status"))["connectors"][platform.platform]
            return True if found["problem"] and not found["running"] else None

        await eventually(lost, lambda: bots.api("GET", "bots/status"))
    shown = await bots.answer(chat, "You said: Is it you?")
    assert len(shown) == len({one.id for one in shown}) == 2


async def test_an_answer_that_comes_while_the_platform_is_down_arrives(
    bots: Bots, platform: PlatformRig
):
    going = asyncio.Event()

    async def waits(_job: Job) -> AsyncIterator[Step]:
        await going.wait()
        yield TextDelta(text="Here it is.")

    person, chat = await bots.paired()
    bots.model.script = waits
    await platform.say(person, chat, "Where?")
    await eventually(lambda: _true(bots.model.jobs), lambda: _true(bots.model.jobs))
    async with platform.outage():
        going.set()
        await asyncio.sleep(0.5)
    shown = await bots.answer(chat, "Here it is.")
    assert [one.text for one in shown][1:] == ["Here it is."]


async def test_settings_that_change_while_an_answer_is_written_lose_and_double_nothing(
    bots: Bots, platform: PlatformRig
):
    going = asyncio.Event()

    async def slowly(_job: Job) -> AsyncIterator[Step]:
        yield TextDelta(text="Here ")
        await going.wait()
        yield TextDelta(text="it is.")

    person, chat = await bots.paired()
    bots.model.script = slowly
    await platform.say(person, chat, "Where?")
    await bots.answer(chat, "Here")
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
        found = (await bots.api("GET", "bots/status"))["connectors"][platform.platform]
        return found["problem"] if not found["running"] else None

    problem = await eventually(stopped, lambda: bots.api("GET", "bots/status"))
    assert "token" in problem
    findings = (await bots.api("GET", "doctor"))["findings"]
    assert len([one for one in findings if problem in one["problem"]]) == 1
    tried = await bots.api("POST", f"bots/{platform.platform}/test")
    assert (tried["success"], "token" in tried["error"]) == (False, True)


async def test_fifty_chats_at_once_each_get_their_own_answers_in_order(
    bots: Bots, platform: PlatformRig
):
    people = [await platform.person(f"P{number}") for number in range(_CHATS)]
    chats = [await platform.dm(one) for one in people]
    allowed = {platform.platform: {"allowed_users": people}}
    await bots.api("PUT", "bots/config", json=allowed)
    for turn in range(3):
        for number, (person, chat) in enumerate(zip(people, chats, strict=True)):
            await platform.say(person, chat, f"Say {number} and {turn}")
    for number, chat in enumerate(chats):
        shown = await bots.until(chat, lambda shown: len(shown) >= 3 and "and 2" in shown[-1].text)
        assert [one.text for one in shown] == [
            f"You said: Say {number} and {turn}" for turn in range(3)
        ]


async def _true(value: object) -> bool | None:
    return True if value else None
