"""Start: from the scan to watching, cold and warm, in a fresh process.

Run as a program: prints JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path

from parachuted.agents.choice import BackendChoice
from parachuted.agents.offline import OfflineBackend
from parachuted.config import load_settings
from parachuted.daemon import Daemon


def bare_walk(folder: str) -> int:
    """The reference: list every folder, stat every file."""
    count = 0
    stack = [folder]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    count += 1
    return count


def bare_seconds(folder: Path) -> float:
    """Median of several bare walks, in seconds."""
    spans = []
    for _ in range(7):
        began = time.perf_counter()
        bare_walk(str(folder))
        spans.append(time.perf_counter() - began)
    return statistics.median(spans)


async def start_seconds(vault: Path, home: Path) -> float:
    """Seconds from making the daemon to its being ready."""
    settings = load_settings(home, {}, {"vault": str(vault), "port": 0})
    span = 0.0
    began = time.perf_counter()
    daemon = Daemon(
        settings,
        home,
        BackendChoice(backend=OfflineBackend(), reason="for a benchmark", model=None),
    )

    def ready() -> None:
        nonlocal span
        span = time.perf_counter() - began
        daemon.stop()

    await daemon.run(ready)
    return span


if __name__ == "__main__":
    gc.disable()  # as the command does before it loads; the daemon lets it begin
    where, at = Path(sys.argv[1]), Path(sys.argv[2])
    bare = bare_seconds(where)
    print(json.dumps({"bare": bare, "seconds": asyncio.run(start_seconds(where, at))}))
