"""Model: a job, and the scripted Messages API in a thread of its own for daemons that run the real
CLI.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import Queue
from typing import Any
from uuid import uuid4

from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.usage import MoneyLimits, UsageStore
from parachuted.agents.job import Job, RunLimits
from parachuted.testing import ScriptedMessages, Turn


@contextlib.contextmanager
def scripted_model(turns: Sequence[Turn]) -> Iterator[str]:
    """The address of a server that answers with these turns, one after another."""
    urls: Queue[str] = Queue()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with ScriptedMessages(turns) as api:
            urls.put(api.url)
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        yield urls.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def ask(watcher: str, prompt: str, **more: Any) -> Job:  # noqa: ANN401  as `Job` has them
    """A job without tools; `more`: the other fields of `Job` that it has."""
    return Job(
        id=str(uuid4()),
        watcher=watcher,
        system_prompt="You tend notes.",
        prompt=prompt,
        tools=(),
        limits=RunLimits(timeout_s=60.0, max_turns=5, max_cost_usd=1.0),
        changes=(),
        at=datetime.now(UTC),
        **more,
    )


def make_gateway(folder: Path, url: str) -> Gateway:
    """A gateway to the model at `url` that keeps its usage in `folder`."""
    limits = MoneyLimits(usd_per_cause=9.0, usd_per_hour=9.0, usd_per_day=9.0)
    return Gateway(
        env=os.environ,
        vault=folder,
        user_home=folder,
        base_url=url,
        usage_store=UsageStore(folder / "usage.db", time.time, limits),
    )
