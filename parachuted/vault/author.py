"""Author: who makes a write, and on whose behalf."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

SourceType: TypeAlias = Literal[
    "flutter_app", "api_key", "agent", "module", "hook", "local", "person", "daemon"
]


class Requester(NamedTuple):
    """Who asked for it: the source that the audit names, the request's id ("": no request), and the
    id of the API key if that may not read and write everything ("": it may).
    """

    source_type: SourceType
    source_id: str
    request_id: str = ""
    limited_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who makes a write.

    `key` is the id of the API key that asked for it, if that may not read and write everything:
    what follows from the write reaches no further.

    `requester` is for the audit alone: it is not kept in the history, and two authors that differ
    only there are the same. None: the daemon itself, or the person or agent that `by` names.
    """

    by: str
    run: str | None = None
    causes: tuple[str, ...] = ()
    key: str = ""
    requester: Requester | None = field(default=None, compare=False)

    @property
    def is_module(self) -> bool:
        """Whether a module made it, without an agent."""
        return self.by.startswith("module:") and "/" not in self.by
