"""Modules in containers: the API that answers them, and a stand-in for Docker where walls do not
matter: a plain process.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from parachuted.agents.sandbox import ContainerProgram
from parachuted.api import ApiMiddleware, HostGuard, KeyAuthenticator, serve_module
from parachuted.keys import KeyFile, KeyRing
from parachuted.modules.hosting.module_containers import ContainerHost, ModuleContainers
from parachuted.texts.times import utc_now
from parachuted.vault import VaultRoot
from tests.modules.module_rig import MemoryAudit
from tests.modules.small_modules import StubServices, approve, write_module


class ProcessContainer:
    """A process as `Container` is one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.stdout, self.problem = process, process.stdout, None

    async def write(self, data: bytes) -> None:
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def wait(self) -> int:
        return await self.process.wait()

    def end_soon(self, problem: str) -> None:
        self.problem = self.problem or problem
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)


class ProcessSandboxes:
    """As `Sandboxes`. `processes` are all that ran."""

    def __init__(self) -> None:
        self.processes: list[asyncio.subprocess.Process] = []

    @asynccontextmanager
    async def run(self, program: ContainerProgram) -> AsyncIterator[ProcessContainer]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *program.command, stdin=pipe, stdout=pipe, env=dict(program.env), limit=32 << 20
        )
        self.processes.append(process)
        try:
            yield ProcessContainer(process)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            process._transport.close()


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
