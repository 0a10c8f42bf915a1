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
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

Array: TypeAlias = Any

_NAMES = re.compile(r"^(?:# |[ \t]*[-*+][ \t]+\[\[[^\[\]\n]*\]\]).*$", re.MULTILINE)
_LINK = re.compile(
    r"!?\[\[(?:[^\[\]|\n]*\|)?([^\[\]|\n]*)\]\]|!?\[([^\[\]\n]*)\]\([^()\n]*\)|https?://\S+"
)

PARAGRAPH_END = re.compile(r"\n(?:[ \t\r]*\n)+|\n(?=[ \t]*(?:[-+*]|\d{1,3}[.)]|#{1,6})[ \t])")
_SPACED_WORD = re.compile(r"\S+\s*")
_LEAST_OF_PASSAGE, _MOST_OF_PASSAGE = 25, 80  # words

MODEL = "wordllama-l2-supercat-256"
_DIMENSIONS = 256
_WEIGHTS, _TENSOR = "weights/l2_supercat_256.safetensors", "embedding.weight"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_MOST_WORDS, _LONGEST = 8_192, 200  # words that are kept, and characters of one
_LARGEST = 127  # of a byte with a sign
_BLOCK = 1_024  # rows compared at once: BLAS starts threads for more


class Passage(NamedTuple):
    start: int
    stop: int
    scale: float
    vector: bytes


class Near(NamedTuple):
    note: int
    start: int
    stop: int
    nearness: float


def find_model() -> Path | None:
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
    """Vectors of length 1: the direction of the sum of a text's tokens' vectors."""

    def __init__(self, folder: Path) -> None:
        self.numpy = importlib.import_module("numpy")
        tokenizers = importlib.import_module("tokenizers")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._weights = read_tensor(self.numpy, folder / _WEIGHTS, _TENSOR)
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}  # of words that were looked up, in `_sums`
        self._sums = self.numpy.empty((_MOST_WORDS, _DIMENSIONS), self.numpy.float32)

    def embed(self, texts: Sequence[str]) -> Array:
        """A row for each text, float32; zeros for a text without a token. For any thread."""
        numpy = self.numpy
        made = numpy.zeros((len(texts), _DIMENSIONS), numpy.float32)
        with self._lock:
            for row, text in enumerate(texts):
                if places := self._words(text.split()[:_MOST_WORDS]):
                    made[row] = self._sums[places].sum(axis=0)
        lengths = numpy.linalg.norm(made, axis=1, keepdims=True)
        return made / numpy.maximum(lengths, 1e-9)

    def _words(self, words: Sequence[str]) -> list[int]:
        """Tokens never cross a space, so that a word that was looked up once need not be again."""
        if len(self._places) + len(words) > _MOST_WORDS:
            self._places.clear()
        for word in words:
            if word not in self._places:
                place = self._places[word] = len(self._places)
                tokens = self._tokenizer.encode(word[:_LONGEST], add_special_tokens=False).ids
                self._weights[tokens].sum(axis=0, dtype=self.numpy.float32, out=self._sums[place])
        return [self._places[word] for word in words]


class VectorTable:
    """A number is a byte, and each row has a scale. Not for several threads."""

    def __init__(self, database: sqlite3.Connection, embedder: Embedder) -> None:
        self._database, self._embedder, self._numpy = database, embedder, embedder.numpy
        self._rows: _Rows | None = None

    def make(self, notes: Sequence[tuple[int, str, str]]) -> dict[int, list[Passage]]:
        places, texts = [], []
        for note, title, body in notes:
            said = [(start, stop, _prose(body[start:stop])) for start, stop in passages(body)]
            said = [one for one in said if one[2]] or [(0, len(body), title)]
            places += [(note, start, stop) for start, stop, _text in said]
            texts += [text for _start, _stop, text in said]
        numpy, vectors = self._numpy, self._embedder.embed(texts)
        scales = numpy.abs(vectors).max(axis=1, initial=1e-9) / _LARGEST
        whole = numpy.rint(vectors / scales[:, None]).astype(numpy.int8)
        made: dict[int, list[Passage]] = {note[0]: [] for note in notes}
        for (note, start, stop), row, scale in zip(places, whole, scales.tolist(), strict=True):
            made[note].append(Passage(start, stop, scale, row.tobytes()))
        return made

    def put(self, note: int, made: Sequence[Passage]) -> None:
        self._database.executemany(
            "INSERT INTO passages (note, start, stop, scale, vector) VALUES (?, ?, ?, ?, ?)",
            ((note, *one) for one in made),
        )
        if self._rows is not None:
            self._rows.add([(note, *one) for one in made])

    def forget(self, note: int) -> None:
        if self._rows is not None:
            self._rows.remove(note)

    def reset(self) -> None:
        self._rows = None

    def nearest(self, question: str, most: int) -> list[Near]:
        if self._rows is None:
            self._rows = self._load()
        numpy, rows = self._numpy, self._rows
        asked = self._embedder.embed([question])[0]
        if not len(rows) or not asked.any():
            return []
        nearness = rows.compare(asked)
        some = min(len(rows), 4 * most)
        found: dict[int, Near] = {}
        best = numpy.argpartition(-nearness, some - 1)[:some]
        for place in sorted(best.tolist(), key=lambda one: (-nearness[one], rows.place(one))):
            note, start, stop = rows.place(place)
            if note not in found:
                found[note] = Near(note, start, stop, float(nearness[place]))
        return list(found.values())[:most]

    def _load(self) -> _Rows:
        rows = _Rows(self._numpy)
        held = self._database.execute("SELECT note, start, stop, scale, vector FROM passages")
        rows.add(held.fetchall())
        return rows


