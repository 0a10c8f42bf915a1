"""Chat's sessions: appending to a long one, and listing, searching and paging many."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.report import Figure
from benchmarks.serving import percentile
from parachuted.access.caller import Caller, acting
from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import ModuleHarness, running_module

_LONG = 10_000
_MANY = 5_000
_APPENDS = 100
_IN_A_ROW = 10  # a turn appends two, and its file is written before the next comes
_LISTS = 60
_FOLDER = "Chat/sessions"


def chat_sessions(folder: Path) -> Iterator[Figure]:
    """In the module's own process, without HTTP."""
    yield from asyncio.run(_appending(folder / "long"))
    yield from asyncio.run(_listing(folder / "many"))


async def _appending(vault: Path) -> list[Figure]:
    for count in (10, _LONG):
        _write_session(vault, count, count)
    bare = _bare_ms(vault / "bare")
    async with _chat(vault) as chat:
        short = await _append_ms(chat, _id(10))
        long = await _append_ms(chat, _id(_LONG))
    return [
        Figure(
            name=f"append to a session of {count:,} messages, p95",
            value=percentile(spans, 0.95),
            unit="ms",
            reference=percentile(bare, 0.95),
            bound=bound,
        )
        for count, spans, bound in ((10, short, None), (_LONG, long, None))
    ] + [
        Figure(
            name=f"append to a session of {_LONG:,} messages beyond a bare append, p95",
            value=percentile(long, 0.95) - percentile(bare, 0.95),
            unit="ms",
            bound=3,
        )
    ]


async def _listing(vault: Path) -> list[Figure]:
    for number in range(_MANY):
        _write_session(vault, number, 4)
    async with _chat(vault) as chat:
        sessions = _sessions(chat)
        first = await sessions.page(archived=False, limit=50)
        measured = {
            "list 50 of 5,000 sessions": lambda: sessions.page(archived=False, limit=50),
            "the next 50 of 5,000": lambda: sessions.page(limit=50, cursor=first.next),
            "search among 5,000": lambda: sessions.page(search="bean 77", limit=50),
            "list 500 of 5,000": lambda: sessions.page(archived=False, limit=500),
        }
        return [
            Figure(
                name=f"{name}, p95", value=percentile(await _spans(call), 0.95), unit="ms", bound=20
            )
            for name, call in measured.items()
        ]


async def _append_ms(chat: ModuleHarness, session_id: str) -> list[float]:
    sessions, spans = _sessions(chat), []
    message = (await sessions.messages(session_id))[0]
    kind = type(message)
    for number in range(_APPENDS):
        one = kind(id=f"new{number}", role="user", content="Some words of a person. " * 8)
        began = time.perf_counter()
        await sessions.append(session_id, one)
        spans.append((time.perf_counter() - began) * 1e3)
        if number % _IN_A_ROW == _IN_A_ROW - 1:
            await sessions.settle(session_id)
    if len(await sessions.messages(session_id)) % 10 != _APPENDS % 10:
        raise RuntimeError("a message is missing")
    return spans


async def _spans(call: Callable[[], Awaitable[object]]) -> list[float]:
    spans = []
    for _ in range(_LISTS):
        began = time.perf_counter()
        await call()
        spans.append((time.perf_counter() - began) * 1e3)
    return spans


def _bare_ms(path: Path) -> list[float]:
    """Put a line at the end of a file, and sync it."""
    spans = []
    with path.open("ab", buffering=0) as file:
        for _ in range(_APPENDS):
            began = time.perf_counter()
            file.write(b"x" * 300 + b"\n")
            os.fsync(file.fileno())
            spans.append((time.perf_counter() - began) * 1e3)
    return spans


@asynccontextmanager
async def _chat(vault: Path) -> AsyncIterator[ModuleHarness]:
    async with running_module(bundled_folder("modules") / "chat", vault=vault) as chat:
        with acting(Caller()):
            yield chat


def _sessions(chat: ModuleHarness) -> Any:  # noqa: ANN401  the module's code is loaded by it
    return chat.instance.sessions  # what other files of the module call


def _id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _write_session(vault: Path, number: int, messages: int) -> None:
    path = vault / _FOLDER / f"2026-11-{number % 28 + 1:02d} Bean bed {number}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = (
        f"---\nid: {_id(number)}\ntitle: Bean bed {number}\ntitle_source: ai\n"
        f'summary: About bed {number}\ntags: [garden]\ncreated_at: "2026-11-01T10:00:00Z"\n---\n'
    )
    lines = [head]
    for at in range(messages):
        role = "assistant" if at % 2 else "user"
        lines.append(
            f'\n<!-- message {{"id": "m{number}x{at}", "role": "{role}", '
            f'"at": "2026-11-{number % 28 + 1:02d}T10:00:00Z"}} -->\n### {role.capitalize()}\n\n'
            f"{'Some words about beans and what they need. ' * 5}\n"
        )
    path.write_text("".join(lines), "utf-8")
