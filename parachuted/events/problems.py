"""Problems: what is wrong at the moment and a person should know, by subject."""

from __future__ import annotations

from collections.abc import Iterable

from parachuted.events.bus import Bus


class Problems:
    """The open problems. Each is told when it comes and when it goes, not while it stays."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._open: dict[str, str] = {}

    def set(self, subject: str, problem: str | None) -> None:
        """Say what is wrong with `subject`; None: nothing any more."""
        if self._open.get(subject) == problem:
            return
        if problem is None:
            del self._open[subject]
        else:
            self._open[subject] = problem
        self._bus.publish("vault.problem", subject=subject, problem=problem)

    def replace(self, group: str, found: dict[str, str]) -> None:
        """Say all that is wrong in a group; what is not named there is no problem any more."""
        for subject in [
            subject
            for subject in self._open
            if subject.startswith(group) and subject.removeprefix(group) not in found
        ]:
            self.set(subject, None)
        self.add(group, found.items())

    def add(self, group: str, found: Iterable[tuple[str, str]]) -> None:
        """Say more that is wrong in a group."""
        for subject, problem in found:
            self.set(group + subject, problem)

    def all(self) -> dict[str, str]:
        """Every open problem."""
        return dict(self._open)
