"""Models: what the name of one says, and which are listed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.agents.models import KNOWN, model_of, models_of
from tests.api.calls import get
from tests.stories.daemon_rig import Live


@pytest.mark.parametrize(
    ("name", "shown", "created", "family"),
    [
        ("claude-haiku-4-5-20251001", "Claude Haiku 4.5", "2025-10-01", "haiku"),
        ("claude-opus-4-20250514", "Claude Opus 4", "2025-05-14", "opus"),
        ("claude-3-7-sonnet-20250219", "Claude Sonnet 3.7", "2025-02-19", "sonnet"),
        ("sonnet", "sonnet", "1970-01-01", "sonnet"),
        ("qwen3:8b", "qwen3:8b", "1970-01-01", "other"),
        ("claude-opus-4-99999999", "claude-opus-4-99999999", "1970-01-01", "opus"),
    ],
)
def test_a_name_says_family_version_and_date(name, shown, created, family):
    model = model_of(name)

    assert (model.display_name, model.family) == (shown, family)
    assert model.created_at == datetime.fromisoformat(created).replace(tzinfo=UTC)


def test_the_latest_of_each_family_is_marked_and_the_chosen_is_listed():
    models = models_of("my-model")

    assert [model.id for model in models if model.is_latest] == [
        "claude-opus-4-5-20251101",
        "claude-haiku-4-5-20251001",
        "claude-sonnet-4-5-20250929",
        "my-model",
    ]
    assert len(models) == len(KNOWN) + 1
    assert [model.created_at for model in models] == sorted(
        (model.created_at for model in models), reverse=True
    )


async def test_the_latest_are_reported_and_with_show_all_the_older_ones_too(live: Live):
    async with live(agent__model="claude-3-5-haiku-20241022") as daemon_rig:
        few = await get(daemon_rig, "/api/models?show_all=false")
        everything = await get(daemon_rig, "/supervisor/models?show_all=true")

    assert few["current"] == "claude-3-5-haiku-20241022"
    assert {model["id"] for model in few["models"] if not model["is_latest"]} == {
        "claude-3-5-haiku-20241022"
    }
    assert {model["id"] for model in everything["models"]} == set(KNOWN)
