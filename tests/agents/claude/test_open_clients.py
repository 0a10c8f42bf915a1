"""The client of a conversation stays open for its next turn, with the real CLI: what it may do is
the present turn's, and between two turns nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from parachuted.access.grant import Grant
from parachuted.agents.active_runs import ActiveRun, ActiveRuns
from parachuted.agents.backends import make_backend
from parachuted.agents.credentials import KEY_VARIABLE
from parachuted.agents.job import (
    ConversationInput,
    SessionStep,
    TextDelta,
    ToolCallStep,
    ToolResult,
)
from parachuted.keys.scopes import EVERYWHERE, AccessGrant
from parachuted.processes.heavy import load_heavy
from parachuted.testing import Delay, ScriptedMessages, say, use
from tests.agents.conftest import Claude

GRANT = Grant(agent="chat", reads=EVERYWHERE, writes=EVERYWHERE, tainted_writes=EVERYWHERE)


class OpenConversation:
    def __init__(self, claude: Claude, job: Callable, run: Callable) -> None:
        self.claude, self.active_runs = claude, ActiveRuns()
        self.session: str | None = None
        self._job, self._run, self._number = job, run, 0

    def job(self, prompt: str, **parts: object):
        self._number += 1
        working = ActiveRun(
            run=f"run-{self._number}", agent="chat", entry="chat", since=datetime.now(UTC)
        )
        usual = {
            "id": working.run,
            "prompt": prompt,
            "conversation": ConversationInput(),
            "session_id": self.session,
            "hold": lambda end: self.active_runs.hold(working, end),
            "grant": GRANT,
            "pool": "conversation",
        }
        return self._job(**{**usual, **parts})

    async def turn(self, prompt: str, **parts: object):
        outcome = await self._run(self.claude.backend, self.job(prompt, **parts))
        if outcome.error is None:
            self.session = outcome.account.session_id
        return outcome

    def processes(self) -> set[int]:
        return self.claude.left_over()


@pytest.fixture
async def talk(tmp_path: Path, job: Callable, run: Callable) -> AsyncIterator[OpenConversation]:
    await load_heavy("claude")
    async with ScriptedMessages() as api:
        claude = Claude(api, tmp_path / "agents", os.environ)
        yield OpenConversation(claude, job, run)
        await claude.close()
        assert await claude.is_gone(20)


def environment_of(process: int) -> dict[str, str]:
    entries = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


def words(outcome) -> str:
    return "".join(step.text for step in outcome.steps if isinstance(step, TextDelta))


async def test_the_next_turn_goes_on_in_the_same_process_with_its_own_tools_and_account(
    talk, agent_rig
):
    talk.claude.api.add([say("Beans.")])
    first = await talk.turn("What grows?")
    kept = talk.processes()
    assert kept

    async def answer(_arguments):
        return ToolResult(text="of the second turn")

    agent_rig.answers["read_context"] = answer
    talk.claude.api.add([use("read_context", file_path="a.md")], [say("And peas.")])
    second = await talk.turn("What else?")

    assert (first.error, second.error) == (None, None)
    assert talk.processes() == kept
    [called] = [step for step in second.steps if isinstance(step, ToolCallStep)]
    assert called.result.text == "of the second turn"
    [session] = [step for step in second.steps if isinstance(step, SessionStep)]
    assert session.is_resumed
    assert words(second) == "And peas."
    assert "What grows?" in str(talk.claude.api.asked[-1].body["messages"])
    gateway = talk.claude.gateway
    assert (
        second.account.cost_usd
        == gateway.usage_store.spent("run-2").usd
        > gateway.usage_store.spent("run-1").usd
        > 0
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"system_prompt": "You tend another garden."},
        {"model": "claude-opus-5-5"},
        {"grant": replace(GRANT, writes=AccessGrant(alternatives=()))},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_a_turn_for_which_anything_changed_gets_another_process(talk, changed):
    talk.claude.api.add([say("Beans.")], [say("And peas.")])
    await talk.turn("What grows?")
    kept = talk.processes()

    second = await talk.turn("What else?", **changed)

    assert second.error is None
    assert words(second) == "And peas."
    assert not talk.processes() & kept
    assert "What grows?" in str(talk.claude.api.asked[-1].body["messages"])


async def test_between_turns_its_key_leads_nowhere_and_no_tool_answers(talk, agent_rig):
    talk.claude.api.add([say("Beans.")])
    await talk.turn("What grows?")
    [environment] = [env for env in map(environment_of, talk.processes()) if KEY_VARIABLE in env]
    [waiting] = talk.claude.backend._backend._open._clients.values()

    async with (
        aiohttp.ClientSession(headers={"x-api-key": environment[KEY_VARIABLE]}) as session,
        session.post(f"{environment['ANTHROPIC_BASE_URL']}/v1/messages", json={}) as answer,
    ):
        assert answer.status == 401
    denied = await waiting.client.toolbox.gate(
        {"tool_name": "mcp__curator__read_context"}, None, None
    )

    assert denied["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert len(talk.claude.api.asked) == 1
    assert not agent_rig.calls


async def test_it_ends_where_its_last_run_would_be_ended(talk):
    talk.claude.api.add([say("Beans.")], [say("And peas.")])
    await talk.turn("What grows?")
    talk.active_runs.end("the module is disabled", lambda working: working.agent == "another")
    assert talk.processes()

    talk.active_runs.end("the module is disabled", lambda working: working.agent == "chat")

    assert await talk.claude.is_gone(20)
    assert words(await talk.turn("What else?")) == "And peas."


async def test_a_turn_that_is_stopped_leaves_no_process(talk):
    talk.claude.api.add([say("Beans.")], Delay(seconds=60, then=[say("late")]))
    await talk.turn("What grows?")

    async with aclosing(talk.claude.backend.run(talk.job("What else?"))) as steps:
        async for _step in steps:
            break

    assert await talk.claude.is_gone(20)


async def test_a_process_that_died_meanwhile_is_replaced_and_the_turn_goes_on(talk, caplog):
    talk.claude.api.add([say("Beans.")], [say("And peas.")])
    await talk.turn("What grows?")
    for process in talk.processes():
        os.kill(process, signal.SIGKILL)

    second = await talk.turn("What else?")

    assert second.error is None
    assert words(second) == "And peas."
    assert "What grows?" in str(talk.claude.api.asked[-1].body["messages"])
    assert "Fatal error" not in caplog.text


async def test_of_more_than_two_conversations_the_oldest_is_closed(talk):
    processes = []
    for number in range(3):
        talk.session = None
        talk.claude.api.add([say("Yes.")])
        before = talk.processes()
        assert (await talk.turn(f"Number {number}")).error is None
        processes.append(talk.processes() - before)

    await until(lambda: not talk.processes() & processes[0])
    assert talk.processes() == processes[1] | processes[2]


@pytest.mark.parametrize(
    "settings", [{"idle_s": 0.1}, {"available_memory": lambda: 1 << 20}], ids=["old", "memory"]
)
async def test_one_that_is_idle_for_long_or_while_memory_is_short_is_closed(talk, settings):
    backend = make_backend("claude", replace(talk.claude.settings, **settings))
    talk.claude.backend = backend
    talk.claude.api.add([say("Beans.")], [say("And peas.")])

    assert (await talk.turn("What grows?")).error is None
    assert await talk.claude.is_gone(20)

    assert words(await talk.turn("What else?")) == "And peas."
    assert "What grows?" in str(talk.claude.api.asked[-1].body["messages"])
    await backend.close()


async def test_a_turn_that_is_cancelled_before_its_conversation_begins_leaves_no_process(
    talk, monkeypatch
):
    talk.claude.api.add([say("Beans.")])
    await talk.turn("What grows?")
    assert talk.processes()
    opening = asyncio.Event()

    @asynccontextmanager
    async def open_slowly(*_given, **_more):
        opening.set()
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(talk.claude.gateway, "open", open_slowly)
    turn = asyncio.get_running_loop().create_task(talk.turn("What else?"))
    async with asyncio.timeout(30):
        await opening.wait()
    turn.cancel()
    await asyncio.wait([turn])

    assert turn.cancelled()
    assert await talk.claude.is_gone(20)


async def test_a_turn_that_ends_after_the_backend_was_closed_leaves_no_process(talk):
    talk.claude.api.add([say("Beans.")], [say("And peas.")])
    await talk.turn("What grows?")
    await talk.claude.backend.close()

    assert (await talk.turn("What else?")).error is None

    assert await talk.claude.is_gone(20)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)
