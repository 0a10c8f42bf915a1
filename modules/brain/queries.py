"""Queries: searches that a person keeps, in `Brain/queries.json`."""

from __future__ import annotations

import json
import re
from typing import Final

from pydantic import BaseModel

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import Finding, read_each, reading

PATH: Final = "Brain/queries.json"


class Filter(BaseModel):
    """A condition on a field."""

    field_name: str
    operator: str
    value: str | int | float | bool | list[str] | None = None


class SavedQuery(BaseModel):
    """A search that was kept."""

    id: str = ""
    name: str
    entity_type: str
    filters: list[Filter] = []


def read_queries(text: str) -> tuple[list[SavedQuery], list[Finding]]:
    findings, held = list[Finding](), list[object]()
    with reading(PATH, findings):
        held = _list(json.loads(text)) if text.strip("\ufeff \r\n") else []
    queries, odd = read_each(((PATH, one) for one in held), SavedQuery.model_validate)
    return queries, findings + odd


def _list(document: object) -> list[object]:
    found = document.get("queries") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise EditRefusedError("it is not an object with a list `queries`")
    return found


def _whole(text: str) -> list[SavedQuery]:
    """Raises EditRefusedError where the file is damaged: it is then not written."""
    queries, findings = read_queries(text)
    if findings:
        raise EditRefusedError(f"{PATH} cannot be read; put it right first: {findings[0].problem}")
    return queries


def with_query(text: str, new: SavedQuery) -> tuple[str, str]:
    queries = _whole(text)
    taken = {query.id for query in queries}
    if not new.id:
        stem = re.sub(r"[^a-z0-9]+", "-", new.name.lower()).strip("-")[:60] or "query"
        number = 1
        while (found := stem if number == 1 else f"{stem}-{number}") in taken:
            number += 1
        new = new.model_copy(update={"id": found})
    others = [new if query.id == new.id else query for query in queries]
    return _written(others if new.id in taken else [*others, new]), new.id


def without_query(text: str, query_id: str) -> str:
    queries = _whole(text)
    others = [query for query in queries if query.id != query_id]
    if len(others) == len(queries):
        raise NotFoundError(f"There is no query {query_id[:80]}.")
    return _written(others)


def _written(queries: list[SavedQuery]) -> str:
    held = [query.model_dump(mode="json") for query in queries]
    return json.dumps({"queries": held}, ensure_ascii=False, indent=2) + "\n"
