"""Gateway: what it costs to go by it, against going straight to the same scripted model, in rounds
in turn; fifty streams.

The model answers at once, so that what is measured is ours. Agents, gateway and model have a
process each.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks.report import Figure
from benchmarks.serving import percentile
from parachuted.agents.gateway.gateway import Endpoint, Gateway
from parachuted.agents.gateway.usage import MoneyLimits, RunToken, UsageStore

_ASKED, _WARMING = 600, 50
_STREAMS, _STREAM_MB = 50, 4
_MODEL = "claude-haiku-4-5"
_BODY = {
    "model": _MODEL,
    "max_tokens": 50,
    "stream": True,
    "messages": [{"role": "user", "content": "x" * 30_000}],
}
_READY_S = 20.0


def gateway(folder: Path) -> Iterator[Figure]:
    """Both."""
    folder.mkdir(parents=True, exist_ok=True)
    yield from asyncio.run(_measure(folder))


async def _measure(folder: Path) -> list[Figure]:
    async with _model() as url, _gateway(folder, url) as way:
        spans = await _agents("first_bytes", url, way)
        straight, by_it = spans["straight"], spans["by_it"]
        added = percentile(by_it, 0.95) - percentile(straight, 0.95)
        middle = statistics.median(by_it) - statistics.median(straight)
        note = f"medians differ by {middle:.2f} ms"
        figures = [
            Figure(
                name="gateway: first byte straight, p95",
                value=percentile(straight, 0.95),
                unit="ms",
                bound=None,
            ),
            Figure(
                name="gateway: first byte by it, p95",
                value=percentile(by_it, 0.95),
                unit="ms",
                bound=None,
            ),
            Figure(
                name="gateway: added to the first byte, p95 less p95",
                value=added,
                unit="ms",
                bound=3,
                note=note,
            ),
        ]
        return [*figures, *await _streams(url, way)]


async def _streams(url: str, way: Endpoint) -> list[Figure]:
    """Fifty long streams at once: those that were not whole, and memory beyond that of before."""
    await _agents("streams", url, way)  # what is loaded and kept once
    before = _memory_mb()
    reported = await _agents("streams", url, way)
    peak = _memory_mb(peak=True)
    lost, speed = (
        sum(size != reported["wanted"][0] for size in reported["sizes"]),
        sum(reported["sizes"]) / reported["seconds"][0] / 1e6,
    )
    return [
        Figure(
            name=f"gateway: {_STREAMS} streams of {_STREAM_MB} MB, not whole",
            value=lost,
            unit="",
            bound=0,
            note=f"{speed:.0f} MB/s",
        ),
        Figure(
            name="gateway: memory more than before them", value=peak - before, unit="MB", bound=30
        ),
    ]


async def _agents(what: str, url: str, way: Endpoint) -> dict[str, list[float]]:
    """What agents in a process of their own saw."""
    command = [sys.executable, "-m", "benchmarks.gateway", what, url, way.url, way.token]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    reported, _ = await process.communicate()
    answer: dict[str, list[float]] = json.loads(reported)
    return answer


async def _ask_first_bytes(url: str, way: str, token: str) -> dict[str, list[float]]:
    """Milliseconds to the first byte of an answer, straight and by the gateway, in turn."""
    spans: dict[str, list[float]] = {url: [], way: []}
    async with aiohttp.ClientSession() as session:
        for number in range(_ASKED):
            for base, found in spans.items():
                began = time.perf_counter()
                async with session.post(
                    f"{base}/v1/messages", json=_BODY, headers={"x-api-key": token}
                ) as response:
                    await response.content.readany()
                    span = (time.perf_counter() - began) * 1e3
                    await response.read()
                if number >= _WARMING:
                    found.append(span)
    return {"straight": spans[url], "by_it": spans[way]}


async def _ask_streams(_url: str, way: str, token: str) -> dict[str, list[float]]:
    """The bytes of each stream; 0 for one that was cut."""

    async def take(session: aiohttp.ClientSession) -> int:
        body = {**_BODY, "stream_mb": _STREAM_MB}
        async with session.post(
            f"{way}/v1/messages", json=body, headers={"x-api-key": token}
        ) as response:
            size, tail = 0, b""
            async for piece in response.content.iter_any():
                size, tail = size + len(piece), (tail + piece)[-64:]
            return size if b"message_stop" in tail else 0

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        wanted, began = await take(session), time.perf_counter()
        sizes = await asyncio.gather(*(take(session) for _ in range(_STREAMS)))
    return {"wanted": [wanted], "sizes": list(sizes), "seconds": [time.perf_counter() - began]}


@asynccontextmanager
async def _gateway(folder: Path, url: str) -> AsyncIterator[Endpoint]:
    limits = MoneyLimits(usd_per_cause=1e6, usd_per_hour=1e6, usd_per_day=1e6)
    gate = Gateway(
        env={"ANTHROPIC_API_KEY": "sk-ant-bench-0123456789"},
        vault=folder,
        user_home=folder,
        base_url=url,
        usage_store=UsageStore(folder / "usage.db", time.time, limits),
    )
    try:
        async with gate.open(
            RunToken(
                run="bench",
                agent="bench",
                causes=("c",),
                session=None,
                max_cost_usd=1e6,
                model=_MODEL,
            )
        ) as way:
            yield way
    finally:
        await gate.close()


def _memory_mb(*, peak: bool = False) -> float:
    """Resident memory of this process, in MB; the most since the last call without `peak`."""
    if not peak:
        Path("/proc/self/clear_refs").write_text("5")
    name = "VmHWM" if peak else "VmRSS"
    status = Path("/proc/self/status").read_text()
    return (
        int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1024
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Events:
    """The pieces of the model's answers."""

    start: bytes
    delta: bytes
    end: bytes


def _events() -> _Events:
    def event(document: dict[str, object]) -> bytes:
        return f"event: {document['type']}\ndata: {json.dumps(document)}\n\n".encode()

    usage = {"input_tokens": 100, "output_tokens": 20}
    start = event(
        {"type": "message_start", "message": {"model": "claude-haiku-4-5", "usage": usage}}
    )
    delta = event(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "x" * 900},
        }
    )
    return _Events(
        start=start,
        delta=delta,
        end=event({"type": "message_delta", "usage": usage}) + event({"type": "message_stop"}),
    )


@asynccontextmanager
async def _model() -> AsyncIterator[str]:
    """The scripted model in a process of its own."""
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "benchmarks.gateway"], stdout=subprocess.PIPE, text=True
    )
    try:
        line = (
            await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), _READY_S)
            if process.stdout
            else ""
        )
        yield line.strip()
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout:
            process.stdout.close()


async def _serve() -> None:
    """Be the model: say where it listens, and answer until ended."""
    from aiohttp import web  # noqa: PLC0415  only this process serves

    events = _events()

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(events.start)
        for _ in range(body.get("stream_mb", 0) * 1024):
            await response.write(events.delta)
        await response.write(events.end)
        return response

    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/messages", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


_ASKING = {"first_bytes": _ask_first_bytes, "streams": _ask_streams}

if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(_ASKING[sys.argv[1]](*sys.argv[2:]))))
    else:
        asyncio.run(_serve())
