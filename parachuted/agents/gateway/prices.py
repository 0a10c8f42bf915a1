"""Prices: what a model's answer used, and what that costs in US dollars."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

BYTES_A_TOKEN = 3  # English has about four: an estimate is rather too high
_MILLION = 1_000_000
_US_FACTOR = 1.1  # an answer that was kept in the United States costs a tenth more


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """`input` was neither read from nor written to the cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h


class Price(NamedTuple):
    """Dollars for a million tokens.

    A token written to the cache costs 1.25 times one of input, or twice where it is kept for an
    hour; one read from it a tenth, if `cache_read` does not say otherwise. A prompt of more than
    `long_above` tokens multiplies all of it by `long_factor`.
    """

    input: float
    output: float
    cache_read: float | None = None
    long_above: float = math.inf
    long_factor: float = 1

    def of(self, tokens: Tokens) -> float:
        read = self.input / 10 if self.cache_read is None else self.cache_read
        prompt = tokens.input + 1.25 * tokens.cache_write_5m + 2 * tokens.cache_write_1h
        usd = prompt * self.input + tokens.cache_read * read + tokens.output * self.output
        return usd / _MILLION * (self.long_factor if tokens.prompt > self.long_above else 1)


_DEAREST = Price(15, 75)

# By the beginnings of models' names, of which the longest that fits counts. Source: the catalogue
# that the bundled CLI (2.1.330) computes its costs from.
_NAMES = {
    Price(0.25, 1.25, 0.03): "3-haiku",
    Price(0.8, 4): "3-5-haiku",
    Price(1, 5): "haiku-4-5",
    Price(0.1, 0.5, long_above=100_000, long_factor=5): "haiku-5-5",
    Price(3, 15): "3-sonnet 3-5-sonnet 3-7-sonnet sonnet-4",
    Price(2, 10): "sonnet-5",
    Price(2, 10, 0.1): "sonnet-5-5",
    Price(15, 75): "3-opus opus-4",
    Price(5, 25): "opus-4-5 opus-4-6 opus-4-7 opus-4-8 opus-5",
    Price(4, 20, 0.2): "opus-5-5",
    Price(10, 50): "fable-5 mythos-5",
    Price(10, 50, 0.25): "fable-5-1 mythos-5-1",
    Price(8, 40, 0.2): "fable-5-2 mythos-5-2",
}
PRICES = {f"claude-{name}": price for price, names in _NAMES.items() for name in names.split()}


def price_of(model: str) -> Price | None:
    """Also of a dated version: `claude-opus-4-1` is `claude-opus-4`, `claude-opus-45` not."""
    names = [name for name in PRICES if model == name or model.startswith((f"{name}-", f"{name}@"))]
    return PRICES[max(names, key=len)] if names else None


def cost_of(model: str, tokens: Tokens, *, may_cost: bool, place: str = "") -> float:
    """In US dollars; `place` is from the answer's usage. A model of unknown price costs the
    dearest, or nothing where `may_cost` is False: its server is one's own.
    """
    price = price_of(model) or (_DEAREST if may_cost else Price(0, 0))
    return price.of(tokens) * (_US_FACTOR if place == "us" else 1)


_LONGEST = 32 << 20  # of a stream's line, and of a whole answer
_MOST_TOKENS = 1_000_000_000
_NAME_CHARS = 200


class Meter:
    """Reads what an answer used: `feed` it pieces in order, whatever their borders, then `end`.

    `has_ended`: it says how long it was. `has_failed`: its server ended it with an error, in place
    of an answer if it has not `has_started`.
    """

    def __init__(self, content_type: str) -> None:
        self._is_stream = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._line = bytearray()
        self._usage: dict[str, object] = {}
        self._size = 0
        self.has_started = self.has_ended = self.has_failed = False
        self.model = self.place = ""

    def feed(self, piece: bytes) -> None:
        self._size += len(piece)
        *lines, rest = piece.split(b"\n") if self._is_stream else [piece]
        for end in lines:
            self._read_line(bytes(self._line + end))
            self._line.clear()
        self._line += rest
        if len(self._line) > _LONGEST:  # usage stands in no line so long
            self._line.clear()

    def end(self) -> None:
        if not self._is_stream:
            self._read_message(_document(bytes(self._line)))

    def tokens(self) -> Tokens:
        """Of an answer that does not say how long it was, its bytes say it, rather too high."""
        usage, hour, output = self._usage, 0, _count(self._usage.get("output_tokens"))
        if not self.has_ended:
            output = max(output, self._size // BYTES_A_TOKEN)
        written = _count(usage.get("cache_creation_input_tokens"))
        if isinstance(kinds := usage.get("cache_creation"), Mapping):
            hour = min(written, _count(kinds.get("ephemeral_1h_input_tokens")))
        return Tokens(
            input=_count(usage.get("input_tokens")),
            output=output,
            cache_read=_count(usage.get("cache_read_input_tokens")),
            cache_write_5m=written - hour,
            cache_write_1h=hour,
        )

    def _read_line(self, line: bytes) -> None:
        self.has_failed |= line.startswith(b"event: error")
        if not (line.startswith(b"data:") and b'"usage"' in line):
            return
        event = _document(line.removeprefix(b"data:"))
        if event.get("type") == "message_start":
            self.has_started = True
            self._read_message(event.get("message"))
            self.has_ended = False  # its figures are those of the beginning
        elif event.get("type") == "message_delta":
            self._read_message(event)

    def _read_message(self, message: object) -> None:
        """Later figures are those of the whole answer until then."""
        if isinstance(message, Mapping):
            self.model = _name(message.get("model")) or self.model
            if isinstance(usage := message.get("usage"), Mapping):
                self._usage |= {str(name): n for name, n in usage.items() if n is not None}
                self.place = _name(self._usage.get("inference_geo"))
                self.has_ended = _is_count(usage.get("output_tokens"))


def _document(data: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _count(value: object) -> int:
    """A server that is not Anthropic's may say anything."""
    return min(value, _MOST_TOKENS) if _is_count(value) else 0


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _name(value: object) -> str:
    return value[:_NAME_CHARS] if isinstance(value, str) else ""
