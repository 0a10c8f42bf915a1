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
    """What one run has read of strangers' texts. It only grows, and ends with the run."""

    def __init__(self) -> None:
        self._sources: dict[str, Origin] = {}
        self._at_first: list[Callable[[], object]] = []

    def read(self, source: str, origin: Origin) -> None:
        """The run has seen a text: `source` is a vault path, or words such as `the prompt` or `an
        answer of example.org`.
        """
        if origin not in UNTRUSTED:
            return
        is_first = not self._sources
        self._sources.setdefault(source, origin)
        if is_first:
            for act in self._at_first:
                act()

    def at_first(self, act: Callable[[], object]) -> None:
        """Have that done when the first of them is read, before its words are told; in the thread
        that reads, so it must not wait.
        """
        self._at_first.append(act)

    def __bool__(self) -> bool:
        return bool(self._sources)

    @property
    def sources(self) -> dict[str, Origin]:
        """What it read, in the order in which it did."""
        return dict(self._sources)

    @property
    def origin(self) -> Origin:
        """What its own words count as from now on: those of an agent, or of the first stranger that
        it read.
        """
        return next(iter(self._sources.values()), "agent")

    def why(self) -> str:
        """For the agent and the person: what it has read."""
        told = [
            f"{printable(source)} ({origin})"
            for source, origin in list(self._sources.items())[:_MOST_TOLD]
        ]
        return f"this run has read text of strangers: {', '.join(told)}"
