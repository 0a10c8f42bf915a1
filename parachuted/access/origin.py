"""Origin: where a text came from, and how reading it restricts a run.

The method is information-flow control with one label, as in Denning's lattice (1976): what a run
has read marks all that it does after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from parachuted.vault import printable

Origin: TypeAlias = Literal["you", "agent", "bot", "imported", "web"]
UNTRUSTED: frozenset[Origin] = frozenset({"bot", "imported", "web"})
_MOST_TOLD = 20


class Taint:
    """The untrusted texts that one run has read. It only grows, and ends with the run."""

    def __init__(self) -> None:
        self._sources: dict[str, Origin] = {}
        self._at_first: list[Callable[[], object]] = []

    def read(self, source: str, origin: Origin) -> None:
        """Record a text that the run has read: `source` is a vault path, or words such as `the
        prompt` or `an answer of example.org`.
        """
        if origin not in UNTRUSTED:
            return
        is_first = not self._sources
        self._sources.setdefault(source, origin)
        if is_first:
            for act in self._at_first:
                act()

    def at_first(self, act: Callable[[], object]) -> None:
        """Call the function before the run sees its first untrusted text, in the reading thread, so
        it must not block.
        """
        self._at_first.append(act)

    def __bool__(self) -> bool:
        return bool(self._sources)

    @property
    def sources(self) -> dict[str, Origin]:
        """What it read, in order."""
        return dict(self._sources)

    @property
    def origin(self) -> Origin:
        """The origin of what it writes from now on: an agent, or the first untrusted source that it
        read.
        """
        return next(iter(self._sources.values()), "agent")

    def why(self) -> str:
        """What it has read, in words for the agent and the person."""
        told = [
            f"{printable(source)} ({origin})"
            for source, origin in list(self._sources.items())[:_MOST_TOLD]
        ]
        return f"this run has read text of strangers: {', '.join(told)}"
