"""Vectors: what a passage means, as numbers, by a small model that needs no network.

The optional `[semantic]` extra: numpy, tokenizers, and the weights and the tokenizer that come in
the package wordllama, of which no code is run. English only.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from .windows import passages

Array: TypeAlias = Any

_NAMES = re.compile(r"^(?:# |[ \t]*[-*+][ \t]+\[\[[^\[\]\n]*\]\]).*$", re.MULTILINE)
_LINK = re.compile(
    r"!?\[\[(?:[^\[\]|\n]*\|)?([^\[\]|\n]*)\]\]|!?\[([^\[\]\n]*)\]\([^()\n]*\)|https?://\S+"
)

MODEL = "wordllama-l2-supercat-256"
_DIMENSIONS = 256
_WEIGHTS, _TENSOR = "weights/l2_supercat_256.safetensors", "embedding.weight"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_BLOCK, _GROWTH = 4_096, 1.5  # how the rows in memory grow


class Near(NamedTuple):
    """A passage of a note, and how near it is: -1 to 1."""

    note: int
    start: int
    stop: int
    nearness: float


def find_model() -> Path | None:
    """The folder of the model, if all of the extra is installed. Loads none of it."""
    found = importlib.util.find_spec("wordllama")
    if not found or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations)))
    is_whole = (folder / _WEIGHTS).is_file() and (folder / _TOKENIZER).is_file()
    libraries = ("numpy", "tokenizers")
    return folder if is_whole and all(map(importlib.util.find_spec, libraries)) else None


def load_embedder() -> Embedder | None:
    """The model, which takes some 0.3 s and 60 MB; None where the extra is not installed."""
    folder = find_model()
    return Embedder(folder) if folder else None


class Embedder:
    """Turns texts into vectors of length 1: the mean of those of their tokens."""

    def __init__(self, folder: Path) -> None:
        self.numpy = importlib.import_module("numpy")
        tokenizers = importlib.import_module("tokenizers")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._weights = _read_tensor(self.numpy, folder / _WEIGHTS, _TENSOR)

    def embed(self, texts: Sequence[str]) -> Array:
        """A row for each text, float32; zeros for a text without a token."""
        numpy = self.numpy
        made = numpy.zeros((len(texts), _DIMENSIONS), numpy.float32)
        for row, text in enumerate(texts):
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
            if ids:
                made[row] = self._weights[ids].mean(axis=0, dtype=numpy.float32)
        lengths = numpy.linalg.norm(made, axis=1, keepdims=True)
        return made / numpy.maximum(lengths, 1e-9)


class VectorTable:
    """The vectors of all passages: in the table `passages`, and in memory once they are used.

    Half precision where they are kept, single where they are compared. Not for several threads.
    """

    def __init__(self, database: sqlite3.Connection, embedder: Embedder) -> None:
        self._database, self._embedder, self._numpy = database, embedder, embedder.numpy
        self._rows: Array = None
        self._places: list[tuple[int, int, int]] = []
        self._of_note: dict[int, list[int]] = {}

    def make(
        self, notes: Sequence[tuple[int, str, str]]
    ) -> dict[int, list[tuple[int, int, bytes]]]:
        """The passages of notes (number, title, body): from, to, vector. Any thread may do this."""
        places, texts = [], []
        for note, title, body in notes:
            said = [(start, stop, _prose(body[start:stop])) for start, stop in passages(body)]
            said = [one for one in said if one[2]] or [(0, len(body), title)]
            places += [(note, start, stop) for start, stop, _text in said]
            texts += [text for _start, _stop, text in said]
        vectors = self._embedder.embed(texts).astype(self._numpy.float16)
        made: dict[int, list[tuple[int, int, bytes]]] = {note[0]: [] for note in notes}
        for (note, start, stop), vector in zip(places, vectors, strict=True):
            made[note].append((start, stop, vector.tobytes()))
        return made

    def put(self, note: int, made: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep what `make` gave for a note that has none."""
        self._database.executemany(
            "INSERT INTO passages (note, start, stop, vector) VALUES (?, ?, ?, ?)",
            ((note, *one) for one in made),
        )
        if self._rows is not None:
            for start, stop, vector in made:
                self._append(note, start, stop, vector)

    def forget(self, note: int) -> None:
        """A note's rows in the table were deleted."""
        for place in sorted(self._of_note.pop(note, ()), reverse=True):
            last = len(self._places) - 1
            if place != last:
                moved = self._places[last]
                self._rows[place] = self._rows[last]
                self._places[place] = moved
                of_moved = self._of_note[moved[0]]
                of_moved[of_moved.index(last)] = place
            self._places.pop()

    def reset(self) -> None:
        """What changed in the table since it was read was undone."""
        self._rows, self._places, self._of_note = None, [], {}

    def nearest(self, question: str, most: int) -> list[Near]:
        """The notes with the nearest passages, one passage of each."""
        if self._rows is None:
            self._load()
        numpy, count = self._numpy, len(self._places)
        asked = self._embedder.embed([question])[0]
        if not count or not asked.any():
            return []
        nearness = self._rows[:count] @ asked
        some = min(count, 4 * most)
        found: dict[int, Near] = {}
        best = numpy.argpartition(-nearness, some - 1)[:some]
        for place in sorted(best.tolist(), key=lambda one: (-nearness[one], self._places[one])):
            note, start, stop = self._places[place]
            if note not in found:
                found[note] = Near(note, start, stop, float(nearness[place]))
        return list(found.values())[:most]

    def _load(self) -> None:
        self._rows = self._numpy.empty((0, _DIMENSIONS), self._numpy.float32)
        rows = self._database.execute("SELECT note, start, stop, vector FROM passages")
        for note, start, stop, vector in rows:
            self._append(note, start, stop, vector)

    def _append(self, note: int, start: int, stop: int, vector: bytes) -> None:
        place = len(self._places)
        if place == len(self._rows):
            grown = self._numpy.empty(
                (int(place * _GROWTH) + _BLOCK, _DIMENSIONS), self._numpy.float32
            )
            grown[:place] = self._rows
            self._rows = grown
        self._rows[place] = self._numpy.frombuffer(vector, self._numpy.float16)
        self._places.append((note, start, stop))
        self._of_note.setdefault(note, []).append(place)


def _prose(text: str) -> str:
    """The text without its title, lines that only relate, and the addresses of links: names have no
    meaning to the model, and blur that of what is beside them.
    """
    return _LINK.sub(r"\1\2", _NAMES.sub("", text)).strip()


def _read_tensor(numpy: Any, path: Path, name: str) -> Array:  # noqa: ANN401  a library as a value
    """One tensor of a safetensors file, mapped into memory: 8 bytes of length, JSON, data."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))[name]
    first, _last = header["data_offsets"]
    if header["dtype"] != "F16" or header["shape"][1] != _DIMENSIONS:
        message = f"{path} holds another model than {MODEL}"
        raise ValueError(message)
    return numpy.memmap(
        path, numpy.float16, mode="r", offset=8 + size + first, shape=tuple(header["shape"])
    )
