"""A run may name the model of its settings, and no other."""

from __future__ import annotations

import pytest

from parachuted.agents.gateway.limits import RunToken, is_same_model

HAIKU = "claude-haiku-4-5-20251001"


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
    ticket = RunToken(run="r", agent="a", causes=(), session=None, max_cost_usd=1, models=(HAIKU,))
    assert ticket.foreign_model([HAIKU]) is None
    assert ticket.foreign_model([HAIKU, "claude-opus-5"]) == "claude-opus-5"
