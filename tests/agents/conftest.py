"""What the tests of agents share: a job with tools, the real CLI before a scripted model, and a
look at what still runs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from parachuted.agents.backends import ClaudeSettings, make_backend
from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.usage import MoneyLimits, UsageStore
from parachuted.agents.job import (
    Backend,
    Job,
    RunLimits,
    RunResult,
    Step,
    TextStep,
    Tool,
    ToolResult,
)
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.errors import AgentFailedError
from parachuted.processes.heavy import load_heavy
from parachuted.testing import ScriptedMessages

HAIKU = "claude-haiku-4-5-20251001"
TEXT = {"type": "string"}
LIMITS = MoneyLimits(usd_per_cause=50.0, usd_per_hour=50.0, usd_per_day=50.0)
S = TypeVar("S")


class AgentRig:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, object]]] = []
        self.answers: dict[str, Callable[[Mapping[str, object]], Awaitable[ToolResult]]] = {}

    def tool(self, name: str, *required: str) -> Tool:
        async def call(arguments: Mapping[str, object]) -> ToolResult:
            self.calls.append((name, arguments))
            answer = self.answers.get(name)
            return await answer(arguments) if answer else ToolResult(text=f"{name} did it")

        schema = {
            "type": "object",
            "properties": dict.fromkeys(required, TEXT),
            "required": list(required),
            "additionalProperties": False,
        }
        return Tool(name=name, description=f"{name}s", schema=schema, call=call, server="curator")


@pytest.fixture
def agent_rig() -> AgentRig:
    return AgentRig()


@pytest.fixture
def job(agent_rig: AgentRig) -> Callable[..., Job]:
    """Makes a job; keywords override its parts, those of its limits too."""

    def make(**parts: object) -> Job:
        limits = {
            name: parts.pop(name, usual)
            for name, usual in (("timeout_s", 120.0), ("max_turns", 10), ("max_cost_usd", 0.5))
        }
        usual = {
            "id": "run-1",
            "watcher": "AGENTS.md",
            "system_prompt": "You tend notes.",
            "prompt": "Something changed.",
            "tools": (
                agent_rig.tool("read_context", "file_path"),
                agent_rig.tool("update_context", "file_path", "section", "content"),
            ),
            "changes": (),
            "at": datetime(2026, 11, 21, 12, 0, tzinfo=UTC),
        }
        return Job(**{**usual, **parts, "limits": RunLimits(**limits)})

    return make


class Outcome:
    def __init__(self, steps: list[Step], error: BaseException | None, seconds: float) -> None:
        self.steps, self.error, self.seconds = steps, error, seconds

    @property
    def account(self) -> RunResult:
        assert isinstance(self.steps[-1], RunResult)
        return self.steps[-1]

    def all(self, kind: type[S]) -> list[S]:
        """Its steps of that kind."""
        return [step for step in self.steps if isinstance(step, kind)]

    @property
    def texts(self) -> list[str]:
        return [step.text for step in self.all(TextStep)]


async def until(holds: Callable[[], object], within_s: float = 120) -> None:
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.fixture
def run() -> Callable[[Backend, Job], Awaitable[Outcome]]:
    async def run(backend: Backend, job: Job) -> Outcome:
        steps: list[Step] = []
        error = None
        began = time.monotonic()
        try:
            async with aclosing(backend.run(job)) as stream:
                async for step in stream:
                    steps.append(step)  # noqa: PERF401 - what came before an error counts
        except AgentFailedError as raised:
            error = raised
        return Outcome(steps, error, time.monotonic() - began)

    return run


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    """The vault and the user's home, in which a login may lie."""
    made = (tmp_path / "vault", tmp_path / "user")
    for home in made:
        (home / ".claude").mkdir(parents=True)
    return made


class Claude:
    """The real CLI, its scripted model with the gateway before it, and the folder that only it
    uses.
    """

    def __init__(
        self,
        api: ScriptedMessages,
        folder: Path,
        env: Mapping[str, str],
        boxes: Sandboxes | None = None,
    ) -> None:
        self.api = api
        self.folder = folder
        self.gateway = Gateway(
            env=env,
            vault=folder,
            user_home=folder,
            base_url=api.url,
            usage_store=UsageStore(folder.with_suffix(".db"), time.time, LIMITS),
        )
        self.settings = ClaudeSettings(
            model=HAIKU,
            folder=folder,
            env=env,
            gateway=self.gateway,
            sandboxes=boxes,
        )
        self.backend = make_backend("claude", self.settings)

    async def close(self) -> None:
        await self.backend.close()
        await self.gateway.close()

    def left_over(self) -> set[int]:
        return {
            int(entry.name)
            for entry in os.scandir("/proc")
            if entry.name.isdigit() and self._owns(Path(entry.path))
        }

    async def is_gone(self, within_s: float) -> bool:
        with suppress(TimeoutError):
            await until(lambda: not self.left_over(), within_s)
        return not self.left_over()

    def _owns(self, process: Path) -> bool:
        mine = f"HOME={self.folder}/home".encode()
        try:
            return mine in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            return False


@asynccontextmanager
async def open_claude(
    folder: Path, env: Mapping[str, str] = os.environ, boxes: Sandboxes | None = None
) -> AsyncIterator[Claude]:
    await load_heavy("claude")  # its import is not a run's time
    async with ScriptedMessages() as api:
        it = Claude(api, folder, env, boxes)
        yield it
        await it.close()
        assert await it.is_gone(20)


@pytest.fixture
async def claude(tmp_path: Path) -> AsyncIterator[Claude]:
    env = {**os.environ, "A_SECRET": "of the daemon"}
    async with open_claude(tmp_path / "agents", env) as it:
        yield it
