"""Changes: how soon a save is noticed, and what is made of a checkout, a lost event, a crash and
many watchers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.process import Client, daemon, temporary_home, wait
from benchmarks.report import Figure
from benchmarks.serving import percentile
from benchmarks.start import bare_seconds
from benchmarks.vaults import make_vault
from parachuted.bubbling.patterns import parse_declaration
from parachuted.bubbling.trie import WatchTrie
from parachuted.state import open_state

_NOTES = 10_000
_SAVES = 300
_SETTLE_S = 0.5


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
            began = time.perf_counter()
            file.write(b"x" * 200)
            os.fdatasync(file.fileno())
            spans.append(time.perf_counter() - began)
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
            began = time.perf_counter()
            table.put(
                f"note-{number % records}",
                {
                    "path": f"Projects/p{number}/AGENTS.md",
                    "base": "1" * 64,
                    "since": "2026-01-02T00:00:00+00:00",
                },
            )
            spans.append(time.perf_counter() - began)
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
            began = time.perf_counter()
            temporary.replace(path)
            wait(
                lambda name=name, seen=seen: any(  # type: ignore[misc]
                    event["data"].get("path") == name for _at, event in client.events[seen:]
                ),
                10,
            )
            spans.append((client.events[seen][0] - began) * 1e3)
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
    began = time.perf_counter()
    changed = sorted((vault / "moved" if (vault / "moved").exists() else vault).rglob("note-*.md"))[
        :8000
    ]
    wanted = {
        str(path.relative_to(vault)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in changed
    }
    read_s = time.perf_counter() - began
    reported: dict[str, tuple[float, str]] = {}

    looked_at = 0

    def complete() -> bool:
        """Only new events are looked at: to go through all of them again and again would keep the
        thread that reads them from its work.
        """
        nonlocal looked_at
        new = client.events[looked_at:]
        looked_at += len(new)
        reported.update(
            {
                event["data"]["path"]: (at, event["data"]["digest"])
                for at, event in new
                if event["event"].startswith("file.")
            }
        )
        return len(reported) >= len(wanted) and all(
            path in reported and reported[path][1] == digest for path, digest in wanted.items()
        )

    wait(complete)
    span = max(at for at, _digest in reported.values()) - began
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
        began = time.perf_counter()
        trie.watchers_of(path, False)  # noqa: FBT003
        spans.append((time.perf_counter() - began) * 1e3)
    return percentile(spans, 0.95)
