"""Chat's turns with Claude Code's CLI and a model that answers at once: how soon the first words
come, and fifty conversations at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from benchmarks.model import scripted_model
from benchmarks.process import Process, daemon, temporary_home
from benchmarks.report import Figure
from benchmarks.serving import percentile
from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import say

_WARM, _NEW, _AT_ONCE, _PIECES = 40, 3, 50, 20
_WORDS = "one two three four five six seven eight nine ten " * 4
_LIMIT_S = 300.0


@dataclass
class _Followed:
    """What a client saw of a turn."""

    first_s: float | None = None
    session: str | None = None
    text: str = ""
    last: str = ""
    ids: list[int] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing, and nothing came in another order."""
        in_order = self.ids == sorted(self.ids)
        return self.last == "done" and self.text.split() == _WORDS.split() and in_order


def chat_turns(folder: Path) -> Iterator[Figure]:
    """A daemon of its own; the curators of the conversations work beside them."""
    vault = folder / "vault"
    vault.mkdir()
    with (
        temporary_home() as home,
        scripted_model([[say(_WORDS, pieces=_PIECES)]] * 1_000) as url,
        daemon(
            vault,
            home,
            PARACHUTE_AGENT_BACKEND="claude",
            PARACHUTE_AGENT_BASE_URL=url,
            ANTHROPIC_API_KEY="sk-ant-api03-benchmark",
        ) as process,
    ):
        yield from asyncio.run(_measured(process))


async def _measured(process: Process) -> list[Figure]:
    url = f"http://{process.host}:{process.port}"
    timeout = aiohttp.ClientTimeout(total=_LIMIT_S)
    async with aiohttp.ClientSession(url, timeout=timeout) as client:
        await _install(client)
        cold = await _turn(client, "Begin.", None)
        warm = [await _turn(client, f"Go on {index}.", cold.session) for index in range(_WARM)]
        fresh = [await _turn(client, f"Begin again {index}.", None) for index in range(_NEW)]
        before, began = process.memory_mb(), time.perf_counter()
        async with asyncio.TaskGroup() as group:
            asked = [
                group.create_task(_turn(client, f"Number {index}.", None), name=f"turn {index}")
                for index in range(_AT_ONCE)
            ]
        took, grown = time.perf_counter() - began, process.memory_mb() - before
    whole = sum(one.result().is_whole for one in asked)
    began_ms = [1_000 * (one.first_s or _LIMIT_S) for one in fresh]
    spans = [1_000 * (one.first_s or _LIMIT_S) for one in warm]
    note = f"{whole} of {_AT_ONCE} whole, in {took:.1f} s; the daemon grew by {grown:.0f} MB"
    return [
        _figure("chat: POST to first text, after the start", 1_000 * (cold.first_s or _LIMIT_S)),
        _figure("chat: POST to first text, new conversation", percentile(began_ms, 0.95), 1_000),
        _figure("chat: POST to first text, p95", percentile(spans, 0.95), 150),
        Figure(
            name=f"chat: of {_AT_ONCE} at once, cut or reordered",
            value=_AT_ONCE - whole,
            unit="",
            bound=0,
            note=note,
        ),
    ]


async def _install(client: aiohttp.ClientSession) -> None:
    source = str(bundled_folder("modules") / "chat")
    async with client.post("/api/modules/install", json={"source": source}) as answer:
        shown = await answer.json()
    body = {"hash": shown["hash"], "trust": "trusted"}
    async with client.post("/api/modules/chat/approve", json=body) as answer:
        answer.raise_for_status()


async def _turn(client: aiohttp.ClientSession, message: str, session: str | None) -> _Followed:
    seen, began, event_id = _Followed(), time.perf_counter(), ""
    async with client.post("/api/chat", json={"message": message, "sessionId": session}) as answer:
        answer.raise_for_status()
        async for raw in answer.content:
            if raw.startswith(b"id: "):
                event_id = raw[4:].decode().strip()
            if not raw.startswith(b"data: "):
                continue
            event = json.loads(raw[6:])
            seen.last, seen.session = event["type"], event.get("sessionId") or seen.session
            seen.ids.append(int(event_id.rpartition("-")[2]))
            if event["type"] == "text":
                seen.first_s = seen.first_s or time.perf_counter() - began
                seen.text += event["delta"]
    return seen


def _figure(name: str, value: float, bound: float | None = None) -> Figure:
    note = f"load {os.getloadavg()[0]:.1f}"
    return Figure(name=name, value=value, unit="ms", bound=bound, note=note)
