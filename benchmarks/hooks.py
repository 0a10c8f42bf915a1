"""Hooks: what running one costs beside the bare process, and what an event costs that no hook is
for.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.report import Figure
from parachuted.hooks import HookEvent, Hooks

_PAIRS = 60
_ASKED = 100_000
_SCRIPTS = {
    "a shell script": ("on-session-start.sh", "/bin/sh"),
    "a Python script": ("on-session-start.py", sys.executable),
}
_TEXT = {
    "on-session-start.sh": "read line\necho done\n",
    "on-session-start.py": "import json, sys\njson.load(sys.stdin)\nprint('done')\n",
}

Once = Callable[[], Awaitable[None]]


def hooks(folder: Path) -> Iterator[Figure]:
    """A hook's round trip, with all that the daemon does about it, against a bare asyncio
    subprocess of the same command, pair by pair.
    """
    for name, (script, interpreter) in _SCRIPTS.items():
        ours, bare = asyncio.run(_round_trips(folder / script, script, interpreter))
        yield Figure(
            name=f"hook round trip, {name}, p50",
            value=ours * 1e3,
            unit="ms",
            reference=bare * 1e3,
            bound=1.5,
        )
    asked, reported = asyncio.run(_no_hook(folder / "none"))
    yield Figure(name="an event that no hook is for: asked", value=asked * 1e6, unit="us", bound=5)
    yield Figure(
        name="an event that no hook is for: told", value=reported * 1e6, unit="us", bound=5
    )


async def _round_trips(home: Path, script: str, interpreter: str) -> tuple[float, float]:
    """The medians of both, in seconds."""
    path = home / "hooks" / script
    made = _make(home, {path: _TEXT[script]})
    occurrence = _occurrence(home)
    env = {"PATH": os.environ["PATH"]}

    async def ours() -> None:
        decision = await made.ask(occurrence)
        if decision.context != ("done",):
            raise RuntimeError(f"the hook did not do its work: {decision}")

    async def bare() -> None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            interpreter, path, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=_vault(home)
        )
        await process.communicate(b'{"event": "session.start"}\n')

    spans: dict[Once, list[float]] = {ours: [], bare: []}
    try:
        for number in range(_PAIRS):
            for one in (ours, bare) if number % 2 else (bare, ours):
                began = time.perf_counter()
                await one()
                spans[one].append(time.perf_counter() - began)
    finally:
        await made.close()
    return statistics.median(spans[ours]), statistics.median(spans[bare])


async def _no_hook(home: Path) -> tuple[float, float]:
    """Seconds an event, of the question whether any hook is for it: before an act, and after
    one.
    """
    made = _make(home, {})
    occurrence = _occurrence(home)
    try:
        began = time.perf_counter()
        for _ in range(_ASKED):
            if made.wants("write.before"):
                await made.ask(occurrence)
        asked = time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(_ASKED):
            made.tell(occurrence)
        reported = time.perf_counter() - began
    finally:
        await made.close()
    return asked / _ASKED, reported / _ASKED


def _make(home: Path, scripts: Mapping[Path, str]) -> Hooks:
    (home / "hooks").mkdir(parents=True, mode=0o700)
    _vault(home).mkdir()
    for path, text in scripts.items():
        path.write_text(text)
        path.chmod(0o644)
    return Hooks(
        home=home,
        vault=_vault(home),
        runs=home / "runs",
        clock=lambda: datetime.now(UTC),
        report=lambda _subject, _problem: None,
        env={"PATH": os.environ["PATH"]},
    )


def _vault(home: Path) -> Path:
    return home.with_name(f"{home.name}.vault")


def _occurrence(home: Path) -> HookEvent:
    return HookEvent(
        event="session.start",
        at=datetime.now(UTC),
        data={"session_id": "s", "module": "chat"},
        vault=_vault(home),
    )
