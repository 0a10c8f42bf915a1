"""Fixtures for sandboxes: run a command in a box as an agent's CLI would be."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from parachuted.access.agent_config import SandboxConfig
from parachuted.access.grant import Network
from parachuted.agents.job import RunSandbox
from parachuted.agents.sandbox import Container, Sandboxes, SandboxSlot, SandboxSpec
from parachuted.agents.sandbox.options import find_cli

DEADLINE_S = 60
CLI = find_cli() or Path(sys.executable).resolve()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRun:
    """A container at work, and the folders that it sees."""

    container: Container
    slot: SandboxSlot


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command printed, and how it ended."""

    out: str
    code: int
    problem: str | None


def spec_of(
    slot: SandboxSlot,
    *command: str,
    config: SandboxConfig | None = None,
    is_writable: bool = True,
    network: Network = "none",
    env: Mapping[str, str] | None = None,
    cli: Path = CLI,
) -> SandboxSpec:
    box = RunSandbox(
        config=config or SandboxConfig(),
        work=slot.work,
        is_writable=is_writable,
        home=slot.home,
        sockets=slot.sockets,
        network=network,
    )
    return SandboxSpec(
        sandbox=box,
        command=command,
        env=env or {},
        cli=cli,
    )


@asynccontextmanager
async def boxed(sandboxes: Sandboxes, *command: str, **how: object) -> AsyncIterator[SandboxRun]:
    """Begin a command in a box of its own."""
    async with (
        sandboxes.prepare() as slot,
        sandboxes.open(spec_of(slot, *command, **how)) as container,
    ):
        yield SandboxRun(container=container, slot=slot)


Run = Callable[..., Awaitable[CommandResult]]


@pytest.fixture
def run(sandboxes: Sandboxes) -> Run:
    """Run a command line to its end: `await run("id -u", config=..., network=...)`."""

    async def run(line: str, **how: object) -> CommandResult:
        async with (
            asyncio.timeout(DEADLINE_S),
            boxed(sandboxes, "sh", "-c", f"({line}) 2>&1", **how) as at_work,
        ):
            await at_work.container.end_input()
            out = await at_work.container.stdout.read()
            return CommandResult(
                out=out.decode(),
                code=await at_work.container.wait(),
                problem=at_work.container.problem,
            )

    return run
