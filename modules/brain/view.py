"""View: entities, types, and all that is derived from them; every query starts from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from parachuted.modules import Finding

from .entity_index import EntityIndex
from .graph import Graph
from .recall_index import RecallIndex
from .type_file import DEFAULTS, Types


@dataclass(slots=True)
class View:
    """`faults` are the files of entities that could not be read whole, by path."""

    recall: RecallIndex
    types: Types = DEFAULTS
    faults: dict[str, Finding] = field(default_factory=dict)
    index: EntityIndex = field(default_factory=EntityIndex)

    @property
    def graph(self) -> Graph:
        return Graph(self.index)
