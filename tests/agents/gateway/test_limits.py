"""Which budget is used up, and which models a run may name."""

from __future__ import annotations

import math

import pytest

from parachuted.agents.gateway.limits import BudgetState, RunToken, is_same_model, narrowest

HAIKU = "claude-haiku-4-5-20251001"


def state(budget, counted, limit=1.0, reserved=0.0):
    return BudgetState(budget=budget, limit=limit, counted=counted, reserved=reserved)


@pytest.mark.parametrize(
    ("budgets", "budget", "is_used_up"),
    [
        ([state("run", 0.0), state("usd_per_hour", 0.5)], "usd_per_hour", False),
        ([state("run", 0.9), state("usd_per_hour", 0.5)], "run", False),
        ([state("run", 0.98), state("usd_per_hour", 1.0)], "usd_per_hour", True),
        ([state("run", 0.999), state("usd_per_day", 9.0)], "run", True),
        ([state("run", 0.5, reserved=0.4), state("usd_per_day", 0.8)], "run", False),
        ([state("usd_per_session", 99, math.inf), state("usd_per_turn", 0.1)], "usd_per_turn", 0),
    ],
)
def test_the_first_budget_that_is_used_up_or_has_the_least_left_is_named(
    budgets, budget, is_used_up
):
    found = narrowest(budgets)
    assert (found.budget, found.is_used_up) == (budget, is_used_up)


@pytest.mark.parametrize(
    ("budget", "setting"),
    [
        ("run", "agent.max_cost_usd"),
        ("usd_per_cause", "budget.usd_per_cause"),
        ("usd_per_hour", "budget.usd_per_hour"),
        ("usd_per_day", "budget.usd_per_day"),
        ("usd_per_turn", "conversation.max_cost_usd"),
        ("usd_per_session", "conversation.usd_per_session"),
        ("conversations_usd_per_day", "conversation.usd_per_day"),
    ],
)
def test_it_says_which_setting_it_is_and_where_to_look(budget, setting):
    used_up, low = str(state(budget, 1.0)), str(state(budget, 0.9, reserved=0.05))
    assert f"has used up its $1 (setting {setting}); `parachute usage`" in used_up
    assert f"has $0.0500 left of its $1 (setting {setting}), which does not pay" in low


@pytest.mark.parametrize(
    ("asked", "setting", "is_same"),
    [
        (HAIKU, HAIKU, True),
        (HAIKU, "claude-haiku-4-5", True),
        (HAIKU, "haiku", True),
        ("haiku", "haiku", True),
        ("claude-sonnet-5-5", "claude-sonnet-5-5[1m]", True),
        ("claude-opus-5", HAIKU, False),
        ("claude-opus-5", "haiku", False),
        ("evil-haiku", "haiku", False),
        ("claude-haiku-4-50", "claude-haiku-4-5", False),
        ("", HAIKU, False),
        ("qwen3:8b", "qwen3:8b", True),
        ("qwen3:70b", "qwen3:8b", False),
    ],
)
def test_a_setting_names_a_model_by_its_name_without_its_date_or_by_its_family(
    asked, setting, is_same
):
    assert is_same_model(asked, setting) is is_same


def test_the_first_foreign_model_is_named():
    run_token = RunToken(
        run="r", agent="a", causes=(), session=None, max_cost_usd=1, models=(HAIKU,)
    )
    assert run_token.foreign_model([HAIKU]) is None
    assert run_token.foreign_model([HAIKU, "claude-opus-5"]) == "claude-opus-5"
