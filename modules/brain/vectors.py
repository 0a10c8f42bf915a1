"""Vectors: what a passage means, as numbers, by a small model that needs no network.

The optional `[semantic]` extra: numpy, tokenizers, and the weights and the tokenizer that come in
the package wordllama, of which no code is run: that would load a third more. English only.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

Array: TypeAlias = Any

_NAMES = re.compile(r"^(?:# |[ \t]*[-*+][ \t]+\[\[[^\[\]\n]*\]\]).*$", re.MULTILINE)
_LINK = re.compile(
    r"!?\[\[(?:[^\[\]|\n]*\|)?([^\[\]|\n]*)\]\]|!?\[([^\[\]\n]*)\]\([^()\n]*\)|https?://\S+"
)
_PARAGRAPH_END = re.compile(r"\n(?:[ \t\r]*\n)+|\n(?=[ \t]*(?:[-+*]|\d{1,3}[.)]|#{1,6})[ \t])")
_SPACED_WORD = re.compile(r"\S+\s*")
_LEAST_OF_PASSAGE, _MOST_OF_PASSAGE = 25, 80  # words

MODEL = "wordllama-l2-supercat-256"
_DIMENSIONS = 256
_WEIGHTS, _TENSOR = "weights/l2_supercat_256.safetensors", "embedding.weight"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_MOST_WORDS, _LONGEST = 8_192, 200  # words of a text, and characters of a word
_LARGEST, _SCALE = 127, 300  # of a byte with a sign; no number of a vector is larger than 0.42
_BLOCK = 1_024  # rows compared at once: BLAS starts threads for more


def find_model() -> Path | None:
    spec = importlib.util.find_spec("wordllama")
    if not spec or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)))
    is_whole = (folder / _WEIGHTS).is_file() and (folder / _TOKENIZER).is_file()
    libraries = ("numpy", "tokenizers")
    return folder if is_whole and all(map(importlib.util.find_spec, libraries)) else None


def load_embedder() -> Embedder | None:
    """The model, which takes some 0.3 s and 60 MB; None where the extra is not installed."""
    folder = find_model()
    return Embedder(folder) if folder else None


class Embedder:
    """Vectors of length 1: the direction of the sum of a text's tokens' vectors.

    Of notes they are kept as bytes, 256 for a passage. Not for several threads at once.
    """

    def __init__(self, folder: Path) -> None:
        self._numpy = importlib.import_module("numpy")
        tokenizers = importlib.import_module("tokenizers")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._weights = read_tensor(self._numpy, folder / _WEIGHTS, _TENSOR)
        # tokens never cross a space, so that a word that was looked up once need not be again
        self._of_word = lru_cache(maxsize=_MOST_WORDS)(self._sum_of)

    def embed(self, texts: Sequence[str]) -> Array:
        """A row for each text, float32; zeros for a text without a word."""
        numpy = self._numpy
        made = numpy.zeros((len(texts), _DIMENSIONS), numpy.float32)
        for row, text in zip(made, texts, strict=True):
            if words := text.split()[:_MOST_WORDS]:
                numpy.sum([self._of_word(word[:_LONGEST]) for word in words], axis=0, out=row)
        lengths = numpy.linalg.norm(made, axis=1, keepdims=True)
        return made / numpy.maximum(lengths, 1e-9)

    def _sum_of(self, word: str) -> Array:
        tokens = self._tokenizer.encode(word, add_special_tokens=False).ids
        return self._weights[tokens].sum(axis=0, dtype=self._numpy.float32)

    def vectors_of(
        self, notes: Sequence[tuple[int, str, str]], parts: Sequence[Sequence[str]]
    ) -> Iterator[bytes]:
        """A vector for each part of each note; where none says anything, one of its title."""
        numpy = self._numpy
        prose = [list(map(_prose, of_note)) for of_note in parts]
        said = [one if any(one) else [note[1]] for note, one in zip(notes, prose, strict=True)]
        vectors = self.embed([text for of_note in said for text in of_note])
        whole = numpy.clip(numpy.rint(vectors * _SCALE), -_LARGEST, _LARGEST).astype(numpy.int8)
        first = 0
        for of_note in said:
            yield whole[first : first + len(of_note)].tobytes()
            first += len(of_note)

    def matrix_of(self, notes: Sequence[tuple[int, bytes]]) -> tuple[Array, list[tuple[int, int]]]:
        """All vectors, and for each its note and the number of its passage there."""
        data = b"".join(vectors for _, vectors in notes)
        places = [
            (note, number)
            for note, vectors in notes
            for number in range(len(vectors) // _DIMENSIONS)
        ]
        return self._numpy.frombuffer(data, self._numpy.int8).reshape(-1, _DIMENSIONS), places

    def nearest(self, vectors: Array, asked: Array, most: int) -> list[tuple[float, int]]:
        """How near the nearest are, and in which rows, the nearest first."""
        numpy = self._numpy
        nearness = numpy.empty(len(vectors), numpy.float32)
        for first in range(0, len(vectors), _BLOCK):
            block = vectors[first : first + _BLOCK].astype(numpy.float32)
            numpy.matmul(block, asked / _SCALE, out=nearness[first : first + len(block)])
        some = min(len(vectors), most)
        best = numpy.argpartition(-nearness, some - 1)[:some] if some else []
        return sorted(((float(nearness[row]), int(row)) for row in best), key=_nearest_first)


def _nearest_first(found: tuple[float, int]) -> tuple[float, int]:
    return -found[0], found[1]


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
    for end in [*(found.end() for found in _PARAGRAPH_END.finditer(text)), len(text)]:
        count = len(text[begin:end].split())
        if count <= _MOST_OF_PASSAGE:
            yield begin, end, count
            begin = end
            continue
        stops = [match.end() for match in _SPACED_WORD.finditer(text, begin, end)]
        for first in range(0, len(stops), _MOST_OF_PASSAGE):
            part = stops[first : first + _MOST_OF_PASSAGE]
            stop = end if first + _MOST_OF_PASSAGE >= len(stops) else part[-1]
            yield begin, stop, len(part)
            begin = stop
