"""Brain's engines as a package, without the module, and filled from generated notes.

Run as a program: fills all of them in a fresh process and prints what that took, as JSON.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import psutil

from benchmarks.brain_vault import MadeNote, make_notes
from parachuted.home_files.bundled import bundled_folder

_PACKAGE = "brain_engines"
_BATCH = 500


class Engines(NamedTuple):
    """The two, filled."""

    mentions: Any
    recall: Any


def engine(name: str) -> ModuleType:
    """One file of modules/brain; what it imports of the files beside it is found."""
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE)
        package.__path__ = [str(bundled_folder("modules") / "brain")]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")


def fill(notes: Sequence[MadeNote], path: Path, *, with_vectors: bool = False) -> Engines:
    """All engines with all notes; the recall index is in that file."""
    embedder = engine("vectors").load_embedder() if with_vectors else None
    recall = engine("recall").RecallIndex(path, embedder)
    mentions = engine("mentions").MentionIndex()
    names, text = {note.key: note.name for note in notes}, engine("recall").NoteText
    for first in range(0, len(notes), _BATCH):
        part = notes[first : first + _BATCH]
        recall.update(
            text(path=note.key, title=note.name, aliases=note.aliases, body=note.text)
            for note in part
        )
        for note in part:
            _put(note, names, mentions)
    while recall.embed(_BATCH):
        pass
    recall.optimize()
    return Engines(mentions, recall)


def _put(note: MadeNote, names: dict[str, str], mentions: Any) -> None:  # noqa: ANN401
    if note.type == "day":
        return
    mentions.put(
        note.key,
        [note.name, *note.aliases],
        note.type,
        context=[*note.tags, *(names[key] for key, _label in note.links)],
    )


if __name__ == "__main__":
    made = make_notes(days=0)
    for imported in ("vectors", "recall", "mentions"):
        engine(imported)
    gc.collect()
    process = psutil.Process()
    before, began = process.memory_info().rss, time.perf_counter()
    used = time.process_time()
    filled = fill(made, Path(sys.argv[1]), with_vectors=sys.argv[2:] == ["--vectors"])
    filled.recall.search("warm")
    spans = {"seconds": time.perf_counter() - began, "processor": time.process_time() - used}
    print(json.dumps({**spans, "mb": (process.memory_info().rss - before) / 1e6}))
