"""Models: those that runs may ask for, as far as they are known without asking anyone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import date

from aiohttp import web

from parachuted.api.http.answers import json_answer
from parachuted.api.http.fields import AppRequestModel
from parachuted.api.http.parts import ApiParts
from parachuted.api.http.route import ApiCall, Route
from parachuted.api.routes import polled_documents as told

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """One model.

    Of one whose name tells nothing, `family` is `other` and `created_at` the epoch. `is_latest`: of
    its family.
    """

    id: str
    display_name: str
    created_at: str
    family: str
    is_latest: bool = False


def model_of(name: str) -> ModelInfo:
    """What the name of a model says."""
    found = _DATED.fullmatch(name)
    try:
        created = None if found is None else date.fromisoformat(found["date"])
    except ValueError:
        created = None
    if found is None or created is None:
        family = next(
            (family for family in ("opus", "sonnet", "haiku") if family in name.lower()), "other"
        )
        return ModelInfo(id=name, display_name=name, created_at=_UNKNOWN_DATE, family=family)
    version = (found["before"] or found["after"]).replace("-", ".")
    shown = f"Claude {found['family'].title()} {version}".strip()
    return ModelInfo(
        id=name, display_name=shown, created_at=f"{created}T00:00:00Z", family=found["family"]
    )


def models_of(current: str, known: Iterable[str] = KNOWN) -> list[ModelInfo]:
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
    """Their routes; the app asks its supervisor, too."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts

    def routes(self) -> list[Route]:
        """Both."""
        return [
            Route(
                method="GET",
                path=path,
                module="system",
                capability="read",
                reach="nothing",
                handle=self.models,
                query=ModelsQuery,
                summary="The models that runs may ask for.",
                answers={200: told.ModelsResponse},
            )
            for path in ("/api/models", "/supervisor/models")
        ]

    async def models(self, call: ApiCall) -> web.Response:
        """`GET /api/models?show_all=`: the latest of each family and the one that is set, or
        all.
        """
        everything = call.query(ModelsQuery).show_all.lower() in {"true", "1"}
        current = self._parts.model
        models = [
            asdict(model)
            for model in models_of(current)
            if everything or model.is_latest or model.id == current
        ]
        return json_answer({"models": models, "current": current})
