"""The index of entities by id, path, name and links, and what is wrong with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from parachuted.modules import Finding

from . import type_file
from .entity import Entity, stem_of
from .mentions import MentionIndex
from .type_file import EntityType, Types
from .words import fold_name, short_id, stem

FORMER_IDS: Final = "former_ids"
CERTAIN: Final = 0.8
_SAME_NAME, _SAME_ALIAS = 0.98, 0.95
_FOLDED_NAME, _FOLDED_ALIAS, _STEM = 0.93, 0.9, 0.85
_FUZZY, _CUTOFF, _SHORTEST_FUZZY = 0.8, 76.0, 3
_BY_CAPITALS: Final = frozenset({"person", "organization"})


_Table: TypeAlias = dict[str, tuple[str, ...]]  # paths by a key; sets of one would be much larger


@dataclass(frozen=True, slots=True)
class Match:
    entity: Entity
    confidence: float
    how: str


class EntityIndex:
    """All entities. Of several files with one id, one counts, and the others are `duplicates`.

    `mentions` has the names of those that count, by their keys.
    """

    def __init__(self) -> None:
        self.mentions = MentionIndex()
        self._files: dict[str, Entity] = {}
        self._counting: dict[str, Entity] = {}
        self._by_id: _Table = {}
        self._by_former_id: _Table = {}
        self._by_path: _Table = {}
        self._by_fold: _Table = {}
        self._by_stem: _Table = {}
        self._by_link: _Table = {}
        self._names: tuple[list[str], list[str]] | None = None

    def __len__(self) -> int:
        return len(self._counting)

    def __iter__(self) -> Iterator[Entity]:
        return iter(sorted(self._counting.values(), key=lambda entity: entity.path))

    @property
    def files(self) -> list[Entity]:
        return sorted(self._files.values(), key=lambda entity: entity.path)

    def at(self, path: str) -> Entity | None:
        return self._files.get(path)

    def put(self, entity: Entity) -> None:
        before = self._files.get(entity.path)
        if before is not None and before.para_id != entity.para_id:
            self.remove(entity.path)
        self._files[entity.path] = entity
        if not entity.para_id:
            self._count(entity)
            return
        self._settle(_add(self._by_id, short_id(entity.para_id), entity.path))

    def remove(self, path: str) -> None:
        entity = self._files.pop(path, None)
        if entity is None:
            return
        self._discount(path)
        if entity.para_id and (paths := _drop(self._by_id, short_id(entity.para_id), path)):
            self._settle(paths)

    def has_id(self, para_id: str) -> bool:
        short = short_id(para_id)
        return short in self._by_id or short in self._by_former_id

    @property
    def duplicates(self) -> list[list[Entity]]:
        return [
            [self._files[path] for path in sorted(paths, key=_rank)]
            for _, paths in sorted(self._by_id.items())
            if len(paths) > 1
        ]

    def find(self, spelling: str) -> Entity | None:
        """The entity with that id in any spelling, at that path, or of that file name."""
        short = short_id(spelling)
        if paths := self._by_id.get(short) or self._by_former_id.get(short):
            return self._counting[min(paths, key=_rank)]
        wanted = spelling.strip().removeprefix("/").removesuffix(".md").casefold()
        for key in (wanted, wanted.partition("-")[2]):
            found = sorted(self._by_path.get(key, ()), key=_rank)
            if found and (
                key == wanted or self._counting[found[0]].type == wanted.partition("-")[0]
            ):
                return self._counting[found[0]]
        return None

    def linked(self, target: str) -> Entity | None:
        """The entity that a link means: by path, file name, or a name that only one has."""
        entity = self.find(target.rpartition("/../")[2].removeprefix("../").removeprefix("./"))
        if entity is None:
            paths = self._by_fold.get(fold_name(target), ())
            entity = self._counting[paths[0]] if len(paths) == 1 else None
        return entity

    def linking(self, entity: Entity) -> list[Entity]:
        """Those with a link that may mean this one: `linked` says of each link whether it does."""
        keys = {_link_key(spelling) for spelling in _spellings(entity)}
        paths = {path for key in keys for path in self._by_link.get(key, ())}
        return [self._counting[path] for path in sorted(paths)]

    def resolve(self, text: str, kind: str | None = None, limit: int = 5) -> list[Match]:
        found: dict[str, Match] = {}

        def add(path: str, confidence: float, how: str) -> None:
            entity = self._counting[path]
            if kind in {None, "", entity.type} and path not in found:
                found[path] = Match(entity, confidence, how)

        text = text.strip()
        known = self.find(text) if text else None
        if known is not None and (known.para_id or "/" in text):
            is_id = self.has_id(text)
            if is_id or "/" in text:
                add(known.path, 1.0, "id" if is_id else "path")
        folded = fold_name(text)
        for path in sorted(self._by_fold.get(folded, ()), key=_rank):
            add(path, *_sameness(self._counting[path], text, folded))
        for path in sorted(self._by_stem.get(stem(text), ()), key=_rank):
            add(path, _STEM, "stem")
        if not found and len(folded) >= _SHORTEST_FUZZY:
            for path, score in self._near(folded, limit * 4):
                add(path, round(_FUZZY * score / 100, 3), "near")
        ordered = sorted(found.values(), key=lambda one: (-one.confidence, _rank(one.entity.path)))
        return ordered[:limit]

    def _near(self, folded: str, limit: int) -> list[tuple[str, float]]:
        from rapidfuzz import fuzz, process  # noqa: PLC0415  79 ms, and few texts need it

        if self._names is None:
            pairs = [(name, path) for name, paths in self._by_fold.items() for path in paths]
            self._names = [name for name, _ in pairs], [path for _, path in pairs]
        names, paths = self._names
        near = process.extract(folded, names, scorer=fuzz.WRatio, limit=limit, score_cutoff=_CUTOFF)
        return [(paths[place], score) for _, score, place in near]

    def _settle(self, paths: tuple[str, ...]) -> None:
        first = min(paths, key=_rank)
        for path in paths:
            if path != first:
                self._discount(path)
        self._count(self._files[first])

    def _count(self, entity: Entity) -> None:
        if self._counting.get(entity.path) is entity:
            return
        self._discount(entity.path, is_gone=False)
        self._counting[entity.path] = entity
        for table, keys in self._keys(entity):
            for key in keys:
                _add(table, key, entity.path)
        self._names = None
        self.mentions.put(
            entity.key,
            entity.names,
            entity.type,
            context=_context(entity),
            is_capitalised_only=entity.type in _BY_CAPITALS,
        )

    def _discount(self, path: str, *, is_gone: bool = True) -> None:
        entity = self._counting.pop(path, None)
        if entity is None:
            return
        for table, keys in self._keys(entity):
            for key in keys:
                _drop(table, key, path)
        self._names = None
        if is_gone:
            self.mentions.remove(entity.key)

    def _keys(self, entity: Entity) -> list[tuple[_Table, set[str]]]:
        bare, names = entity.path.removesuffix(".md").casefold(), entity.names
        return [
            (self._by_path, {bare, bare.rpartition("/")[2]}),
            (self._by_fold, {key for name in names if (key := fold_name(name))}),
            (self._by_stem, {key for name in names if (key := stem(name))}),
            (self._by_former_id, set(map(short_id, _former_ids(entity)))),
            (self._by_link, {_link_key(link.target) for link in entity.relationships}),
        ]


def _former_ids(entity: Entity) -> list[str]:
    former = entity.fields.get(FORMER_IDS, ())
    return [
        para_id
        for para_id in (former if isinstance(former, list | tuple) else [former])
        if isinstance(para_id, str)
    ]


def _spellings(entity: Entity) -> Iterator[str]:
    stem = stem_of(entity.path)
    yield from (*entity.names, stem, f"{entity.type}-{stem}")
    yield from (entity.para_id, *_former_ids(entity))


def _link_key(target: str) -> str:
    """What a link's target and the spellings of what it may mean have in common."""
    return fold_name(short_id(stem_of(target)))


