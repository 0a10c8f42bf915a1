"""Runs: from the start of an agent's run to its first request at the model, with the real CLI, a
scripted model and a real engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.model import ask, make_gateway
from benchmarks.report import Figure
from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.backends import ClaudeSettings, make_backend
from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.job import Backend, NativeTools, RunSandbox
from parachuted.agents.sandbox.options import find_bundled_cli
from parachuted.agents.sandbox.sandboxes import Sandboxes
from parachuted.processes.heavy import load_heavy
from parachuted.testing import Block, RecordedRequest, ScriptedMessages, say
from tests.engine import an_engine

_RUNS = 9
_PAUSE_S = 3.0  # what a run leaves to be done after it is not the next run's time
_BOX = SandboxConfig(workspace_access="rw")
_MODEL = "claude-haiku-4-5-20251001"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rig:
    """A backend whose model says when it is asked."""

    backend: Backend
    api: ScriptedMessages
    asked: list[float]

    async def first_byte(self, native: NativeTools | None, start_at: float) -> float:
        """Run once; seconds from `start_at` until the model was asked."""
        del self.asked[:]
        self.api.add(self.answer)
        job = ask("AGENTS.md", "Something changed.", native=native)
        async with aclosing(self.backend.run(job)) as steps:  # type: ignore[type-var]
            async for _step in steps:
                pass
        return self.asked[0] - start_at

    def answer(self, _request: RecordedRequest) -> list[Block]:
        """Note when it was asked."""
        self.asked.append(time.perf_counter())
        return [say("done")]


def runs(folder: Path) -> Iterator[Figure]:
    """The CLI by itself; with our own tools alone; and in a container."""
    try:
        with an_engine() as engine:
            spans = asyncio.run(_measure(folder, engine))
    except pytest.skip.Exception as reason:
        print(f"runs: not measured: {reason}")
        return
    names = ("the bare CLI", "our tools only", "container")
    for name, seconds, bound in zip(names, spans, (None, 1.0, 4.0), strict=True):
        note = f"(slowest of {len(seconds)}: {max(seconds):.2f} s)"
        yield Figure(
            name=f"run start to the model's first byte, {name}",
            value=statistics.median(seconds),
            unit="s",
            bound=bound,
            note=note,
        )


async def _measure(folder: Path, engine: Mapping[str, str]) -> tuple[list[float], ...]:
    """Each kind of run in turn, so that what else the machine does falls on all alike."""
    await load_heavy("claude")  # its import is the first run's alone
    async with ScriptedMessages() as api, _boxes(folder, engine) as boxes:
        gateway = make_gateway(folder, api.url)
        rig = _rig(folder, api, gateway, boxes)
        try:
            await _boxed(rig, boxes)
            spans: tuple[list[float], ...] = ([], [], [])
            for _ in range(_RUNS):
                await asyncio.sleep(_PAUSE_S)
                spans[0].append(await _bare(rig, folder))
                spans[1].append(await rig.first_byte(None, time.perf_counter()))
                spans[2].append(await _boxed(rig, boxes))
        finally:
            await gateway.close()
    return spans


async def _bare(rig: _Rig, folder: Path) -> float:
    """The reference: the CLI by itself, straight to the model, with none of our parts."""
    del rig.asked[:]
    rig.api.add(rig.answer)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "ANTHROPIC_BASE_URL": rig.api.url,
        "ANTHROPIC_API_KEY": "none",
    }
    command = [
        str(find_bundled_cli()),
        "-p",
        "Something changed.",
        "--model",
        _MODEL,
        "--tools",
        "",
        "--setting-sources=",
    ]
    start_at = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**env, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    await process.wait()
    return rig.asked[0] - start_at


async def _boxed(rig: _Rig, boxes: Sandboxes) -> float:
    start_at = time.perf_counter()
    async with boxes.prepare() as folder:
        box = RunSandbox(config=_BOX, folder=folder)

        async def before(*_call: object) -> str | None:
            return None

        async def after(*_call: object) -> str:
            return ""

        return await rig.first_byte(
            NativeTools(tools=("Read", "Edit", "Bash"), sandbox=box, before=before, after=after),
            start_at,
        )


def _rig(folder: Path, api: ScriptedMessages, gateway: Gateway, boxes: Sandboxes) -> _Rig:
    settings = ClaudeSettings(
        model=_MODEL,
        folder=folder / "agent",
        env=os.environ,
        gateway=gateway,
        sandboxes=boxes,
    )
    return _Rig(backend=make_backend("claude", settings), api=api, asked=[])


@contextlib.asynccontextmanager
async def _boxes(folder: Path, engine: Mapping[str, str]) -> AsyncIterator[Sandboxes]:
    made = Sandboxes(folder=folder / "slots", env=engine, label=f"bench-{os.getpid()}")
    if (await made.status()).image is None:
        async for _line in made.build(offline=True):
            pass
    try:
        yield made
    finally:
        await made.close()
        await made.sweep()
