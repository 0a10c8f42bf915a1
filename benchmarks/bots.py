"""Bots: from a message in a chat to the first text of its answer, fifty chats at once, and what a
connected bot takes of an idle machine. Telegram is the tests' Bot API server on loopback, and the
model answers at once: what is measured is the bot, Chat and the daemon.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.brain_saves import call_api, install_official
from benchmarks.process import Process, daemon, temporary_home, wait
from benchmarks.report import Figure
from benchmarks.serving import percentile

if TYPE_CHECKING:
    from tests.bots.telegram_rig import TelegramRig

_CHATS, _TURNS, _WARM, _ROUNDS = 50, 3, 10, 6
_TO_BE_WHOLE_S, _SETTLING_S, _IDLE_S = 1.5, 30.0, 60.0
_A_SECOND, _CALLS = 28, 2  # by Telegram's own limit; an answer is a message and an edit


def bots(folder: Path) -> Iterator[Figure]:
    """All."""
    (folder / "vault").mkdir()
    yield from asyncio.run(_answers(folder / "vault"))
    memory, processor = zip(*asyncio.run(_idle(folder)), strict=True)
    yield Figure(
        name="idle: memory that a connected bot adds",
        value=memory[1] - memory[0],
        unit="MB",
        bound=25,
        note=f"({memory[0]:.0f} MB with Chat alone)",
    )
    yield Figure(
        name="idle: processor with a connected bot",
        value=processor[1],
        unit="% of a core",
        bound=0.1,
        note=f"({processor[0]:.3f} with Chat alone)",
    )


async def _answers(vault: Path) -> list[Figure]:
    model = ("-m", "tests.bots.killable", str(vault))
    with temporary_home() as home, daemon(vault, home, command=(*model, str(home))) as process:
        async with _connected(process) as rig:
            chats = [await rig.dm(await rig.person(f"P{number}")) for number in range(_CHATS)]
            await _put(process, {"telegram": {"allowed_users": chats}})
            spans = []
            for turn in range(_ROUNDS):
                for chat in chats[:_WARM]:
                    span = await _first_text(rig, chat, f"How is bed {turn}?")
                    spans += [span * 1e3] if turn else []
                    await asyncio.sleep(_TO_BE_WHOLE_S)  # two edits of a chat are a second apart
            before, began = len(_sent(rig)), time.monotonic()
            for turn in range(_TURNS):
                for chat in chats:
                    await rig.say(chat, chat, f"And bed {turn}?")
            await asyncio.to_thread(wait, lambda: len(_sent(rig)) == before + _CHATS * _TURNS)
            at_once_s = _sent(rig)[-1] - began
    return [
        Figure(
            name="chat to first text of a bot's answer, p95",
            value=percentile(spans, 0.95),
            unit="ms",
            bound=200,
            note=f"p50 {percentile(spans, 0.5):.0f} ms, {len(spans)} messages in {_WARM} chats",
        ),
        Figure(
            name=f"{_CHATS * _TURNS} messages in {_CHATS} chats at once, against Telegram's pace",
            value=at_once_s,
            unit="s",
            reference=_CHATS * _TURNS * _CALLS / _A_SECOND,
            bound=None,
        ),
    ]


async def _idle(folder: Path) -> list[tuple[float, float]]:
    """Memory and processor without a bot, and with one."""
    found = []
    for name in ("without", "with"):
        vault = folder / name
        vault.mkdir()
        with temporary_home() as home:
            async with _connected(None) as rig:
                with daemon(vault, home) as process:
                    await asyncio.to_thread(install_official, process, "chat")
                    if name == "with":
                        await _connect(process, rig)
                with daemon(vault, home) as process:  # as it is after any start
                    await asyncio.sleep(_SETTLING_S)
                    before, began = process.processor_s(), time.perf_counter()
                    await asyncio.sleep(_IDLE_S)
                    took = time.perf_counter() - began
                    processor = (process.processor_s() - before) / took * 100
                    found.append((process.memory_mb(), processor))
    return found


@asynccontextmanager
async def _connected(process: Process | None) -> AsyncIterator[TelegramRig]:
    """A platform, and the bot of that daemon on it."""
    from tests.bots.telegram_rig import TelegramRig  # noqa: PLC0415  only here

    rig = await TelegramRig().open()
    try:
        if process is not None:
            await asyncio.to_thread(install_official, process, "chat")
            await _connect(process, rig)
        yield rig
    finally:
        await rig.close()


async def _connect(process: Process, rig: TelegramRig) -> None:
    await asyncio.to_thread(install_official, process, "bots")
    await _put(process, {"telegram": rig.settings()})
    await asyncio.to_thread(wait, lambda: _sent(rig, "getUpdates"))


async def _put(process: Process, body: dict[str, Any]) -> None:
    await asyncio.to_thread(call_api, process, "/api/bots/config", body, "PUT")


async def _first_text(rig: TelegramRig, chat: str, text: str) -> float:
    before, began = len(_sent(rig)), time.monotonic()
    await rig.say(chat, chat, text)
    await asyncio.to_thread(wait, lambda: len(_sent(rig)) > before)
    return _sent(rig)[before] - began


def _sent(rig: TelegramRig, method: str = "sendMessage") -> list[float]:
    """When the bot called that."""
    return [at for name, at in [*rig.api.asked] if name == method]
