"""What a model's answer used, and what that costs in US dollars; an unknown model costs the highest
price of the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from parachuted.agents.gateway.retry import ERROR_EVENT

_MILLION = 1_000_000
_FAST = "fast"
_US_ONLY = 1.1  # an answer that was kept in the United States costs a tenth more


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars a million tokens; `search` a search.

    A prompt of more than `long_above` tokens costs `long` throughout.
    """

    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float
    search: float = 0.01
    long_above: int = 0
    long: Price | None = None

    def of(self, tokens: Tokens) -> float:
        if self.long is not None and tokens.prompt > self.long_above:
            return self.long.of(tokens)
        sums = (
            tokens.input * self.input,
            tokens.output * self.output,
            tokens.cache_read * self.cache_read,
            tokens.cache_write_5m * self.cache_write_5m,
            tokens.cache_write_1h * self.cache_write_1h,
        )
        return sum(sums) / _MILLION + tokens.searches * self.search


def _price(per_input: float, per_output: float, cache_read: float | None = None) -> Price:
    """Anthropic's rule: a token written to the cache costs 1.25 times one of input, or twice where
    it is kept for an hour.
    """
    read = per_input / 10 if cache_read is None else cache_read
    return Price(
        input=per_input,
        output=per_output,
        cache_read=read,
        cache_write_5m=per_input * 1.25,
        cache_write_1h=per_input * 2,
    )


_DEAREST = _price(15, 75)
_DEAREST_FAST = _price(30, 150)
_FREE = Price(input=0, output=0, cache_read=0, cache_write_5m=0, cache_write_1h=0, search=0)
_HAIKU_55_LONG = _price(0.5, 2.5)
_HAIKU_55 = Price(
    input=0.1,
    output=0.5,
    cache_read=0.01,
    cache_write_5m=0.125,
    cache_write_1h=0.2,
    long_above=100_000,
    long=_HAIKU_55_LONG,
)

