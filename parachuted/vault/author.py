"""Author: who makes a write, and on whose behalf."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

SourceType: TypeAlias = Literal[
    "flutter_app", "api_key", "agent", "module", "hook", "local", "person", "daemon"
]


class Requester(NamedTuple):
    """`source_*` is what the audit names; `limited_key` "": the API key may read and write all."""

    source_type: SourceType
    source_id: str
    request_id: str = ""
    limited_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """`key` limits what follows from the write; `requester` is for the audit alone."""

    by: str
    run: str | None = None
    causes: tuple[str, ...] = ()
    key: str = ""
    requester: Requester | None = field(default=None, compare=False)

    @property
    def is_module(self) -> bool:
        return self.by.startswith("module:") and "/" not in self.by
