"""View: entities, types, and all that is derived from them; every query starts from it.

The graph and the index of mentions follow the entities' files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from parachuted.modules import Finding

from .entity import Entity, Relationship, stem_of
from .entity_index import EntityIndex
from .graph import Edge, Graph, Node
from .mentions import MentionIndex
from .names import fold
from .recall_index import RecallIndex
from .type_file import DEFAULTS, Types

_BY_CAPITALS = frozenset({"person", "organization"})


class MentionFollower:
    """Keeps an index of mentions by the entities' keys."""

    def __init__(self, mentions: MentionIndex) -> None:
        self._mentions = mentions
        self._keys: dict[str, str] = {}

    def put(self, entity: Entity) -> None:
        if self._keys.get(entity.path, entity.key) != entity.key:
            self.remove(entity.path)
        self._keys[entity.path] = entity.key
        self._mentions.put(
            entity.key,
            entity.names,
            entity.type,
            context=_context(entity),
            is_capitalised_only=entity.type in _BY_CAPITALS,
        )

    def remove(self, path: str) -> None:
        key = self._keys.pop(path, None)
        if key is not None:
            self._mentions.remove(key)


def _context(entity: Entity) -> Iterator[str]:
    yield from entity.tags
    yield entity.description
    for one in entity.relationships:
        if one.text:
            yield one.target.rpartition("/")[2].replace("-", " ")


class GraphFollower:
    """Keeps the graph; an entity's node is its path.

    A link names its target in one of several ways, so it may lead elsewhere when another entity
    comes, goes or is renamed: those that link to such a name are drawn again.
    """

    def __init__(self, graph: Graph, linked: Callable[[str], Entity | None]) -> None:
        self._graph, self._linked = graph, linked
        self._entities: dict[str, Entity] = {}
        self._linking: dict[str, tuple[str, ...]] = {}
        self._is_loading = False

    def begin_load(self) -> None:
        """Draw nothing until `end_load`: every entity is about to be put."""
        self._is_loading = True

    def end_load(self) -> None:
        self._is_loading = False
        for entity in self._entities.values():
            self._draw(entity)

    def put(self, entity: Entity) -> None:
        before = self._entities.get(entity.path)
        self._forget(entity.path)
        self._entities[entity.path] = entity
        for one in entity.relationships:
            key = _key(one.target)
            paths = self._linking.get(key, ())
            if entity.path not in paths:
                self._linking[key] = (*paths, entity.path)
        if not self._is_loading:
            self._draw(entity)
            self._draw_linking(_names(entity) ^ (_names(before) if before else set()))

    def remove(self, path: str) -> None:
        entity = self._entities.get(path)
        if entity is None:
            return
        self._forget(path)
        self._graph.remove(path)
        if not self._is_loading:
            self._draw_linking(_names(entity))

    def _forget(self, path: str) -> None:
        entity = self._entities.pop(path, None)
        for one in entity.relationships if entity else ():
            key = _key(one.target)
            paths = tuple(other for other in self._linking.get(key, ()) if other != path)
            if paths:
                self._linking[key] = paths
            else:
                self._linking.pop(key, None)

    def _draw_linking(self, names: set[str]) -> None:
        paths = {path for name in names for path in self._linking.get(name, ())}
        for path in paths:
            self._draw(self._entities[path])

    def _draw(self, entity: Entity) -> None:
        node = Node(entity.path, entity.type, entity.name, entity.path)
        found = [(one, self._linked(one.target)) for one in entity.relationships]
        self._graph.put(
            node,
            [_edge(entity, one, to) for one, to in found if to and to.path != entity.path],
        )


def _edge(entity: Entity, one: Relationship, to: Entity) -> Edge:
    return Edge(entity.path, to.path, one.label, one.period.since, one.period.until)


def _key(target: str) -> str:
    """What a link's target and the names of what it may mean have in common."""
    return fold(stem_of(target))


def _names(entity: Entity) -> set[str]:
    stem = stem_of(entity.path)
    return {fold(name) for name in (*entity.names, stem, entity.para_id, f"{entity.type}-{stem}")}


class View:
    """`faults` are the files of entities that could not be read whole, by path. `notes` are the
    paths of the other notes that questions find.
    """

    def __init__(self, recall: RecallIndex) -> None:
        self.recall = recall
        self.types: Types = DEFAULTS
        self.faults: dict[str, Finding] = {}
        self.notes: set[str] = set()
        self.mentions, self.graph = MentionIndex(), Graph()
        self.index = EntityIndex()
        self.drawing = GraphFollower(self.graph, self.index.linked)
        self.index.follow(MentionFollower(self.mentions))
        self.index.follow(self.drawing)
