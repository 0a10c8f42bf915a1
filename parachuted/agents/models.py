"""Models: those that runs may ask for, as far as they are known without asking anyone."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

KNOWN = (
    "claude-opus-4-5-20251101",
    "claude-haiku-4-5-20251001",
    "claude-sonnet-4-5-20250929",
    "claude-opus-4-1-20250805",
    "claude-opus-4-20250514",
    "claude-sonnet-4-20250514",
    "claude-3-7-sonnet-20250219",
    "claude-3-5-haiku-20241022",
)
_FAMILIES = ("opus", "sonnet", "haiku")
_DATED = re.compile(rf"claude-([\d-]*?)-?(?:{'|'.join(_FAMILIES)})-?([\d-]*?)-(\d{{8}})")
_UNKNOWN_DATE = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentModel:
    """A model that runs may ask for.

    `is_latest`: of its family. Where the name says nothing, `family` is `other` and `created_at`
    1970.
    """

    id: str
    display_name: str
    created_at: datetime
    family: str
    is_latest: bool


def model_of(name: str) -> AgentModel:
    family = next((one for one in _FAMILIES if one in name.lower()), "other")
    shown, created = name, _UNKNOWN_DATE
    if match := _DATED.fullmatch(name):
        with suppress(ValueError):  # eight digits that are no date
            created = datetime.strptime(match[3], "%Y%m%d").replace(tzinfo=UTC)
            version = (match[1] or match[2]).replace("-", ".")
            shown = f"Claude {family.title()} {version}".strip()
    return AgentModel(
        id=name, display_name=shown, created_at=created, family=family, is_latest=False
    )


def models_of(current: str) -> list[AgentModel]:
    """The known models and the one that is set; the newest first."""
    models = [model_of(name) for name in dict.fromkeys([current, *KNOWN])]
    models.sort(key=lambda model: model.created_at, reverse=True)
    latest = {model.family: model.id for model in reversed(models)}
    return [replace(model, is_latest=latest[model.family] == model.id) for model in models]
