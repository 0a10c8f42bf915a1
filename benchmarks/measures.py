"""Measures: one function a row of the table in the README, each with its reference from the same
run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.brain import brain
from benchmarks.brain_saves import brain_saves
from benchmarks.chat import chat
from benchmarks.chat_bridge import chat_bridge
from benchmarks.chat_sessions import chat_sessions
from benchmarks.chat_turns import chat_turns
from benchmarks.curators import curators
from benchmarks.gateway import gateway
from benchmarks.hooks import hooks
from benchmarks.mcp import mcp
from benchmarks.model import scripted_model
from benchmarks.module_notes import module_notes
from benchmarks.module_routes import module_routes
from benchmarks.modules import modules
from benchmarks.outlines import outlines
from benchmarks.process import Client, daemon, temporary_home, wait
from benchmarks.report import Figure
from benchmarks.runs import runs as agent_runs
from benchmarks.search import search
from benchmarks.serving import api, percentile
from benchmarks.start import bare_seconds
from benchmarks.sync import sync
from benchmarks.vaults import make_vault
from parachuted.bubbling.patterns import parse_declaration
from parachuted.bubbling.trie import WatchTrie
from parachuted.state import open_state
from parachuted.testing import say, use

Measure = Callable[[Path], Iterator[Figure]]

_NOTES = 10_000
_SAVES = 300
_SETTLE_S = 0.5


def start(folder: Path) -> Iterator[Figure]:
    """Scan begun to watching, cold and warm; command to watching."""
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
            name=f"scan begun to watching, {name}, 10,000 notes",
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


def latency(folder: Path) -> Iterator[Figure]:
    """A save (temporary file, rename) to its event in a client; then the same in ten times the
    vault.
    """
    small = _latencies(make_vault(folder / "latency", _NOTES))
    yield Figure(
        name="save to SSE event, p50, 10,000 notes",
        value=percentile(small, 0.5),
        unit="ms",
        bound=10,
    )
    yield Figure(
        name="save to SSE event, p95, 10,000 notes",
        value=percentile(small, 0.95),
        unit="ms",
        bound=25,
    )
    large = _latencies(make_vault(folder / "latency-large", 10 * _NOTES))
    for part in (0.5, 0.95):
        name = f"save to SSE event, p{part * 100:.0f}, 100,000 notes against 10,000"
        yield Figure(
            name=name,
            value=percentile(large, part),
            unit="ms",
            reference=percentile(small, part),
            bound=1.5,
        )


def checkout(folder: Path) -> Iterator[Figure]:
    """10,000 files changed by one git checkout."""
    vault = make_vault(folder / "checkout", _NOTES, watchers=0)
    git = [
        "git",
        "-C",
        str(vault),
        "-c",
        "user.name=b",
        "-c",
        "user.email=b@localhost",
        "-c",
        "gc.auto=0",
    ]
    subprocess.run([*git, "init", "-q", "-b", "one"], check=True)
    _commit(git)
    subprocess.run([*git, "checkout", "-q", "-b", "two"], check=True)
    for path in vault.rglob("*.md"):
        with path.open("a", encoding="utf-8") as file:
            file.write("\nAnother line.\n")
    _commit(git)
    with temporary_home() as home, daemon(vault, home) as process, process.client() as client:
        before = process.memory_mb()
        subprocess.run([*git, "checkout", "-q", "one"], check=True)
        ended = time.perf_counter()
        wait(lambda: len({data["path"] for _at, data in client.changes()}) >= _NOTES)
        noticed = max(at for at, _data in client.changes()) - ended
        wait(lambda: time.perf_counter() - client.events[-1][0] > _SETTLE_S)
        paths = [data["path"] for _at, data in client.changes()]
        after = process.memory_mb()
    yield Figure(
        name="git checkout of 10,000: last noticed after the last write",
        value=max(0.0, noticed),
        unit="s",
        bound=2,
    )
    yield Figure(
        name="git checkout of 10,000: noticed twice or never",
        value=len(paths) - len(set(paths)) + _NOTES - len(set(paths)),
        unit="",
        bound=0,
    )
    yield Figure(
        name="git checkout of 10,000: memory more than before",
        value=after - before,
        unit="MB",
        bound=50,
    )


def recovery(folder: Path) -> Iterator[Figure]:
    """After the daemon was stopped, its queue overflowed, a tree was moved in: until its events
    tell what is on the disk.
    """
    vault = make_vault(folder / "recovery", _NOTES, watchers=0)
    extra = make_vault(folder / "moved", 5000, watchers=0)
    bare = bare_seconds(vault)
    with temporary_home() as home, daemon(vault, home) as process, process.client() as client:
        process.process.send_signal(signal.SIGSTOP)
        _replace_all(vault, 8000)
        process.process.send_signal(signal.SIGCONT)
        yield _caught_up("a stopped process, 8,000 replaced meanwhile", client, vault, bare, 0.6)
    with (
        temporary_home() as home,
        _short_queue(),
        daemon(vault, home) as process,
        process.client() as client,
    ):
        _replace_all(vault, 8000)
        yield _caught_up("8,000 replaced with a queue of 64 events", client, vault, bare, None)
        extra.rename(vault / "moved")
        yield _caught_up("a tree of 5,000 moved in", client, vault, bare, 0.3)


def durability(folder: Path) -> Iterator[Figure]:
    """One state change made durable, at a hundred and a hundred thousand records."""
    path = folder / "bare"
    with path.open("ab", buffering=0) as file:
        spans = []
        for _ in range(300):
            begun = time.perf_counter()
            file.write(b"x" * 200)
            os.fdatasync(file.fileno())
            spans.append(time.perf_counter() - begun)
    bare = statistics.median(spans) * 1e3
    for records in (100, 100_000):
        state = open_state(folder / f"state-{records}")
        table = state.table("reviews")
        with state.batch():
            for number in range(records):
                table.put(
                    f"note-{number}",
                    {
                        "path": f"Projects/p{number}/AGENTS.md",
                        "base": "0" * 64,
                        "since": "2026-01-01T00:00:00+00:00",
                    },
                )
        spans = []
        for number in range(300):
            begun = time.perf_counter()
            table.put(
                f"note-{number % records}",
                {
                    "path": f"Projects/p{number}/AGENTS.md",
                    "base": "1" * 64,
                    "since": "2026-01-02T00:00:00+00:00",
                },
            )
            spans.append(time.perf_counter() - begun)
        state.close()
        yield Figure(
            name=f"one state change made durable, {records:,} records",
            value=statistics.median(spans) * 1e3,
            unit="ms",
            reference=bare,
            bound=3,
        )


def matching(folder: Path) -> Iterator[Figure]:
    """Who watches this path."""
    small = 0.0
    for declarations, bound in ((1_000, None), (10_000, 0.03), (100_000, None)):
        span = _matching_ms(declarations)
        small = small or span
        yield Figure(
            name=f"who watches this path, {declarations:,} declarations, p95",
            value=span,
            unit="ms",
            bound=bound,
        )
    yield Figure(
        name="who watches this path, 100,000 against 1,000",
        value=span,
        unit="ms",
        reference=small,
        bound=4,
    )
    del folder


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
        before, begun = process.processor_s(), time.perf_counter()
        time.sleep(20)
        share = (process.processor_s() - before) / (time.perf_counter() - begun) * 100
        yield Figure(name="idle: processor", value=share, unit="% of a core", bound=0.1)
    yield _memory_after_claude(folder)


def status(folder: Path) -> Iterator[Figure]:
    """`parachute status` against an empty Python."""
    vault = make_vault(folder / "status", 100)
    with temporary_home() as home, daemon(vault, home):
        environment = {**os.environ, "PARACHUTE_HOME": str(home)}
        spans = {"bare": [], "status": []}
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
    "chat": chat,
    "chat-sessions": chat_sessions,
    "chat-turns": chat_turns,
    "mcp": mcp,
    "hooks": hooks,
    "gateway": gateway,
    "runs": agent_runs,
    "curators": curators,
    "brain": brain,
    "brain-saves": brain_saves,
    "chat-bridge": chat_bridge,
}


def _started(vault: Path, home: Path) -> dict[str, float]:
    """One start in a fresh process, so that nothing is loaded before or cached."""
    command = [sys.executable, "-m", "benchmarks.start", str(vault), str(home)]
    answer: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True).stdout
    )
    return answer


def _latencies(vault: Path) -> list[float]:
    chance = random.Random(1)  # noqa: S311
    notes = sorted(vault.rglob("note-*.md"))
    spans = []
    with (
        temporary_home() as home,
        daemon(vault, home, PARACHUTE_BUBBLE_QUIET_S="60") as process,
        process.client() as client,
    ):
        time.sleep(2)
        for number in range(_SAVES):
            path = chance.choice(notes)
            data = path.read_bytes() + f"\nLine {number}.\n".encode()
            temporary = path.with_name(f".{path.name}.tmp")
            temporary.write_bytes(data)
            name = str(path.relative_to(vault))
            seen = len(client.events)
            begun = time.perf_counter()
            temporary.replace(path)
            wait(
                lambda name=name, seen=seen: any(
                    event["data"].get("path") == name for _at, event in client.events[seen:]
                ),
                10,
            )
            spans.append((client.events[seen][0] - begun) * 1e3)
            time.sleep(0.02)
    return spans


def _commit(git: list[str]) -> None:
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)


def _replace_all(vault: Path, count: int) -> None:
    for path in sorted(vault.rglob("note-*.md"))[:count]:
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_bytes(path.read_bytes() + b".")
        temporary.replace(path)


@contextlib.contextmanager
def _short_queue() -> Iterator[None]:
    """Give inotify queues that are made meanwhile room for 64 events, where we may; put it back
    afterwards.
    """
    setting = Path("/proc/sys/fs/inotify/max_queued_events")
    usual = setting.read_text()
    with contextlib.suppress(PermissionError):
        setting.write_text("64")
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            setting.write_text(usual)


def _caught_up(name: str, client: Client, vault: Path, bare: float, bound: float | None) -> Figure:
    """Seconds from the last act until the events have told the digest of every file that was
    changed.
    """
    begun = time.perf_counter()
    changed = sorted((vault / "moved" if (vault / "moved").exists() else vault).rglob("note-*.md"))[
        :8000
    ]
    wanted = {
        str(path.relative_to(vault)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in changed
    }
    read_s = time.perf_counter() - begun
    told: dict[str, tuple[float, str]] = {}

    looked_at = 0

    def complete() -> bool:
        """Only new events are looked at: to go through all of them again and again would keep the
        thread that reads them from its work.
        """
        nonlocal looked_at
        new = client.events[looked_at:]
        looked_at += len(new)
        told.update(
            {
                event["data"]["path"]: (at, event["data"]["digest"])
                for at, event in new
                if event["event"].startswith("file.")
            }
        )
        return len(told) >= len(wanted) and all(
            path in told and told[path][1] == digest for path, digest in wanted.items()
        )

    wait(complete)
    span = max(at for at, _digest in told.values()) - begun
    client.events.clear()
    return Figure(
        name=f"told after {name}",
        value=max(0.0, span - _SETTLE_S),
        unit="s",
        bound=bound,
        note=f"{span:.2f} s with the settle time of {_SETTLE_S} s; a walk takes {bare:.3f} s, "
        f"to read and hash the files {read_s:.3f} s",
    )


def _matching_ms(declarations: int) -> float:
    chance = random.Random(declarations)  # noqa: S311
    trie = WatchTrie()
    for number in range(declarations):
        watcher = f"Area{number % 50}/project{number}/AGENTS.md"
        texts = [
            f"Area{number % 50}/project{number + 1}/*",
            "./*.md",
            f"Areas/*/topic{number % 5000}.md",
            f"**/subject-{number}.md",
            "../",
        ]
        trie.add(parse_declaration(watcher, chance.sample(texts, 2)))
    spans = []
    for _ in range(3000):
        number = chance.randrange(declarations)
        path = f"Area{number % 50}/project{number}/note-{number}.md"
        begun = time.perf_counter()
        trie.watchers_of(path, False)  # noqa: FBT003
        spans.append((time.perf_counter() - begun) * 1e3)
    return percentile(spans, 0.95)


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
    begun = time.perf_counter()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for generated vaults, removed afterwards."""
    return tempfile.TemporaryDirectory(prefix="parachute-bench-")
