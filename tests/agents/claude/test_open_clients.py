"""The client of a conversation stays open for its next turn, with the real CLI: what it may do is
the present turn's, and between two turns nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
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
from parachuted.testing import Delay, say, use
from tests.agents.conftest import Claude, until

GRANT = Grant(agent="chat", reads=EVERYWHERE, writes=EVERYWHERE, tainted_writes=EVERYWHERE)


class OpenConversation:
    def __init__(self, claude: Claude, job: Callable, run: Callable) -> None:
        self.claude, self.active_runs = claude, ActiveRuns()
        self.session: str | None = None
        self._job, self._run, self._number = job, run, 0

    def job(self, prompt: str, **parts: object):
        self._number += 1
        name = f"run-{self._number}"
        working = ActiveRun(run=name, agent="chat", entry="chat", since=datetime.now(UTC))
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

    async def turn(self, prompt: str, says: str | None = None, **parts: object):
        """The model `says` it, if it has not been said what it says."""
        if says is not None:
            self.claude.api.add([say(says)])
        outcome = await self._run(self.claude.backend, self.job(prompt, **parts))
        if outcome.error is None:
            self.session = outcome.account.session_id
        return outcome

    async def begins(self) -> set[int]:
        assert (await self.turn("What grows?", "Beans.")).error is None
        return self.processes()

    async def goes_on(self, **parts: object) -> set[int]:
        outcome = await self.turn("What else?", "And peas.", **parts)
        assert outcome.error is None
        assert words(outcome) == "And peas."
        assert "What grows?" in str(self.claude.api.asked[-1].body["messages"])
        return self.processes()

    def processes(self) -> set[int]:
        return self.claude.left_over()


@pytest.fixture
def talk(claude: Claude, job: Callable, run: Callable) -> OpenConversation:
    return OpenConversation(claude, job, run)


def environment_of(process: int) -> dict[str, str]:
    entries = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


def words(outcome) -> str:
    return "".join(step.text for step in outcome.all(TextDelta))


async def test_the_next_turn_goes_on_in_the_same_process_with_its_own_tools(talk, agent_rig):
    kept = await talk.begins()
    assert kept

    async def answer(_arguments):
        return ToolResult(text="of the second turn")

    agent_rig.answers["read_context"] = answer
    talk.claude.api.add([use("read_context", file_path="a.md")])
    second = await talk.turn("What else?", "And peas.")

    assert second.error is None
    assert talk.processes() == kept
    [called], [session] = second.all(ToolCallStep), second.all(SessionStep)
    assert called.result.text == "of the second turn"
    assert session.is_resumed
    assert words(second) == "And peas."
    assert "What grows?" in str(talk.claude.api.asked[-1].body["messages"])
    spent = [talk.claude.gateway.usage_store.spent(f"run-{number}").usd for number in (1, 2)]
    assert second.account.cost_usd == spent[1] > spent[0] > 0

    # a turn that is stopped leaves no process
    talk.claude.api.add(Delay(seconds=60, then=[say("late")]))
    async with aclosing(talk.claude.backend.run(talk.job("What else?"))) as steps:
        async for _step in steps:
            break
    assert await talk.claude.is_gone(20)


async def test_a_turn_for_which_anything_changed_gets_another_process(talk):
    kept, parts = await talk.begins(), {}
    for name, changed in (
        ("system_prompt", "You tend another garden."),
        ("model", "claude-opus-5-5"),
        ("grant", replace(GRANT, writes=AccessGrant(alternatives=()))),
    ):
        parts[name] = changed
        others = await talk.goes_on(**parts)
        assert not others & kept, name
        kept = others


async def test_between_turns_its_key_leads_nowhere_and_no_tool_answers(talk, agent_rig):
    await talk.begins()
    [environment] = [env for env in map(environment_of, talk.processes()) if KEY_VARIABLE in env]
    [waiting] = talk.claude.backend._backend._open._clients.values()

    async with (
        aiohttp.ClientSession(headers={"x-api-key": environment[KEY_VARIABLE]}) as session,
        session.post(f"{environment['ANTHROPIC_BASE_URL']}/v1/messages", json={}) as answer,
    ):
        assert answer.status == 401
    asked = {"tool_name": "mcp__curator__read_context"}
    denied = await waiting.toolbox.gate(asked, None, None)
    assert denied["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert len(talk.claude.api.asked) == 1
    assert not agent_rig.calls

    # it ends where its last run would be ended
    talk.active_runs.end("the module is disabled", lambda working: working.agent == "another")
    assert talk.processes()
    talk.active_runs.end("the module is disabled", lambda working: working.agent == "chat")
    assert await talk.claude.is_gone(20)
    await talk.goes_on()


async def test_a_process_that_died_meanwhile_is_replaced_and_the_turn_goes_on(talk, caplog):
    for process in await talk.begins():
        os.kill(process, signal.SIGKILL)

    await talk.goes_on()
    assert "Fatal error" not in caplog.text


async def test_of_more_than_two_conversations_the_oldest_is_closed(talk):
    processes = []
    for number in range(3):
        talk.session = None
        before = talk.processes()
        assert (await talk.turn(f"Number {number}", "Yes.")).error is None
        processes.append(talk.processes() - before)

    await until(lambda: not talk.processes() & processes[0])
    assert talk.processes() == processes[1] | processes[2]


@pytest.mark.parametrize(
    "settings", [{"idle_s": 0.1}, {"available_memory": lambda: 1 << 20}], ids=["old", "memory"]
)
async def test_one_that_is_idle_for_long_or_while_memory_is_short_is_closed(talk, settings):
    talk.claude.backend = make_backend("claude", replace(talk.claude.settings, **settings))

    await talk.begins()
    assert await talk.claude.is_gone(20)
    await talk.goes_on()


async def test_a_turn_that_is_cancelled_before_it_begins_leaves_no_process(talk, monkeypatch):
    assert await talk.begins()
    opening = asyncio.Event()

    @asynccontextmanager
    async def open_slowly(*_given, **_more):
        opening.set()
        await asyncio.Event().wait()
        yield

    with monkeypatch.context() as patch:
        patch.setattr(talk.claude.gateway, "open", open_slowly)
        turn = asyncio.get_running_loop().create_task(talk.turn("What else?"))
        async with asyncio.timeout(30):
            await opening.wait()
        turn.cancel()
        await asyncio.wait([turn])

    assert turn.cancelled()
    assert await talk.claude.is_gone(20)
    # nor does a turn that ends after the backend was closed
    await talk.claude.backend.close()
    await talk.goes_on()
    assert await talk.claude.is_gone(20)