# By the beginning of a model's name, the longest that fits. Source: the catalogue that the bundled
# CLI (2.1.330) computes its costs from.
PRICES: dict[str, Price] = {
    "claude-3-haiku": _price(0.25, 1.25, 0.03),
    "claude-3-5-haiku": _price(0.8, 4),
    "claude-haiku-4-5": _price(1, 5),
    "claude-haiku-5-5": _HAIKU_55,
    "claude-3-sonnet": _price(3, 15),
    "claude-3-5-sonnet": _price(3, 15),
    "claude-3-7-sonnet": _price(3, 15),
    "claude-sonnet-4": _price(3, 15),
    "claude-sonnet-5": _price(2, 10),
    "claude-sonnet-5-5": _price(2, 10, 0.1),
    "claude-3-opus": _price(15, 75),
    "claude-opus-4": _price(15, 75),
    "claude-opus-4-5": _price(5, 25),
    "claude-opus-4-6": _price(5, 25),
    "claude-opus-4-7": _price(5, 25),
    "claude-opus-4-8": _price(5, 25),
    "claude-opus-5": _price(5, 25),
    "claude-opus-5-5": _price(4, 20, 0.2),
    "claude-fable-5": _price(10, 50),
    "claude-fable-5-1": _price(10, 50, 0.25),
    "claude-fable-5-2": _price(8, 40, 0.2),
    "claude-mythos-5": _price(10, 50),
    "claude-mythos-5-1": _price(10, 50, 0.25),
    "claude-mythos-5-2": _price(8, 40, 0.2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedUsage:
    """What an answer cost, and what there is to know about the figure, or ""."""

    usd: float
    note: str = ""


def price_of(model: str) -> Price | None:
    """The price of the model that has this name, or None when it is in no table."""
    fits = [name for name in PRICES if _begins(model, name)]
    return PRICES[max(fits, key=len)] if fits else None


def cost_of(
    model: str, tokens: Tokens, *, may_cost: bool, speed: str = "", place: str = ""
) -> PricedUsage:
    """The price of these tokens in US dollars.

    `speed` and `place` are from the answer's usage; `may_cost` False: the server is one's own, and
    a model of unknown price is free.
    """
    price = price_of(model)
    note = ""
    if price is None:
        price = _DEAREST if may_cost else _FREE
        said = (
            "the dearest price that is known"
            if may_cost
            else "nothing, since its server is in your own network"
        )
        note = (
            f"the price of {model[:80] or 'a model without a name'} is not known; it was "
            f"counted as {said}"
        )
    if speed == _FAST and price is not _FREE:
        price = _DEAREST_FAST
    return PricedUsage(usd=price.of(tokens) * (_US_ONLY if place == "us" else 1.0), note=note)


def _begins(model: str, name: str) -> bool:
    """Whether the model is that one, or a dated version of it: `claude-opus-4-1` begins with
    `claude-opus-4`, `claude-opus-45` does not.
    """
    return model == name or model.startswith((f"{name}-", f"{name}@"))


_LONGEST_LINE = 4 << 20
_LONGEST_JSON = 32 << 20
_MOST_TOKENS = 1_000_000_000
_EMPTY_DELTA = 90  # the bytes of a `content_block_delta` that are not text
_BYTES_A_TOKEN = 3  # a token of English is about four: what is cut off is rather counted too high
_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterReading:
    model: str
    tokens: Tokens
    is_whole: bool
    speed: str = ""
    place: str = ""


class Meter:
    """One answer's. `feed` it the pieces in order, whatever their borders, then `read`."""

    def __init__(self, content_type: str) -> None:
        self._is_stream = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._rest = bytearray()
        self._passes_over = False
        self._usage: dict[str, object] = {}
        self._model = ""
        self._passed = 0
        self._has_begun = self._has_ended = self._has_failed = False

    def feed(self, piece: bytes) -> None:
        if not self._is_stream:
            self._passed += len(piece)
            if self._passed <= _LONGEST_JSON:
                self._rest += piece
            return
        lines = piece.split(b"\n")
        for line in lines[:-1]:
            self._rest += line
            if not self._passes_over:
                self._take(bytes(self._rest))
            self._passes_over = False
            self._rest.clear()
        self._rest += lines[-1]
        if len(self._rest) > _LONGEST_LINE:  # no line that tells of usage is so long
            self._passed += len(self._rest)
            self._passes_over = True
            self._rest.clear()

    def read(self) -> MeterReading:
        if not self._is_stream:
            self._take_message(_document(bytes(self._rest)))
            self._has_ended = _is_count(self._usage.get("output_tokens"))
        usage, output = self._usage, _count(self._usage.get("output_tokens"))
        is_cut = not self._has_ended and (self._has_begun or self._passed > 0)
        written, hour = _count(usage.get("cache_creation_input_tokens")), 0
        if isinstance(kinds := usage.get("cache_creation"), Mapping):
            hour = min(written, _count(kinds.get("ephemeral_1h_input_tokens")))
        tools = usage.get("server_tool_use")
        tokens = Tokens(
            input=_count(usage.get("input_tokens")),
            output=max(output, self._passed // _BYTES_A_TOKEN) if is_cut else output,
            cache_read=_count(usage.get("cache_read_input_tokens")),
            cache_write_5m=written - hour,
            cache_write_1h=hour,
            searches=_count(tools.get("web_search_requests")) if isinstance(tools, Mapping) else 0,
        )
        speed, place = _name(usage.get("speed")), _name(usage.get("inference_geo"))
        return MeterReading(
            model=self._model,
            tokens=tokens,
            is_whole=self._has_ended or self._has_failed,
            speed=speed,
            place=place,
        )

    def _take(self, line: bytes) -> None:
        self._has_failed = self._has_failed or line.startswith(ERROR_EVENT)
        if not line.startswith(b"data:"):
            return
        if b'"usage"' not in line:
            self._passed += max(1, len(line) - _EMPTY_DELTA) if b"_delta" in line else 0
            return
        event = _document(line[len(b"data:") :])
        kind = event.get("type")
        if kind == "message_start":
            self._has_begun = True
            message = event.get("message")
            self._take_message(message if isinstance(message, Mapping) else {})
        elif kind == "message_delta":
            usage = event.get("usage")
            self._take_usage(usage)
            self._has_ended = isinstance(usage, Mapping) and _is_count(usage.get("output_tokens"))
        else:
            self._passed += max(1, len(line) - _EMPTY_DELTA)  # a text that speaks of usage

    def _take_message(self, message: Mapping[str, object]) -> None:
        self._model = _name(message.get("model")) or self._model
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
