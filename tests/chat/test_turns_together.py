"""Several sessions that stream at once."""

from __future__ import annotations

import asyncio

from tests.chat.chat_of import texts
from tests.chat.scripted_runs import ask, kinds, only, scripted_chat, until, words

SESSIONS = 5
LONG = 300  # words of an answer


def said_to(question: str) -> str:
    """An answer in which each word says to whom it belongs, and where."""
    return " ".join(f"{question}{number}" for number in range(LONG))


async def test_five_sessions_stream_at_once_each_whole_and_in_its_order(vault):
    begin = asyncio.Event()
    asked = [f"q{number}-" for number in range(SESSIONS)]

    def script(prompt, _options):
        return [begin, *words(said_to(prompt))]

    async with scripted_chat(vault, script) as (module, runs):
        async with asyncio.TaskGroup() as group:
            turns = [group.create_task(ask(module, one)) for one in asked]
            await until(lambda: len(runs.started) == SESSIONS)
            begin.set()
        sessions = set()
        for question, turn in zip(asked, turns, strict=True):
            events = turn.result()
            answer = said_to(question)
            assert kinds(events).count("done") == 1
            assert kinds(events)[-1] == "done"
            spoken = [one for one in events if one["type"] == "text"]
            assert len(spoken) > 1
            assert "".join(one["delta"] for one in spoken) == answer
            assert all(answer.startswith(one["content"]) for one in spoken)
            numbers = [int(one["_id"].rpartition("-")[2]) for one in events if one["_id"]]
            assert numbers
            assert numbers == sorted(set(numbers))
            session = only(events, "done")["sessionId"]
            assert await texts(module, session) == [question, answer]
            sessions.add(session)
        assert len(sessions) == SESSIONS
