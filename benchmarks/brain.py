"""Brain: mentions in a long text, answers to questions by words and by meaning, and building all
that is derived, over 10,000 entities and ten years of days.

Spans are processor time, which other programs do not lengthen.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import re2  # type: ignore[import-untyped]

from benchmarks.brain_engines import Engines, engine, fill
from benchmarks.brain_questions import LabelledQuestion, Sharing, make_questions
from benchmarks.brain_vault import MadeNote, journal_text, make_notes, write_notes
from benchmarks.report import Figure
from benchmarks.serving import percentile

_TEXTS, _WORDS = 100, 1_000
_RESULTS = 5
_RG_QUESTIONS = 10  # every tenth


def brain(folder: Path) -> Iterator[Figure]:
    """All of it; what needs the `[semantic]` extra only where that is installed."""
    notes = make_notes()
    asked = make_questions(notes)
    has_model = engine("vectors").find_model() is not None
    engines = fill(notes, folder / "recall.db", with_vectors=has_model)
    yield from _suggesting(engines, notes)
    yield from _recalling(engines, asked)
    yield from _building(folder, has_model=has_model)
    vault = write_notes(notes, folder / "vault")
    yield from _ripgrep(vault, notes, asked)
    engines.recall.close()


def _suggesting(engines: Engines, notes: Sequence[MadeNote]) -> Iterator[Figure]:
    texts = [journal_text(notes, _WORDS, seed) for seed in range(_TEXTS)]
    names = [name for note in notes if note.type != "day" for name in (note.name, *note.aliases)]
    options = re2.Options()
    options.max_mem = 1 << 30
    options.case_sensitive = False
    pattern = re2.compile("|".join(map(re.escape, names)), options)
    engines.mentions.scan(texts[0])
    list(pattern.finditer(texts[0]))
    spans = _spans(engines.mentions.scan, texts)
    bare = _spans(lambda text: list(pattern.finditer(text)), texts)
    found = statistics.mean(len(engines.mentions.scan(text)) for text in texts)
    yield Figure(
        name="suggest on 1,000 words, 10,000 entities, 35,000 names, p95",
        value=percentile(spans, 0.95),
        unit="ms",
        bound=5,
        note=f"{found:.0f} mentions a text",
    )
    yield Figure(
        name="the same against a bare RE2 pass over all names, p50",
        value=percentile(spans, 0.5),
        unit="ms",
        reference=percentile(bare, 0.5),
        bound=None,
    )


def _recalling(engines: Engines, asked: Sequence[LabelledQuestion]) -> Iterator[Figure]:
    if engines.recall.has_vectors:
        yield from _answering("hybrid", engines.recall, asked, 30)
        engines.recall._embedder = None  # noqa: SLF001  by words alone from now on
    yield from _answering("lexical", engines.recall, asked, 20)


def _answering(
    way: str,
    recall: Any,  # noqa: ANN401  a class of a module's own
    asked: Sequence[LabelledQuestion],
    bound: float,
) -> Iterator[Figure]:
    questions = [one.text for one in asked]
    recall.search(questions[0])
    yield Figure(
        name=f"recall, 5 results, {way}, p95",
        value=percentile(_spans(recall.search, questions), 0.95),
        unit="ms",
        bound=bound,
    )
    answers = [[one.path for one in recall.search(text, _RESULTS)] for text in questions]
    yield from _hits(way, asked, answers)


def _hits(
    way: str, asked: Sequence[LabelledQuestion], answers: Sequence[Sequence[str]]
) -> Iterator[Figure]:
    """The share of questions with a right answer first, and among the first five."""
    first, five, count = Counter[Sharing](), Counter[Sharing](), Counter[Sharing]()
    for one, found in zip(asked, answers, strict=True):
        count[one.kind] += 1
        first[one.kind] += bool(one.answers & {*found[:1]})
        five[one.kind] += bool(one.answers & {*found[:_RESULTS]})
    for kind in count:
        yield Figure(
            name=f"questions by {kind}, {way}: right among the first five",
            value=five[kind] / count[kind] * 100,
            unit="%",
            bound=None,
            note=f"first: {first[kind] / count[kind]:.0%} of {count[kind]}",
        )


def _building(folder: Path, *, has_model: bool) -> Iterator[Figure]:
    """In fresh processes. Entities alone: the days are Daily's."""
    for name, options, bounds in (
        ("", [], (3, 80)),
        (" and vectors", ["--vectors"], (None, None)),
    )[: 2 if has_model else 1]:
        built = _built(folder / f"built{name}.db", options)
        yield Figure(
            name=f"10,000 entities: mentions, recall{name} from cold",
            value=built["processor"],
            unit="s",
            bound=bounds[0],
        )
        yield Figure(
            name=f"10,000 entities: memory for these{name}",
            value=built["mb"],
            unit="MB",
            bound=bounds[1],
        )


def _built(path: Path, options: Sequence[str]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.brain_engines", str(path), *options]
    answer: dict[str, float] = json.loads(
        subprocess.run(command, check=True, capture_output=True).stdout
    )
    return answer


def _ripgrep(
    vault: Path, notes: Sequence[MadeNote], asked: Sequence[LabelledQuestion]
) -> Iterator[Figure]:
    """What `rg` finds for the same words: the notes that hold most of them, then most often."""
    if shutil.which("rg") is None:
        print("rg is not installed: not measured")
        return
    keys = {note.path: note.key for note in notes}
    some = [
        one
        for kind in dict.fromkeys(one.kind for one in asked)
        for one in [one for one in asked if one.kind == kind][::_RG_QUESTIONS]
    ]
    spans, answers = [], []
    for one in some:
        words = engine("recall").question_words(one.text)
        began = time.perf_counter()
        paths = _rg(vault, words)
        spans.append((time.perf_counter() - began) * 1e3)
        answers.append([keys[path] for path in paths])
    yield Figure(name="the same by rg, p95", value=percentile(spans, 0.95), unit="ms", bound=None)
    yield from _hits("rg", some, answers)


def _rg(vault: Path, words: Iterable[str]) -> list[str]:
    patterns = [part for word in words for part in ("-e", word)]
    done = subprocess.run(
        ["rg", "-i", "-w", "-F", "-o", "--no-line-number", *patterns, "."],
        cwd=vault,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Counter[str]] = {}
    for line in done.stdout.splitlines():
        path, _mark, word = line.removeprefix("./").rpartition(":")
        found.setdefault(path, Counter())[word.lower()] += 1
    return sorted(found, key=lambda path: (-len(found[path]), -found[path].total(), path))


def _spans(call: Callable[[str], object], texts: Iterable[str]) -> list[float]:
    spans = []
    for text in texts:
        began = time.process_time()
        call(text)
        spans.append((time.process_time() - began) * 1e3)
    return spans
