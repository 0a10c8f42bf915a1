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
    """A change of one file that a run may not make itself.

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
    def is_tainted(self) -> bool: ...

    def is_stranger(self, path: str, digest: str | None, data: bytes | None) -> bool:
        """Whether that text is untrusted; without `digest` and `data`, as far as the path and its
        record tell.
        """
        ...

    def has_read(self, path: str, digest: str | None, data: bytes | None) -> None:
        """The agent is about to see that text, or its name, which taints the run where it is
        untrusted.
        """
        ...

    def objection(self, path: str) -> str | None:
        """Why the run may not write that file now, though its grant names it; None: it may."""
        ...

    def instead(self, change: ProposedChange, why: str) -> Awaitable[str]:
        """What happens to a change with that objection, in words for the agent: it is suggested, or
        dropped.
        """
        ...

    def beyond(self, what: Literal["read", "write"], path: str) -> Awaitable[bool]:
        """Whether a person, asked now, allows that file, which is outside its grant and not a
        control file.
        """
        ...

    def writing(self, path: str) -> AbstractContextManager[Callable[[str | None], None]]:
        """Wraps its write of that file, whose origin is recorded from before the write on.

        Call the result with the digest of the text that was written, or None where nothing was.
        """
        ...
