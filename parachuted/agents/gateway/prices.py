"""What a model's tokens cost, in US dollars; an unknown model costs the highest price of the
table.
"""

from __future__ import annotations

from dataclasses import dataclass

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
        """All that went in."""
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
        """What these cost, in dollars."""
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
