"""Modules in containers: the API that answers them, and a stand-in for Docker where walls do not
matter: a plain process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from parachuted.agents.sandbox import ContainerProgram
from parachuted.api import ApiMiddleware, HostGuard, KeyAuthenticator, serve_module
from parachuted.keys import KeyFile, KeyRing
from parachuted.modules.hosting.module_containers import ContainerHost, ModuleContainers
from parachuted.texts.times import utc_now
from parachuted.vault import VaultRoot
from tests.cli.forked import MODULE, ForkedProcess, forking
from tests.modules.module_rig import MemoryAudit
from tests.modules.small_modules import StubServices, approve, write_module


class ProcessContainer:
    """A process as `Container` is one."""

    def __init__(self, process: ForkedProcess) -> None:
        self._process, self.problem = process, None
        self.stdout = asyncio.StreamReader(limit=32 << 20)

    async def open(self, stdin: int, stdout: int) -> None:
        """Write and read at these."""
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self.stdout)
        self._reading, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(stdout, "rb"))
        flow = asyncio.streams.FlowControlMixin
        self._writing, written = await loop.connect_write_pipe(flow, os.fdopen(stdin, "wb"))
        self._stdin = asyncio.StreamWriter(self._writing, written, None, loop)
        self._ended = loop.create_task(self._process.wait(), name="the end of a module's process")

    async def write(self, data: bytes) -> None:
        self._stdin.write(data)
        await self._stdin.drain()

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def end_soon(self, problem: str) -> None:
        self.problem = self.problem or problem
        self._process.kill()

    async def close(self) -> None:
        self._process.kill()
        await self.wait()
        self._reading.close()
        self._writing.close()


class ProcessSandboxes:
    """As `Sandboxes`; processes are forked, as starting an interpreter for each takes a second."""

    @asynccontextmanager
    async def run(self, program: ContainerProgram) -> AsyncIterator[ProcessContainer]:
        (its_stdin, stdin), (stdout, its_stdout) = os.pipe(), os.pipe()
        process = forking().fork(MODULE, files=[its_stdin, its_stdout, its_stdout], env=program.env)
        os.close(its_stdin)
        os.close(its_stdout)
        container = ProcessContainer(process)
        await container.open(stdin, stdout)
        try:
            yield container
        finally:
            await container.close()


class ContainerRig:
    """What the API recorded is in `audit`; `ring` holds the keys."""

    def __init__(self, folder: Path, sandboxes: Any = None) -> None:
        for name in ("vault", "home"):
            (folder / name).mkdir(parents=True)
        self.audit, self.ring = MemoryAudit(), KeyRing(KeyFile(folder / "home"), utc_now)
        self.run = folder / "home/run"
        authenticator = KeyAuthenticator(self.ring, "remote", "token", utc_now)
        root = VaultRoot(folder / "vault")
        front = ApiMiddleware(HostGuard(), authenticator, root, self.audit, utc_now)
        self.sandboxes = sandboxes or ProcessSandboxes()
        self.containers = ModuleContainers(
            folder=self.run,
            secret=[folder / "vault", folder / "home"],
            sandboxes=self.sandboxes,
            ring=self.ring,
            clock=utc_now,
        )
        self.containers.serve = partial(serve_module, front)


@asynccontextmanager
async def hosted(
    folder: Path,
    body: str,
    services: StubServices | None = None,
    rig: ContainerRig | None = None,
    **more: str,
) -> AsyncIterator[ContainerHost]:
    """An untrusted module of that body, at work in a process, or where that rig has it run."""
    approved = approve(write_module(folder / "copy", body, **more), trust="untrusted")
    containers = (rig or ContainerRig(folder / "rig")).containers
    host = ContainerHost(approved, services or StubServices(), None, lambda: None, containers)
    await host.start()
    try:
        yield host
    finally:
        await host.stop()
