"""Measures: each by its name, and those of a daemon that starts, idles and grows.

A measure is a row of the table in the README, with its reference from the same run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.bots import bots
from benchmarks.brain import brain
from benchmarks.brain_saves import brain_saves
from benchmarks.changes import checkout, durability, latency, matching, recovery
from benchmarks.chat import chat
from benchmarks.chat_bridge import chat_bridge
from benchmarks.chat_sessions import chat_sessions
from benchmarks.chat_turns import chat_turns
from benchmarks.curators import curators
from benchmarks.daily import daily
from benchmarks.gateway import gateway
from benchmarks.hooks import hooks
from benchmarks.mcp import mcp
from benchmarks.model import scripted_model
from benchmarks.module_notes import module_notes
from benchmarks.module_routes import module_routes
from benchmarks.modules import modules
from benchmarks.outlines import outlines
from benchmarks.page import page
from benchmarks.process import daemon, temporary_home, wait
from benchmarks.report import Figure
from benchmarks.runs import runs as agent_runs
from benchmarks.search import search
from benchmarks.serving import api
from benchmarks.sync import sync
from benchmarks.vaults import make_vault
from parachuted.testing import say, use

_NOTES = 10_000


Measure = Callable[[Path], Iterator[Figure]]


def start(folder: Path) -> Iterator[Figure]:
    """From the scan to watching, cold and warm; command to watching."""
    vault = make_vault(folder / "start", _NOTES)
    cold, warm = [], []
    for _ in range(3):
        with temporary_home() as home:
            cold.append(_started(vault, home))
            warm += [_started(vault, home) for _ in range(3)]
    for name, runs, bound in (("cold", cold, 12), ("warm", warm, 4)):
        ratios = sorted(run["seconds"] / run["bare"] for run in runs)
        middle = min(
            runs, key=lambda run: abs(run["seconds"] / run["bare"] - ratios[len(ratios) // 2])
        )
        yield Figure(
            name=f"scan to watching, {name}, 10,000 notes",
            value=middle["seconds"] * 1e3,
            unit="ms",
            reference=middle["bare"] * 1e3,
            bound=bound,
        )
    with temporary_home() as home:
        spans = []
        for _ in range(6):
            with daemon(vault, home) as process:
                spans.append(process.started_s)
    yield Figure(
        name="command to watching, warm", value=statistics.median(spans[1:]), unit="s", bound=0.6
    )


def idle(folder: Path) -> Iterator[Figure]:
    """Memory before and after the first agent run, and the processor while nothing happens."""
    vault = make_vault(folder / "idle", _NOTES)
    with temporary_home() as home, daemon(vault, home, PARACHUTE_BUBBLE_QUIET_S="0.1") as process:
        time.sleep(
            30
        )  # what a start does in the background, and the day's look at the size of the history
        yield Figure(
            name="idle: memory before the first run", value=process.memory_mb(), unit="MB", bound=75
        )
        before, began = process.processor_s(), time.perf_counter()
        time.sleep(20)
        share = (process.processor_s() - before) / (time.perf_counter() - began) * 100
        yield Figure(name="idle: processor", value=share, unit="% of a core", bound=0.1)
    yield _memory_after_claude(folder)


def status(folder: Path) -> Iterator[Figure]:
    """`parachute status` against an empty Python."""
    vault = make_vault(folder / "status", 100)
    with temporary_home() as home, daemon(vault, home):
        environment = {**os.environ, "PARACHUTE_HOME": str(home)}
        spans: dict[str, list[float]] = {"bare": [], "status": []}
        for _ in range(15):
            spans["bare"].append(_run_s([sys.executable, "-c", "pass"], environment))
            spans["status"].append(
                _run_s([str(Path(sys.executable).parent / "parachute"), "status"], environment)
            )
    value, reference = (
        statistics.median(spans["status"]) * 1e3,
        statistics.median(spans["bare"]) * 1e3,
    )
    yield Figure(name="parachute status", value=value, unit="ms", reference=reference, bound=5)


def growth(folder: Path) -> Iterator[Figure]:
    """Cold start by the size of the vault: the curve."""
    a_note: dict[int, float] = {}
    for notes in (1_000, _NOTES, 3 * _NOTES, 10 * _NOTES):
        vault = make_vault(folder / f"growth-{notes}", notes)
        with temporary_home() as home:
            cold, warm = _started(vault, home), _started(vault, home)
        a_note[notes] = cold["seconds"] / notes * 1e6
        spans = (
            f"{cold['seconds']:.2f} s; warm {warm['seconds']:.2f} s, "
            f"{warm['seconds'] / warm['bare']:.1f}x a walk"
        )
        yield Figure(
            name=f"cold start, {notes:,} notes, a note",
            value=a_note[notes],
            unit="us",
            bound=None,
            note=spans,
        )
    name = "cold start, a note at 100,000 against 10,000"
    yield Figure(
        name=name, value=a_note[10 * _NOTES], unit="us", reference=a_note[_NOTES], bound=1.3
    )


MEASURES: dict[str, Measure] = {
    "start": start,
    "latency": latency,
    "checkout": checkout,
    "recovery": recovery,
    "matching": matching,
    "outlines": outlines,
    "durability": durability,
    "idle": idle,
    "status": status,
    "growth": growth,
    "sync": sync,
    "api": api,
    "search": search,
    "modules": modules,
    "module-routes": module_routes,
    "module-notes": module_notes,
    "daily": daily,
    "chat": chat,
    "chat-sessions": chat_sessions,
    "chat-turns": chat_turns,
    "bots": bots,
    "mcp": mcp,
    "hooks": hooks,
    "gateway": gateway,
    "runs": agent_runs,
    "curators": curators,
    "brain": brain,
    "brain-saves": brain_saves,
    "chat-bridge": chat_bridge,
    "page": page,
}


def _started(vault: Path, home: Path) -> dict[str, float]:
    """One start in a fresh process, so that nothing is loaded before or cached."""
    command = [sys.executable, "-m", "benchmarks.start", str(vault), str(home)]
    answer: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True).stdout
    )
    return answer


def _memory_after_claude(folder: Path) -> Figure:
    """The daemon's own memory once the agent SDK is loaded and a run of the real CLI has ended."""
    vault = make_vault(folder / "claude", _NOTES)
    watched = vault / "Area01/project00001/AGENTS.md"
    with (
        scripted_model([[use("no_change", reason="nothing to say")], [say("Done.")]] * 20) as url,
        temporary_home() as home,
    ):
        variables = {
            "PARACHUTE_BUBBLE_QUIET_S": "0.1",
            "PARACHUTE_AGENT_BACKEND": "claude",
            "PARACHUTE_AGENT_BASE_URL": url,
        }
        with daemon(vault, home, **variables) as process, process.client() as client:
            time.sleep(2)
            watched.write_text(
                watched.read_text("utf-8").replace(
                    "## Current Focus", "## Current Focus\n- something new"
                ),
                "utf-8",
            )
            wait(lambda: any(event["event"] == "run.finished" for _at, event in client.events))
            time.sleep(2)
            return Figure(
                name="idle: memory after the first run of the claude backend",
                value=process.memory_mb(),
                unit="MB",
                bound=130,
            )


def _run_s(command: list[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for generated vaults, removed afterwards."""
    return tempfile.TemporaryDirectory(prefix="parachute-bench-")
