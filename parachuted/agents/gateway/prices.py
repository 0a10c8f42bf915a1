"""Prices: what a model's answer used, and what that costs in US dollars."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

BYTES_A_TOKEN = 3  # English has about four: an estimate is rather too high
_MILLION = 1_000_000
_SEARCH_USD = 0.01
_FAST = "fast"
_US_FACTOR = 1.1  # an answer that was kept in the United States costs a tenth more


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What one answer took.

    `input` is what was neither read from nor written to the cache; `searches` are searches of the
    web.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    searches: int = 0

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
        usd = (
            prompt * self.input + tokens.cache_read * read + tokens.output * self.output
        ) / _MILLION
        return usd * (self.long_factor if tokens.prompt > self.long_above else 1)


_DEAREST, _DEAREST_FAST = Price(15, 75), Price(30, 150)

# By the beginning of a model's name, the longest that fits. Source: the catalogue that the bundled
# CLI (2.1.330) computes its costs from.
PRICES = {
    "claude-3-haiku": Price(0.25, 1.25, 0.03),
    "claude-3-5-haiku": Price(0.8, 4),
    "claude-haiku-4-5": Price(1, 5),
    "claude-haiku-5-5": Price(0.1, 0.5, long_above=100_000, long_factor=5),
    "claude-3-sonnet": Price(3, 15),
    "claude-3-5-sonnet": Price(3, 15),
    "claude-3-7-sonnet": Price(3, 15),
    "claude-sonnet-4": Price(3, 15),
    "claude-sonnet-5": Price(2, 10),
    "claude-sonnet-5-5": Price(2, 10, 0.1),
    "claude-3-opus": Price(15, 75),
    "claude-opus-4": Price(15, 75),
    "claude-opus-4-5": Price(5, 25),
    "claude-opus-4-6": Price(5, 25),
    "claude-opus-4-7": Price(5, 25),
    "claude-opus-4-8": Price(5, 25),
    "claude-opus-5": Price(5, 25),
    "claude-opus-5-5": Price(4, 20, 0.2),
    "claude-fable-5": Price(10, 50),
    "claude-fable-5-1": Price(10, 50, 0.25),
    "claude-fable-5-2": Price(8, 40, 0.2),
    "claude-mythos-5": Price(10, 50),
    "claude-mythos-5-1": Price(10, 50, 0.25),
    "claude-mythos-5-2": Price(8, 40, 0.2),
}


def price_of(model: str) -> Price | None:
    """The price of the model of this name or a dated version of it; None when it is not known.

    `claude-opus-4-1` begins with `claude-opus-4`, `claude-opus-45` does not.
    """
    names = [name for name in PRICES if model == name or model.startswith((f"{name}-", f"{name}@"))]
    return PRICES[max(names, key=len)] if names else None


def price_note(model: str, *, may_cost: bool) -> str | None:
    """What a person should know about a model whose price is not known."""
    if price_of(model) is not None:
        return None
    counted = (
        "the dearest price that is known"
        if may_cost
        else "nothing, since its server is in your own network"
    )
    return (
        f"the price of {model[:80] or 'a model without a name'} is not known; it was counted as "
        f"{counted}"
    )


def cost_of(
    model: str, tokens: Tokens, *, may_cost: bool, speed: str = "", place: str = ""
) -> float:
    """The price of these tokens in US dollars; `speed` and `place` are from the answer's usage.

    A model of unknown price costs the dearest, or nothing where `may_cost` is False: its server is
    one's own.
    """
    price = price_of(model)
    if price is None and not may_cost:
        return 0.0
    if speed == _FAST:
        price = _DEAREST_FAST
    usd = (price or _DEAREST).of(tokens) + tokens.searches * _SEARCH_USD
    return usd * (_US_FACTOR if place == "us" else 1)


_LONGEST = {True: 4 << 20, False: 32 << 20}  # of a stream's line, and of a whole answer
_MOST_TOKENS = 1_000_000_000
_EMPTY_DELTA = 90  # the bytes of a `content_block_delta` that are not text
_NAME_CHARS = 200


class Meter:
    """Reads from an answer what it used: `feed` it the pieces in order, whatever their borders,
    and ask then.
    """

    def __init__(self, content_type: str) -> None:
        self._is_stream = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._line = bytearray()
        self._is_skipping = False
        self._usage: dict[str, object] = {}
        self.model = ""
        self._uncounted = 0  # bytes of the answer that no usage has counted yet
        self._has_begun = self._has_ended = self.has_failed = False

    def feed(self, piece: bytes) -> None:
        *lines, rest = piece.split(b"\n") if self._is_stream else [piece]
        for end in lines:
            self._line += end
            if not self._is_skipping:
                self._take(bytes(self._line))
            self._line.clear()
            self._is_skipping = False
        self._line += rest
        if len(self._line) > _LONGEST[self._is_stream]:  # usage stands in no line so long
            self._uncounted += len(self._line)
            self._is_skipping = True
            self._line.clear()

    @property
    def is_whole(self) -> bool:
        """Whether its server ended it."""
        return self._has_ended or self.has_failed

    @property
    def is_refused(self) -> bool:
        """Whether it is an error in place of an answer."""
        return self.has_failed and not self._has_begun

    def end(self) -> None:
        if not self._is_stream:
            self._uncounted += len(self._line)
            self._take_message(_document(bytes(self._line)))
            self._has_ended = _is_count(self._usage.get("output_tokens"))

    def tokens(self) -> Tokens:
        """What it took until now; of an answer that was cut off, its length says more than its
        usage.
        """
        usage, output = self._usage, _count(self._usage.get("output_tokens"))
        if not self._has_ended:
            output = max(output, self._uncounted // BYTES_A_TOKEN)
        written, hour = _count(usage.get("cache_creation_input_tokens")), 0
        if isinstance(kinds := usage.get("cache_creation"), Mapping):
            hour = min(written, _count(kinds.get("ephemeral_1h_input_tokens")))
        tools = usage.get("server_tool_use")
        return Tokens(
            input=_count(usage.get("input_tokens")),
            output=output,
            cache_read=_count(usage.get("cache_read_input_tokens")),
            cache_write_5m=written - hour,
            cache_write_1h=hour,
            searches=_count(tools.get("web_search_requests")) if isinstance(tools, Mapping) else 0,
        )

    def usd(self, model: str, tokens: Tokens, *, may_cost: bool, speed: str) -> float:
        """The price of `tokens` at the answer's terms; `speed` is the one that was asked for."""
        usage = self._usage
        return cost_of(
            model,
            tokens,
            may_cost=may_cost,
            speed=_name(usage.get("speed")) or speed,
            place=_name(usage.get("inference_geo")),
        )

    def _take(self, line: bytes) -> None:
        self.has_failed = self.has_failed or line.startswith(b"event: error")
        if not line.startswith(b"data:"):
            return
        event = _document(line[len(b"data:") :]) if b'"usage"' in line else {}
        kind, usage = event.get("type"), event.get("usage")
        if kind == "message_start":
            self._has_begun = True
            self._take_message(event.get("message"))
        elif kind == "message_delta":
            self._take_usage(usage)
            self._has_ended = isinstance(usage, Mapping) and _is_count(usage.get("output_tokens"))
        elif b"_delta" in line:
            self._has_begun = True
            self._uncounted += max(1, len(line) - _EMPTY_DELTA)

    def _take_message(self, message: object) -> None:
        if isinstance(message, Mapping):
            self.model = _name(message.get("model")) or self.model
            self._take_usage(message.get("usage"))

    def _take_usage(self, usage: object) -> None:
        """Later figures are those of the whole answer until then."""
        if isinstance(usage, Mapping):
            self._usage |= {str(name): value for name, value in usage.items() if value is not None}


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
