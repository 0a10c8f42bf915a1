"""Chat: from a conversation's turn to the first words of the answer, beyond the model's own time,
with the real CLI and a scripted model that answers at once.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

from benchmarks.model import ask, make_gateway
from benchmarks.report import Figure
from parachuted.agents.backends import ClaudeSettings, make_backend
from parachuted.agents.job import Backend, ConversationInput, RunResult, TextDelta
from parachuted.processes.heavy import load_heavy
from parachuted.testing import ScriptedMessages, say

_MODEL = "claude-haiku-4-5-20251001"
_TURNS = 7


def chat(folder: Path) -> Iterator[Figure]:
    """The first turn of a conversation, which starts a CLI, and those that go on in that."""
    first, later = asyncio.run(_measure(folder))
    for name, seconds, bound in (
        ("the first turn", first, 1.0),
        ("later turns", later, 0.15),
    ):
        ordered = sorted(seconds)
        yield Figure(
            name=f"first words beyond the model's time, {name}, p50",
            value=ordered[len(ordered) // 2],
            unit="s",
            bound=bound,
            note=f"(slowest of {len(ordered)}: {ordered[-1]:.2f} s)",
        )


async def _measure(folder: Path) -> tuple[list[float], list[float]]:
    await load_heavy("claude")  # its import is the daemon's first run's alone
    async with ScriptedMessages() as api:
        gateway = make_gateway(folder, api.url)
        settings = ClaudeSettings(
            model=_MODEL,
            folder=folder / "agent",
            env=os.environ,
            gateway=gateway,
        )
        backend = make_backend("claude", settings)
        try:
            first: list[float] = []
            later: list[float] = []
            for _ in range(_TURNS):
                seconds, session = await _turn(backend, api, None)
                first.append(seconds)
                later.append((await _turn(backend, api, session))[0])
        finally:
            await backend.close()
            await gateway.close()
    return first, later


async def _turn(
    backend: Backend, api: ScriptedMessages, session: str | None
) -> tuple[float, str | None]:
    """Seconds until the first words, and the session to go on with."""
    api.add([say("Blue, as you said in May.", pieces=5)])
    job = ask(
        "Modules/chat",
        "Which colour?",
        session_id=session,
        conversation=ConversationInput(),
        hold=lambda _end: lambda: None,
    )
    began, seconds = time.perf_counter(), 0.0
    async with aclosing(backend.run(job)) as steps:  # type: ignore[type-var]
        async for step in steps:
            if isinstance(step, TextDelta) and not seconds:
                seconds = time.perf_counter() - began
            if isinstance(step, RunResult):
                session = step.session_id
    return seconds, session
