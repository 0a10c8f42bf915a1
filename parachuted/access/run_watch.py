"""Run watch: what the tools of a run report about their reads and writes, and ask before they
write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """What a run would have done to one file.

    `base` is the digest of the text it was decided on; `data` the whole new text, None: gone.
    """

    path: str
    action: Literal["create", "update", "delete"]
    base: str | None
    data: bytes | None


class RunWatch(Protocol):
    """One run of one agent, as the reader and the writer of its notes know it.

    All but `instead` and `beyond` are called in threads, at the moment at which the act is done,
    and must not wait.
    """

    @property
    def is_tainted(self) -> bool:
        """Whether it has read text of strangers."""
        ...

    def is_stranger(self, path: str, digest: str | None, data: bytes | None) -> bool:
        """Whether that text is one of a stranger's; without `digest` and `data`, as far as the path
        and what is known of it tell.
        """
        ...

    def has_read(self, path: str, digest: str | None, data: bytes | None) -> None:
        """The agent is about to be told that text, or its name: it marks the run where it is a
        stranger's.
        """
        ...

    def objection(self, path: str) -> str | None:
        """Why the run may not write that file now, though its grant names it; None: it may."""
        ...

    def instead(self, change: ProposedChange, why: str) -> Awaitable[str]:
        """What becomes of a change to which there was that objection, in words for the agent: it is
        put forward, or it is not.
        """
        ...

    def beyond(self, what: Literal["read", "write"], path: str) -> Awaitable[bool]:
        """Whether a person, asked now, allows it that file, which is beyond its grant and is no
        control file.
        """
        ...

    def writing(self, path: str) -> AbstractContextManager[Callable[[str | None], None]]:
        """Around its write of that file, which is of its origin from before the write on.

        What this answers is told the digest of the text that was written, or None where nothing
        was.
        """
        ...
