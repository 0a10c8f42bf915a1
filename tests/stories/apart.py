"""Apart: a daemon in a process of its own, for what cannot be done to the tests' own process, and
what it told a client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from parachuted.home_files.vault_state import state_folder
from parachuted.processes.presence import running_daemon
from parachuted.vault import IndexSnapshot, VaultIndex
from tests.cli.command_line import PARACHUTE
from tests.cli.forked import COMMAND, ForkedProcess, forking

AnyProcess = asyncio.subprocess.Process | ForkedProcess


@dataclass
class ReceivedEvent:
    """An event as it came over the wire."""

    event: str
    data: Mapping[str, object]


@dataclass
class DaemonProcess:
    """A running daemon."""

    pid: int
    url: str
    client: aiohttp.ClientSession
    events: list[ReceivedEvent] = field(default_factory=list)

    async def until(self, condition: Callable[[], object], seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (
                f"did not happen in {seconds} s; told: {self.events[-12:]}"
            )
            await asyncio.sleep(0.01)

    async def health(self) -> dict[str, object]:
        async with self.client.get(f"{self.url}/api/health?detailed=true") as answer:
            return dict(await answer.json())


@contextlib.asynccontextmanager
async def started(
    vault: Path, home: Path, *before: str, **environ: str
) -> AsyncIterator[tuple[AnyProcess, Mapping[str, object]]]:
    """A daemon that has announced itself, and its record; `before` are the words of a command that
    starts it otherwise than usual.
    """
    usual = {"PARACHUTE_HOME": str(home), "PARACHUTE_AGENT_BACKEND": "offline"}
    words = ("start", "--foreground", "--vault", str(vault), "--port", "0")
    env = {**os.environ, **usual, **environ}
    with (home.parent / "daemon.log").open("ab") as log:
        if before:
            process = await asyncio.create_subprocess_exec(
                *before, *PARACHUTE, *words, env=env, stdout=log, stderr=log
            )
        else:
            files = [log.fileno()] * 2
            process = forking().fork(COMMAND, words, files=files, env=env)
    try:
        yield process, await _announced(home, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await asyncio.wait_for(process.wait(), 20)


@contextlib.asynccontextmanager
async def apart(
    vault: Path, home: Path, *before: str, **environ: str
) -> AsyncIterator[DaemonProcess]:
    """The same with a client that hears its events."""
    async with (
        started(vault, home, *before, **environ) as (_process, record),
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as client,
    ):
        daemon_rig = DaemonProcess(
            pid=int(str(record["pid"])), url=f"http://127.0.0.1:{record['port']}", client=client
        )
        async with client.get(f"{daemon_rig.url}/api/events") as stream:
            reader = asyncio.get_running_loop().create_task(
                _read(stream, daemon_rig.events), name="events"
            )
            yield daemon_rig
            reader.cancel()


def index_left_by(vault: Path, home: Path) -> VaultIndex:
    """What a daemon that has ended knew of its vault."""
    index = IndexSnapshot(state_folder(home, vault)).load()
    assert index is not None
    return index


async def _announced(home: Path, process: AnyProcess) -> dict[str, object]:
    deadline = time.monotonic() + 120
    while (record := running_daemon(str(home))) is None or record["pid"] != process.pid:
        assert process.returncode is None, (home.parent / "daemon.log").read_text()
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    return record


async def _read(stream: aiohttp.ClientResponse, events: list[ReceivedEvent]) -> None:
    with contextlib.suppress(aiohttp.ClientError):
        async for line in stream.content:
            if line.startswith(b'data: {"event"'):
                document = json.loads(line[6:])
                events.append(ReceivedEvent(event=document["event"], data=document["data"]))
