"""Checks: what is wrong with entities and types, and what to do. Pure: nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from parachuted.modules import Finding

from . import type_file
from .entity import Entity
from .entity_index import EntityIndex
from .names import stem
from .type_file import EntityType, Types

_OWN: Final = ("aliases", "tags", "status", "description", "name")


def find_problems(
    index: EntityIndex, types: Types, faults: Mapping[str, Finding]
) -> Iterator[Finding]:
    """All that is wrong, file by file. `faults` are the files that could not be read whole."""
    for said in types.problems:
        yield _finding(said, type_file.PATH, "put it right in an editor")
    for _, fault in sorted(faults.items()):
        yield replace(fault, advice="put it right in an editor; until then its fields are not read")
    for copies in index.duplicates:
        first = copies[0]
        for other in copies[1:]:
            yield _finding(
                f"it has the para_id of {first.path}, {first.para_id}",
                other.path,
                "remove the copy, or its line para_id: if it is another thing",
            )
    for entity, other in find_twins(index):
        yield _finding(
            f"it may be the same as {other.path}: both are called {entity.name}"
            if other.name == entity.name
            else f"it may be the same as {other.path}: {entity.name} and {other.name}",
            entity.path,
            "merge them, or give one another name",
        )
    for entity in index.files:
        if entity.path not in faults:
            yield from _of_entity(entity, types.by_name.get(entity.type))


def _of_entity(entity: Entity, kind: EntityType | None) -> Iterator[Finding]:
    for said in entity.problems:
        yield _finding(said, entity.path, "put it right in an editor")
    if kind is None:
        yield _finding(
            f"its type {entity.type!r} is not in Brain/types.yaml"
            if entity.type
            else "it has no type",
            entity.path,
            "add a line type:, or the type to Brain/types.yaml",
        )
        return
    held = {**entity.fields, **{key: getattr(entity, key) for key in _OWN}}
    for field in kind.fields:
        if said := field.fault_of(held.get(field.name)):
            yield _finding(said, entity.path, f"change it, or the field's type in {type_file.PATH}")


def find_twins(index: EntityIndex) -> Iterator[tuple[Entity, Entity]]:
    """Two entities of one type that are called the same in two spellings, each with the first one
    of that name.
    """
    first: dict[tuple[str, str], Entity] = {}
    for entity in index:
        for name in {stem(one) for one in (entity.name, *entity.aliases)} - {""}:
            other = first.setdefault((entity.type, name), entity)
            if other is not entity:
                yield entity, other
                break


def _finding(problem: str, path: str, advice: str) -> Finding:
    return Finding(problem=problem, path=path, advice=advice)
