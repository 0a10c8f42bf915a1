"""Fixtures for sandboxes: run a command in a box as an agent's CLI would be."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from parachuted.access.agent_config import SandboxConfig
from parachuted.access.grant import Network
from parachuted.agents.job import RunFolder, RunSandbox
from parachuted.agents.sandbox import Container, Sandboxes
from parachuted.agents.sandbox.archive import ArchiveReader, ArchiveWriter, LeftOut
from parachuted.agents.sandbox.options import find_bundled_cli
from tests.engine import containers

DEADLINE_S = 60
CLI = find_bundled_cli() or Path(sys.executable).resolve()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRun:
    container: Container
    folder: RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    out: str
    code: int
    problem: str | None


def opening(
    sandboxes: Sandboxes,
    folder: RunFolder,
    *command: str,
    config: SandboxConfig | None = None,
    is_writable: bool = True,
    network: Network = "none",
    env: Mapping[str, str] | None = None,
) -> AbstractAsyncContextManager[Container]:
    access = "rw" if is_writable else "ro"
    config = replace(config or SandboxConfig(), workspace_access=access)
    sandbox = RunSandbox(config=config, folder=folder, network=network)
    return sandboxes.open(sandbox, command, env or {}, CLI)


def fill(archive: Path, owner: tuple[int, int] | None, **files: str) -> None:
    with closing(ArchiveWriter(archive, owner)) as writer:
        for name, text in files.items():
            writer.add(name, text.encode())


def files_in(archive: Path) -> dict[str, str]:
    with closing(ArchiveReader(archive)) as reader:
        files = reader.files(LeftOut(), most=1_000, largest=1 << 20)
        return {path: data.decode() for path, data in files}


def made_by(sandboxes: Sandboxes, engine: Mapping[str, str]) -> list[str]:
    """Their containers that the engine still has."""
    return containers(engine, of=f"org.parachuted.daemon={sandboxes._owner.daemon}")


@asynccontextmanager
async def boxed(sandboxes: Sandboxes, *command: str, **how: object) -> AsyncIterator[SandboxRun]:
    async with (
        sandboxes.prepare() as folder,
        opening(sandboxes, folder, *command, **how) as container,
    ):
        yield SandboxRun(container=container, folder=folder)


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
