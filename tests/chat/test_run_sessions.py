"""Run sessions: a tool finds the conversation of the run that calls it."""

from __future__ import annotations

import asyncio

from tests.module_files import chat_file

run_sessions = chat_file("turn")


async def test_a_tool_call_of_a_starting_run_waits_for_its_session():
    sessions = run_sessions.RunSessions()
    with sessions.starting():
        asked = asyncio.create_task(sessions.get("r1"))  # noqa: TID251  awaited below
        await asyncio.sleep(0)
        sessions.add("r1", "s1", is_curator=True)
        assert await asked == run_sessions.RunSession("s1", is_curator=True)
    assert sessions.runs_of("s1") == ["r1"]


async def test_a_run_of_no_conversation_waits_for_nothing_but_starts():
    sessions = run_sessions.RunSessions()
    sessions.add("r1", "s1")
    assert await sessions.get("r2") is None
    assert await sessions.get(None) is None
    with sessions.starting():
        asked = asyncio.create_task(sessions.get("r2"))  # noqa: TID251  awaited below
        await asyncio.sleep(0)
        assert not asked.done()
    assert await asked is None
