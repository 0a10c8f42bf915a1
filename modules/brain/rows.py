"""Rows: entities as JSON, in the shapes that apps, agents and other modules read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final, cast

from typing_extensions import TypedDict

from .compose import without_title
from .entity import Entity, Json
from .graph import Edge
from .recall import Recalled
from .type_file import EntityType, TypeField

_SNIPPET: Final = 200


class EntityRow(TypedDict):
    """An entity in a list. `para_id` is its path where its file has no id."""

    para_id: str
    type: str
    name: str
    path: str
    aliases: list[str]
    tags: list[str]
    snippet: str


class Candidate(EntityRow):
    confidence: float
    how: str


class Resolved(TypedDict):
    """What a text means. `match` is None where nothing fits, or several fit as well."""

    match: EntityRow | None
    confidence: float
    candidates: list[Candidate]


class Upserted(TypedDict):
    """An entity that was written; `run` made a new one, and nothing else."""

    entity_id: str
    path: str
    created: bool
    run: str | None


class Merged(TypedDict):
    """Two entities that are one now: the run to undo, and the other notes that link to it."""

    entity_id: str
    path: str
    merged_id: str
    run: str
    notes: list[str]


class TwinRow(TypedDict):
    """Two entities of one type that are called the same in some spelling."""

    entity: EntityRow
    other: EntityRow


class TwinsFound(TypedDict):
    """Entities that may be one, in pairs."""

    twins: list[TwinRow]
    count: int


class MentionRow(TypedDict):
    """A place in a text that names an entity, by characters, and how surely."""

    para_id: str
    name: str
    type: str
    start: int
    end: int
    text: str
    confidence: float


class RelatedRow(EntityRow):
    """An entity that is related to another: so many steps away, by a link that leads `out` or
    `in`.
    """

    depth: int
    direction: str
    label: str
    since: str | None
    until: str | None


class RecalledRow(TypedDict):
    """A passage that answers a question. `score` is 0 to 1, comparable within one answer. Of a note
    that is not an entity `para_id` is the path, and `type` is "".
    """

    para_id: str
    type: str
    title: str
    path: str
    text: str
    score: float
    is_match: bool


class Recollection(TypedDict):
    """What answers a question, the best first; `matches` of them hold a word of it, and the others
    are only the nearest.
    """

    query: str
    results: list[RecalledRow]
    count: int
    matches: int


class ContextPart(TypedDict):
    """One part of a context: `kind` is entity, related, instructions or mentions."""

    kind: str
    path: str
    tokens: int
    truncated: bool


class Context(TypedDict):
    """What an agent is given to read about an entity. Tokens are estimated."""

    entity: EntityRow
    text: str
    parts: list[ContextPart]
    tokens: int
    truncated: bool


class Linked(TypedDict):
    """A link to an entity, and whether it was made now."""

    path: str
    para_id: str
    linked: bool


class FactRow(TypedDict):
    """A line of an entity's file, and from which day until which it holds."""

    text: str
    section: str
    since: str | None
    until: str | None
    line: int


class FieldShown(TypedDict, total=False):
    """A field of a type."""

    name: str
    type: str
    required: bool
    values: list[str]
    link_type: str
    items: str
    description: str


class TypeShown(TypedDict):
    """A type and how many entities have it."""

    name: str
    description: str | None
    key_strategy: str | None
    entity_count: int
    icon: str
    folder: str
    fields: list[FieldShown]


def row(entity: Entity, snippet: str = "") -> EntityRow:
    return EntityRow(
        para_id=entity.key,
        type=entity.type,
        name=entity.name,
        path=entity.path,
        aliases=list(entity.aliases),
        tags=list(entity.tags),
        snippet=snippet or snippet_of(entity),
    )


def related_row(entity: Entity, depth: int, edge: Edge, *, is_out: bool) -> RelatedRow:
    return RelatedRow(
        **row(entity),
        depth=depth,
        direction="out" if is_out else "in",
        label=edge.label,
        since=edge.period.since,
        until=edge.period.until,
    )


def note_row(path: str, title: str | None) -> RelatedRow:
    return RelatedRow(
        para_id=path,
        type="",
        name=title or path,
        path=path,
        aliases=[],
        tags=[],
        snippet="",
        depth=1,
        direction="in",
        label="",
        since=None,
        until=None,
    )


def recalled_row(entity: Entity | None, recalled_passage: Recalled) -> RecalledRow:
    return RecalledRow(
        para_id=entity.key if entity else recalled_passage.path,
        type=entity.type if entity else "",
        title=entity.name if entity else recalled_passage.title,
        path=recalled_passage.path,
        text=recalled_passage.text,
        score=recalled_passage.score,
        is_match=recalled_passage.is_match,
    )


def snippet_of(entity: Entity) -> str:
    text = entity.description or without_title(entity.body, entity.name)
    return " ".join(text.split())[:_SNIPPET]


def flat(entity: Entity, kind: EntityType | None) -> dict[str, Json]:
    kinds = {field.name: field for field in kind.fields} if kind else {}
    found: dict[str, Json] = {
        key: _typed(value, kinds.get(key)) for key, value in entity.fields.items()
    }
    if entity.status:
        found["status"] = entity.status
    if entity.description:
        found["description"] = entity.description
    return found | {
        "@id": entity.key,
        "@type": entity.type,
        "name": entity.name,
        "path": entity.path,
        "aliases": list(entity.aliases),
        "tags": list(entity.tags),
        "relationships": [
            {
                "target": link.target,
                "label": link.label,
                **{name: day for name, day in asdict(link.period).items() if day},
            }
            for link in entity.relationships
            if link.text
        ],
        "body": without_title(entity.body, entity.name).strip(),
    }


def type_shown(kind: EntityType, count: int) -> TypeShown:
    return TypeShown(
        name=kind.name,
        description=kind.description,
        key_strategy=kind.key_strategy,
        entity_count=count,
        icon=kind.icon,
        folder=kind.folder,
        fields=[_field(field) for field in kind.fields],
    )


def _field(field: TypeField) -> FieldShown:
    said = {name: value for name, value in asdict(field).items() if value not in (None, ())}
    return cast("FieldShown", said)


def _typed(value: Json, field: TypeField | None) -> Json:
    """The value as the type's field says; a text that is none stays one."""
    if not isinstance(value, str) or field is None:
        return dict(value) if isinstance(value, Mapping) else value
    try:
        if field.type in {"integer", "int"}:
            return int(value)
        if field.type in {"number", "float"} and math.isfinite(number := float(value)):
            return number
    except ValueError:
        return value
    if field.type in {"boolean", "bool"} and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    return value
