"""A daemon in a process of its own, which a test can kill at any moment. Its model answers in
pieces, of which the first has the question.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from parachuted.agents.job import Job, Step, TextDelta
from parachuted.processes.presence import running_daemon as find_daemon
from tests.bots.conftest import Model, eventually, question_of
from tests.cli.forked import forking
from tests.stories.daemon_rig import running_daemon

LAST = "is where it was."


@asynccontextmanager
async def killed_after(vault: Path, home: Path, platform: str) -> AsyncIterator[None]:
    """A daemon whose bot is connected; when the block ends it is killed."""
    process = forking().fork("tests.bots.killable", (str(vault), str(home)), env=os.environ)
    try:

        async def serves() -> bool | None:
            found = find_daemon(str(home))
            if found is None or found["pid"] != process.pid:
                return None
            url = f"http://127.0.0.1:{found['port']}/api/bots/status"
            async with aiohttp.ClientSession() as client, client.get(url) as answer:
                is_connected = (
                    answer.ok and (await answer.json())["connectors"][platform]["running"]
                )
            return True if is_connected else None

        await eventually(serves, serves)
        yield
    finally:
        process.kill()
        await process.wait()


async def in_pieces(job: Job) -> AsyncIterator[Step]:
    for piece in (f"{question_of(job)} ", "So far as the notes say, it ", LAST):
        yield TextDelta(text=piece)
        await asyncio.sleep(0.1)


async def _serve(vault: Path, home: Path) -> None:
    model = Model()
    model.script = in_pieces
    async with running_daemon(vault, home, model):
        await asyncio.Event().wait()


def main(words: list[str]) -> None:
    """Run with the folders of a vault and a home, until it is killed."""
    vault, home = map(Path, words)
    asyncio.run(_serve(vault, home))
