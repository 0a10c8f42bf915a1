"""Daily: an entry over the API on a long day, against one on a short day."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.brain_saves import call_api, install_official
from benchmarks.process import daemon, temporary_home
from benchmarks.report import Figure

_SHORT, _LONG, _ENTRIES = 40, 240, 40


def daily(folder: Path) -> Iterator[Figure]:
    """An entry on a day of 240 to 280 entries, against one on a day of 40 to 80."""
    vault = folder / "vault"
    vault.mkdir()
    spans = []
    with temporary_home() as home, daemon(vault, home) as process:
        install_official(process, "daily")
        for number in range(_LONG + _ENTRIES):
            content = f"Thought {number} about the garden, and the beans in it.\n\nSome more words."
            body = {"content": content, "created_at": "2026-02-24T12:00:00Z"}
            began = time.perf_counter()
            call_api(process, "/api/daily/entries", body)
            spans.append((time.perf_counter() - began) * 1e3)
    yield Figure(
        name="an entry over the API on a day of 240, against a day of 40, p50",
        value=statistics.median(spans[_LONG:]),
        unit="ms",
        reference=statistics.median(spans[_SHORT : _SHORT + _ENTRIES]),
        bound=1.5,
    )
