"""Store: what an entity is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

FOLDER = "Brain/entities"


@dataclass(frozen=True)
class Entity:
    """A person or a project."""

    para_id: str
    name: str
    path: str


def entity_at(path: str) -> Entity:
    """The entity whose note that is."""
    name = path.rpartition("/")[2].removesuffix(".md")
    return Entity(
        para_id=f"para:brain:{hashlib.sha256(name.encode()).hexdigest()[:12]}", name=name, path=path
    )
