"""Which budget is used up."""

from __future__ import annotations

import pytest

from parachuted.agents.gateway.limits import MoneyLimits, find_over

LIMITS = MoneyLimits(usd_per_cause=2, usd_per_hour=5, usd_per_day=20)
NOTHING = {"run_usd": 0.0, "run_limit": 0.25, "causes": {}, "hour_usd": 0.0, "day_usd": 0.0}


@pytest.mark.parametrize(
    ("spent", "budget"),
    [
        ({}, None),
        ({"run_usd": 0.2499}, None),
        ({"run_usd": 0.25}, "run"),
        ({"causes": {"a": 1.9, "b": 1.9}}, None),
        ({"causes": {"a": 0.1, "b": 2.0}}, "usd_per_cause"),
        ({"hour_usd": 5.1}, "usd_per_hour"),
        ({"day_usd": 20.0}, "usd_per_day"),
        ({"run_usd": 9, "causes": {"a": 9}, "hour_usd": 9, "day_usd": 90}, "run"),
    ],
)
def test_the_narrowest_that_is_reached_is_named(spent, budget):
    over = find_over(LIMITS, **{**NOTHING, **spent})
    assert (over.budget if over else None) == budget


def test_it_says_which_setting_it_is():
    assert "budget.usd_per_day" in str(find_over(LIMITS, **{**NOTHING, "day_usd": 20}))
    assert "agent.max_cost_usd" in str(find_over(LIMITS, **{**NOTHING, "run_usd": 1}))
