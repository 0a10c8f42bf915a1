"""Search: the index from cold, a save until it is found, and what a query takes, by words that are
rare and words that are everywhere.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import shutil
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from benchmarks.process import Process, daemon, temporary_home, wait
from benchmarks.report import Figure
from parachuted.search import Search
from parachuted.vault import IgnoreRules, Scanner, VaultIndex, VaultRoot

_NOTES = 10_000
_ROUNDS = 3
_SAVES = 100
_FOLDER = 25
_VOCABULARY = 40_000


def search(folder: Path) -> Iterator[Figure]:
    """All of it. The words of the notes are as unequal as those of a language."""
    words = _words()
    vault = _make_vault(folder / "search", _NOTES, words)
    yield _indexed(vault, folder)
    with temporary_home() as home, daemon(vault, home, PARACHUTE_BUBBLE_QUIET_S="60") as process:
        _until_indexed(process)
        yield _found(vault, process)
        yield from _asked(vault, process, words)
    shutil.rmtree(vault)
    large = _make_vault(folder / "large", 10 * _NOTES, words)
    with temporary_home() as home, daemon(large, home, PARACHUTE_BUBBLE_QUIET_S="60") as process:
        _until_indexed(process)
        spans = _spans(process, [words[0]] * 200)
    yield Figure(
        name="search for the commonest word, p99, 100,000 notes",
        value=_part(spans, 0.99),
        unit="ms",
        bound=25,
    )


def _words() -> list[str]:
    """Made-up words, the commonest first."""
    chance = random.Random(1)  # noqa: S311  generated text needs no secrecy
    found: dict[str, None] = {}
    while len(found) < _VOCABULARY:
        syllables = (
            chance.choice("bcdfghklmnprstvz") + chance.choice("aeiou")
            for _ in range(chance.randint(1, 4))
        )
        found["".join(syllables) + chance.choice(["", "n", "r", "s", "t"])] = None
    return list(found)


def _make_vault(folder: Path, notes: int, words: Sequence[str]) -> Path:
    """Notes of some 2 KB; the tenth word of the vocabulary is a tenth as frequent as the first."""
    chance = random.Random(notes)  # noqa: S311
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))

    def some(count: int) -> str:
        return " ".join(chance.choices(words, cum_weights=weights, k=count))

    for number in range(notes):
        place = folder / f"Area{number // _FOLDER % 20:02d}" / f"project{number // _FOLDER:05d}"
        place.mkdir(parents=True, exist_ok=True)
        lines = (
            ["---", f"title: Note {number}", "tags: [one, two]", "created: 2026-01-02", "---"]
            if number % 10 == 0
            else []
        )
        lines += [f"# {some(4)} {number}", ""]
        for _part_number in range(chance.randint(2, 7)):
            lines += [
                f"## {some(3)}",
                "",
                *(
                    f"{some(chance.randint(6, 14)).capitalize()}."
                    for _ in range(chance.randint(3, 9))
                ),
                "",
            ]
        (place / f"note-{number:06d}.md").write_text("\n".join(lines), "utf-8")
    return folder


def _indexed(vault: Path, folder: Path) -> Figure:
    """All that indexing takes (reading, headings, tags, frontmatter, links) against putting the
    same texts into one column.
    """
    texts = [path.read_text("utf-8") for path in sorted(vault.rglob("*.md"))]
    root, index = VaultRoot(vault), VaultIndex()
    scan = Scanner(root, index, IgnoreRules()).walk(finished=True)
    for name in scan.new_folders:
        index.add_folder(name)
    for seen in scan.seen:
        index.set(seen.path, seen.new)
    bare, ours = [], []
    for number in range(_ROUNDS):
        bare.append(_bare_s(folder / f"bare-{number}.db", texts))
        ours.append(
            _search_s(Search(folder / f"search-{number}.db", root, index, lambda *_said: None))
        )
    return Figure(
        name="10,000 notes indexed from cold, against a bare FTS5 insert",
        value=statistics.median(ours),
        unit="s",
        reference=statistics.median(bare),
        bound=1.4,
    )


def _bare_s(path: Path, texts: Sequence[str]) -> float:
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = OFF")
    database.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    began = time.perf_counter()
    with database:
        database.executemany("INSERT INTO texts VALUES (?)", ((text,) for text in texts))
    span = time.perf_counter() - began
    database.close()
    return span


def _search_s(made: Search) -> float:
    began = time.perf_counter()
    made.indexer.start()
    wait(lambda: not made.is_behind)
    span = time.perf_counter() - began
    made.close()
    return span


def _found(vault: Path, process: Process) -> Figure:
    """From an editor's rename to the answer that has the note; asked again and again meanwhile."""
    notes = sorted(vault.rglob("*.md"))
    chance = random.Random(2)  # noqa: S311
    connection = http.client.HTTPConnection(process.host, process.port)
    spans = []
    for number in range(_SAVES):
        path = chance.choice(notes)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_bytes(path.read_bytes() + f"\nsaved{number}now\n".encode())
        began = time.perf_counter()
        temporary.replace(path)
        while not _answer(connection, f"saved{number}now")["results"]:
            time.sleep(0.001)
        spans.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.05)
    connection.close()
    return Figure(
        name="a save to found by search, p95, 10,000 notes",
        value=_part(spans, 0.95),
        unit="ms",
        bound=60,
    )


