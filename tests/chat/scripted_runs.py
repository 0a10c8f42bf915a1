"""Agents of Chat that do what a test says, and the turns of it as an app sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from parachuted.errors import AgentStoppedError, NotFoundError
from parachuted.modules import (
    AgentNarrowing,
    AgentResources,
    AgentResult,
    AgentSkill,
    AgentStep,
    AgentText,
    AgentTextDelta,
    AgentUsage,
    ServerEvent,
)
from parachuted.testing import ModuleHarness
from tests.chat.app_decoder import decoded
from tests.chat.chat_of import running_chat

# a step, a pause until the event is set, or what the run fails of
Moment: TypeAlias = AgentStep | asyncio.Event | Exception
Script: TypeAlias = Sequence[Moment] | Callable[[str, Mapping[str, Any]], Sequence[Moment]]


@dataclass
class StartedRun:
    agent: str
    prompt: str
    options: Mapping[str, Any]
    moments: list[Moment] = field(default_factory=list)
    injected: list[str] = field(default_factory=list)
    answers: dict[str, object] = field(default_factory=dict)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    said: str = ""
    error: Exception | None = None


class ScriptedRuns:
    """A RunAccess. Each run follows the script, but a curator's, which says that it is done;
    `judge` answers what the module asks of a model. `skills` are the vault's with their texts,
    `servers` the MCP servers that are approved.
    """

    def __init__(
        self, script: Script = (), judge: Callable[[str, str | None], str] | None = None
    ) -> None:
        self.script, self.judge = script, judge
        self.runs: dict[str, StartedRun] = {}
        self.skills: dict[AgentSkill, str] = {}
        self.servers: tuple[str, ...] = ()

    @property
    def started(self) -> list[StartedRun]:
        return [run for run in self.runs.values() if run.agent != "curator"]

    async def start(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        if agent == "curator":
            assert options["budget"] == "conversation"
            moments: Sequence[Moment] = [AgentText(text="done")]
        else:
            moments = self.script(prompt, options) if callable(self.script) else self.script
        run = f"r{len(self.runs) + 1:010d}"
        self.runs[run] = StartedRun(agent, prompt, options, list(moments))
        return run

    async def next(self, run: str) -> AgentStep | None:
        one = self.runs[run]
        while one.moments and not one.stopped.is_set():
            moment = one.moments.pop(0)
            if isinstance(moment, asyncio.Event):
                await _first(moment.wait(), one.stopped.wait())
            elif isinstance(moment, Exception):
                one.error = moment
                return None
            else:
                await asyncio.sleep(0)
                if isinstance(moment, AgentText):
                    one.said = moment.text
                return moment
        return None

    async def result(self, run: str) -> AgentResult:
        one = self.runs[run]
        if one.stopped.is_set():
            raise AgentStoppedError("it was stopped")
        if one.error is not None:
            raise one.error
        session = one.options.get("session_id") or f"cli-{run}"
        return AgentResult(
            text=one.said, run_id=run, outcome="unchanged", session_id=str(session), cost_usd=0.25
        )

    async def stop(self, run: str) -> bool:
        self.runs[run].stopped.set()
        return True

    async def inject(self, run: str, text: str) -> bool:
        self.runs[run].injected.append(text)
        return not self.runs[run].stopped.is_set()

    async def answer(self, run: str, name: str, value: object) -> bool:
        if name in self.runs[run].answers:
            return False
        self.runs[run].answers[name] = value
        return True

    async def ask(
        self, prompt: str, system: str | None, max_usd: float | None, *, conversation: bool = False
    ) -> str:
        del max_usd
        assert conversation, "a conversation's question takes nothing of the curators' budget"
        if self.judge is None:
            raise NotFoundError("no judge here")
        return self.judge(prompt, system)

    async def resources(self, agent: str, options: Mapping[str, object]) -> AgentResources:
        del agent
        narrowing = options["narrowing"]
        assert isinstance(narrowing, AgentNarrowing)
        found = [self.servers, narrowing.tools, narrowing.mcps]
        left = [set(one) for one in found if one is not None]
        servers = tuple(sorted(set.intersection(*left)))
        return AgentResources(skills=tuple(self.skills), mcp_servers=servers)

    async def skill(self, name: str) -> str:
        for one, text in self.skills.items():
            if one.name == name:
                return text
        raise NotFoundError(f"there is no skill {name}")


def words(text: str) -> list[AgentStep]:
    """A text as it comes from a model."""
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    return [*(AgentTextDelta(text=piece) for piece in pieces), AgentText(text=text)]


def usage(cost_usd: float = 0.0, context_tokens: int = 0) -> AgentUsage:
    return AgentUsage(
        input_tokens=5,
        output_tokens=2,
        cache_read_tokens=0,
        cost_usd=cost_usd,
        context_tokens=context_tokens,
    )


@asynccontextmanager
async def scripted_chat(
    vault: Path,
    script: Script = (),
    judge: Callable[[str, str | None], str] | None = None,
    **options: Any,
) -> AsyncIterator[tuple[ModuleHarness, ScriptedRuns]]:
    runs = ScriptedRuns(script, judge)
    async with running_chat(vault, runs=runs, **options) as module:
        yield module, runs


async def ask(module: ModuleHarness, message: str, session_id: str | None = None, **more: Any):
    """The events of a whole turn, as the app decodes them."""
    body = {"message": message, "sessionId": session_id or "new", "module": "chat", **more}
    return events_of(await module.request("POST", "/", body=body))


def events_of(items: object) -> list[dict[str, Any]]:
    assert isinstance(items, list)
    return [_event(item) for item in items]


def _event(item: object) -> dict[str, Any]:
    assert isinstance(item, ServerEvent)
    return {**decoded(item.data), "_id": item.id}


def only(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The last event of that type."""
    return [event for event in events if event["type"] == kind][-1]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The types of events, without those of the connection."""
    return [event["type"] for event in events if event["type"] not in {"ping", "reset"}]


async def until(holds: Callable[[], Any]) -> None:
    """Wait for that, at most for a minute."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.001)


async def _first(*waits: Any) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
