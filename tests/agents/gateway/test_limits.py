"""Which budget is used up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.agents.gateway.limits import (
    MoneyLimits,
    affordable,
    narrowest,
    narrowest_of_conversation,
)

LIMITS = MoneyLimits(usd_per_cause=2, usd_per_hour=5, usd_per_day=20)
NOTHING = {"run_usd": 0.0, "run_limit": 0.25, "causes": {}, "hour_usd": 0.0, "day_usd": 0.0}


@pytest.mark.parametrize(
    ("spent", "budget"),
    [
        ({}, None),
        ({"run_usd": 0.247}, None),
        ({"run_usd": 0.2499}, "run"),
        ({"run_usd": 0.25}, "run"),
        ({"causes": {"a": 1.9, "b": 1.9}}, None),
        ({"causes": {"a": 0.1, "b": 2.0}}, "usd_per_cause"),
        ({"hour_usd": 5.1}, "usd_per_hour"),
        ({"day_usd": 20.0}, "usd_per_day"),
        ({"run_usd": 9, "causes": {"a": 9}, "hour_usd": 9, "day_usd": 90}, "run"),
    ],
)
def test_the_first_that_is_used_up_is_named(spent, budget):
    over = narrowest(LIMITS, **{**NOTHING, **spent})
    assert (over.budget if over.is_used_up else None) == budget


def test_where_none_is_used_up_the_one_with_the_least_left_is_named():
    over = narrowest(LIMITS, **{**NOTHING, "run_limit": 10.0, "hour_usd": 4.0})
    assert (over.budget, over.left) == ("usd_per_hour", 1.0)
    assert (
        "has $1.0000 left of its $5 (setting budget.usd_per_hour), which does not pay for this "
        "request" in str(over)
    )


def test_it_says_which_setting_it_is():
    assert "budget.usd_per_day" in str(narrowest(LIMITS, **{**NOTHING, "day_usd": 20}))
    assert "agent.max_cost_usd" in str(narrowest(LIMITS, **{**NOTHING, "run_usd": 1}))


@pytest.mark.parametrize(
    ("spent", "budget", "setting"),
    [
        ({}, None, ""),
        ({"run_usd": 0.25}, "usd_per_turn", "conversation.max_cost_usd"),
        ({"session_usd": 3.0}, "usd_per_session", "conversation.usd_per_session"),
        ({"day_usd": 9.0}, "conversations_usd_per_day", "conversation.usd_per_day"),
    ],
)
def test_a_conversation_has_budgets_of_its_own(spent, budget, setting):
    limits = MoneyLimits(
        usd_per_cause=0.1,
        usd_per_hour=0.1,
        usd_per_day=0.1,
        usd_per_session=3,
        conversations_usd_per_day=9,
    )
    nothing = {"run_usd": 0.0, "run_limit": 0.25, "session_usd": 0.0, "day_usd": 0.0}
    over = narrowest_of_conversation(limits, **{**nothing, **spent})
    assert (over.budget if over.is_used_up else None) == budget
    assert setting in str(over)


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 1), st.integers(0, 200_000))
def test_an_answer_is_never_longer_than_what_is_left_pays_for(left, fixed, per_token, wanted):
    tokens = affordable(left=left, fixed=fixed, per_token=per_token, wanted=wanted)
    assert 0 <= tokens <= wanted
    assert tokens == 0 or fixed + tokens * per_token <= left + 1e-9
    assert tokens == wanted or fixed + wanted * per_token > left


def test_what_costs_nothing_is_never_shortened():
    assert affordable(left=0.0, fixed=0.0, per_token=0.0, wanted=500) == 500