def _context(entity: Entity) -> Iterator[str]:
    yield from entity.tags
    yield entity.description
    for link in entity.relationships:
        if link.text:
            yield link.target.rpartition("/")[2].replace("-", " ")


def _add(table: _Table, key: str, path: str) -> tuple[str, ...]:
    paths = table.get(key, ())
    if path not in paths:
        paths = table[key] = (*paths, path)
    return paths


def _drop(table: _Table, key: str, path: str) -> tuple[str, ...]:
    paths = tuple(one for one in table.get(key, ()) if one != path)
    if paths:
        table[key] = paths
    else:
        table.pop(key, None)
    return paths


def _rank(path: str) -> tuple[int, str]:
    """A copy has the longer name, as programs make them: `Kim (1).md`."""
    return len(path), path


def _sameness(entity: Entity, text: str, folded: str) -> tuple[float, str]:
    if text == entity.name:
        return _SAME_NAME, "name"
    if text in entity.aliases:
        return _SAME_ALIAS, "alias"
    return (_FOLDED_NAME if fold_name(entity.name) == folded else _FOLDED_ALIAS), "spelling"


def listed(entities: Iterable[Entity], kind: str | None, part: str = "") -> list[Entity]:
    wanted = fold_name(part)
    found = [
        entity
        for entity in entities
        if (not kind or entity.type == kind)
        and (not wanted or any(wanted in fold_name(name) for name in entity.names))
    ]
    return sorted(found, key=lambda one: (one.name.casefold(), one.path))


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
    """Two of one type that are called the same, each with the first of that name."""
    first: dict[tuple[str, str], Entity] = {}
    for entity in index:
        for name in {stem(alias) for alias in (entity.name, *entity.aliases)} - {""}:
            other = first.setdefault((entity.type, name), entity)
            if other is not entity:
                yield entity, other
                break


def _finding(problem: str, path: str, advice: str) -> Finding:
    return Finding(problem=problem, path=path, advice=advice)
