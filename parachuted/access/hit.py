"""Hit: a note that a search found. Apart, so that a module's process loads no vault for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A note that a search found.

    `title` is plain; `snippet` is HTML with what was found between `<mark>` and `</mark>`.
    """

    path: str
    title: str
    snippet: str


Paths: TypeAlias = list[str]  # where `list` is a method
Hits: TypeAlias = list[Hit]