class _Rows:
    def __init__(self, numpy: Any) -> None:  # noqa: ANN401  a library as a value
        self._numpy = numpy
        self._vectors = numpy.empty((0, _DIMENSIONS), numpy.int8)
        self._scales = numpy.empty(0, numpy.float32)
        self._places = numpy.empty((0, 3), numpy.int64)
        self._block = numpy.empty((_BLOCK, _DIMENSIONS), numpy.float32)

    def __len__(self) -> int:
        return len(self._scales)

    def add(self, rows: Sequence[tuple[int, int, int, float, bytes]]) -> None:
        if rows:
            numpy, data = self._numpy, b"".join(row[4] for row in rows)
            new = numpy.frombuffer(data, numpy.int8).reshape(-1, _DIMENSIONS)
            scales = numpy.array([row[3] for row in rows], numpy.float32)
            self._vectors = numpy.concatenate([self._vectors, new])
            self._scales = numpy.concatenate([self._scales, scales])
            self._places = numpy.concatenate([self._places, [row[:3] for row in rows]])

    def remove(self, note: int) -> None:
        stays = self._places[:, 0] != note
        self._vectors, self._scales = self._vectors[stays], self._scales[stays]
        self._places = self._places[stays]

    def place(self, row: int) -> tuple[int, int, int]:
        note, start, stop = self._places[row].tolist()
        return note, start, stop

    def compare(self, asked: Array) -> Array:
        nearness = self._numpy.empty(len(self), self._numpy.float32)
        for first in range(0, len(self), _BLOCK):
            part = self._vectors[first : first + _BLOCK]
            block = self._block[: len(part)]
            block[:] = part
            self._numpy.matmul(block, asked, out=nearness[first : first + len(part)])
        return nearness * self._scales


def _prose(text: str) -> str:
    """Without titles, lines that only relate, and addresses: names blur the meaning beside them."""
    return _LINK.sub(r"\1\2", _NAMES.sub("", text)).strip()


def read_tensor(numpy: Any, path: Path, name: str) -> Array:  # noqa: ANN401  a library as a value
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


def passages(text: str) -> list[tuple[int, int]]:
    """Pieces of some 25 to 80 words, whole paragraphs where possible."""
    found: list[tuple[int, int]] = []
    start = words = 0
    for begin, end, count in _pieces(text):
        if words and words + count > _MOST_OF_PASSAGE:
            found.append((start, begin))
            start, words = begin, 0
        words += count
        if words >= _LEAST_OF_PASSAGE:
            found.append((start, end))
            start, words = end, 0
    if words or not found:
        found.append((start, len(text)))
    return found


def _pieces(text: str) -> Iterator[tuple[int, int, int]]:
    begin = 0
    for end in [*(found.end() for found in PARAGRAPH_END.finditer(text)), len(text)]:
        count = len(text[begin:end].split())
        if count <= _MOST_OF_PASSAGE:
            yield begin, end, count
            begin = end
            continue
        stops = [found.end() for found in _SPACED_WORD.finditer(text, begin, end)]
        for first in range(0, len(stops), _MOST_OF_PASSAGE):
            part = stops[first : first + _MOST_OF_PASSAGE]
            stop = end if first + _MOST_OF_PASSAGE >= len(stops) else part[-1]
            yield begin, stop, len(part)
            begin = stop