def _asked(vault: Path, process: Process, words: Sequence[str]) -> Iterator[Figure]:
    """Typical words are one in some hundred notes; the worst are in nearly all, alone, in pairs, as
    phrases and beginnings.
    """
    chance = random.Random(3)  # noqa: S311
    typical = [
        " ".join(chance.sample(words[200:5_000], chance.choice([1, 1, 2]))) for _ in range(300)
    ]
    worst = [
        *words[:20],
        *(f"{one} {other}" for one, other in itertools.pairwise(words[:20])),
        f'"{words[0]} {words[1]}"',
        "ba*",
        "ta*",
    ]
    spans = _spans(process, typical)
    yield Figure(
        name="search p95, typical words, 10,000 notes",
        value=_part(spans, 0.95),
        unit="ms",
        bound=10,
        note=_ripgrep(vault, typical),
    )
    yield Figure(
        name="search p95, worst-case words, 10,000 notes",
        value=_part(_spans(process, worst * 4), 0.95),
        unit="ms",
        bound=40,
    )


def _ripgrep(vault: Path, queries: Sequence[str]) -> str:
    """What the same takes by reading every note."""
    if shutil.which("rg") is None:
        return "rg is not installed: not measured"
    spans = []
    for query in queries[:20]:
        began = time.perf_counter()
        subprocess.run(
            ["rg", "-l", "-i", "-w", query.split()[0], str(vault)], capture_output=True, check=False
        )
        spans.append((time.perf_counter() - began) * 1e3)
    return f"rg -l: p95 {_part(spans, 0.95):.1f} ms"


def _spans(process: Process, queries: Sequence[str]) -> list[float]:
    """Milliseconds to each answer over HTTP, one after another on one connection."""
    connection = http.client.HTTPConnection(process.host, process.port)
    _answer(connection, "warm")
    spans = []
    for query in queries:
        began = time.perf_counter()
        _answer(connection, query)
        spans.append((time.perf_counter() - began) * 1e3)
    connection.close()
    return spans


def _until_indexed(process: Process) -> None:
    connection = http.client.HTTPConnection(process.host, process.port)
    wait(lambda: not _answer(connection, "warm")["indexing"], 600)
    connection.close()


def _answer(connection: http.client.HTTPConnection, query: str) -> dict[str, object]:
    connection.request("GET", f"/api/search?q={quote(query)}")
    answer: dict[str, object] = json.loads(connection.getresponse().read())
    return answer


def _part(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
