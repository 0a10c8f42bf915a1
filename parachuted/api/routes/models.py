"""Models: those that runs may ask for, as far as they are known without asking anyone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from typing_extensions import TypedDict

from parachuted.api.http.decorators import get
from parachuted.api.http.route import AppRequestModel
from parachuted.times import Time


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """A model that runs may ask for.

    `is_latest`: of its family. Where the name says nothing, `family` is `other` and `created_at`
    1970.
    """

    id: str
    display_name: str
    created_at: Time
    family: str
    is_latest: bool


class ModelsResponse(TypedDict):
    """Models as far as they are known without asking anyone; `current` is the one that is set."""

    models: list[ModelResponse]
    current: str


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
_DATED = re.compile(
    r"claude-(?P<before>[\d-]*?)-?(?P<family>opus|sonnet|haiku)-?(?P<after>[\d-]*?)-(?P<date>\d{8})"
)
_UNKNOWN_DATE = "1970-01-01T00:00:00Z"


class ModelsQuery(AppRequestModel):
    """`show_all`: older models too."""

    show_all: str = ""


def model_of(name: str) -> ModelResponse:
    found = _DATED.fullmatch(name)
    try:
        created = None if found is None else date.fromisoformat(found["date"])
    except ValueError:
        created = None
    if found is None or created is None:
        family = next(
            (family for family in ("opus", "sonnet", "haiku") if family in name.lower()), "other"
        )
        return ModelResponse(
            id=name, display_name=name, created_at=_UNKNOWN_DATE, family=family, is_latest=False
        )
    version = (found["before"] or found["after"]).replace("-", ".")
    shown = f"Claude {found['family'].title()} {version}".strip()
    return ModelResponse(
        id=name,
        display_name=shown,
        created_at=f"{created}T00:00:00Z",
        family=found["family"],
        is_latest=False,
    )


def models_of(current: str, known: Iterable[str] = KNOWN) -> list[ModelResponse]:
    """The known models and the one that is set, the latest of each family marked; the newest
    first.
    """
    models = sorted(
        (model_of(name) for name in dict.fromkeys([current, *known])),
        key=lambda model: model.created_at,
        reverse=True,
    )
    latest = {
        family: next(model.id for model in models if model.family == family)
        for family in {model.family for model in models}
    }
    return [replace(model, is_latest=latest[model.family] == model.id) for model in models]


class ModelRoutes:
    def __init__(self, current: str) -> None:
        self._current = current

    @get("/api/models", "system", "read", reach="nothing")
    @get("/supervisor/models", "system", "read", reach="nothing")
    async def models(self, query: ModelsQuery) -> ModelsResponse:
        """List the models that runs may use.

        The latest of each family and the configured one, or all.
        """
        everything = query.show_all.lower() in {"true", "1"}
        current = self._current
        models = [
            model
            for model in models_of(current)
            if everything or model.is_latest or model.id == current
        ]
        return {"models": models, "current": current}
