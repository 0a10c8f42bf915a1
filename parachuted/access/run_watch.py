"""Run watch: what watches over an agent's run while its tools read and write notes."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, Protocol

from parachuted.access.strangers import Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """A change that a run may not make itself.

    `base` is the digest of the text it is based on; `data` the whole new text, None: removed.
    """

    path: str
    action: Literal["create", "update", "delete"]
    base: str | None
    data: bytes | None


class RunWatch(Protocol):
    """One run of one agent, for the reader and the writer of its notes.

    All but `instead` and `beyond` are called in threads, at the moment of the act, and must not
    block.
    """

    @property
    def taint(self) -> Taint: ...

    def objection(self, path: str) -> str | None:
        """Why the run may not write that file now, though its grant names it; None: it may."""
        ...

    def instead(self, change: ProposedChange, why: str) -> Awaitable[str]:
        """What happens to a change with that objection, in words for the agent."""
        ...

    def beyond(self, what: Literal["read", "write"], path: str) -> Awaitable[bool]:
        """Whether a person, asked now, allows a file outside its grant; no control file."""
        ...
