"""What tokens cost: known models by their prices, others by the rule for those who do not know."""

from __future__ import annotations

import pytest

from parachuted.agents.gateway.prices import PRICES, Tokens, cost_of, price_of

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("claude-haiku-4-5-20251001", 1),
        ("claude-haiku-4-5@20251001", 1),
        ("claude-3-5-haiku-latest", 0.8),
        ("claude-3-haiku-20240307", 0.25),
        ("claude-sonnet-4-5-20250929", 3),
        ("claude-sonnet-5-5", 2),
        ("claude-opus-4-20250514", 15),
        ("claude-opus-4-1-20250805", 15),
        ("claude-opus-4-5-20251101", 5),
        ("claude-opus-5", 5),
        ("claude-fable-5-2", 8),
    ],
)
def test_a_million_tokens_of_input_cost_what_the_table_says(model, usd):
    assert cost_of(model, Tokens(input=MILLION), may_cost=True).usd == pytest.approx(usd)


def test_each_kind_of_token_has_its_price():
    tokens = Tokens(
        input=1000,
        output=2000,
        cache_read=30_000,
        cache_write_5m=4000,
        cache_write_1h=5000,
        searches=3,
    )
    by_hand = (1000 * 3 + 2000 * 15 + 30_000 * 0.3 + 4000 * 3.75 + 5000 * 6) / MILLION + 3 * 0.01
    assert cost_of("claude-sonnet-4-5", tokens, may_cost=True).usd == pytest.approx(by_hand)


def test_a_model_that_is_in_no_table_costs_the_dearest_where_it_may_cost_anything_and_nothing_elsewhere_and_that_is_said():  # noqa: E501
    tokens = Tokens(input=MILLION, output=MILLION)
    dear = cost_of("claude-next-9", tokens, may_cost=True)
    free = cost_of("qwen3:8b", tokens, may_cost=False)

    assert dear.usd == max(price.of(tokens) for price in PRICES.values())
    assert "claude-next-9" in dear.note
    assert (free.usd, "qwen3:8b" in free.note) == (0.0, True)
    assert cost_of("claude-haiku-4-5", tokens, may_cost=False).usd == pytest.approx(6)


def test_a_name_that_only_looks_alike_is_another_model():
    assert price_of("claude-opus-45") is None
    assert price_of("claude-haiku-4-50") is None
    assert price_of("") is None


def test_long_prompts_fast_answers_and_a_place_of_ones_choice_cost_more():
    short, long = Tokens(input=100_000), Tokens(input=100_000, cache_read=1)
    assert cost_of("claude-haiku-5-5", short, may_cost=True).usd == pytest.approx(0.01)
    assert cost_of("claude-haiku-5-5", long, may_cost=True).usd == pytest.approx(0.05, rel=1e-3)
    usual = cost_of("claude-opus-4-6", Tokens(output=MILLION), may_cost=True).usd
    assert (
        cost_of("claude-opus-4-6", Tokens(output=MILLION), may_cost=True, speed="fast").usd > usual
    )
    assert cost_of(
        "claude-opus-4-6", Tokens(output=MILLION), may_cost=True, place="us"
    ).usd == pytest.approx(usual * 1.1)
