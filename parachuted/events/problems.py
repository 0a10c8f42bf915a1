"""Problems: what is wrong at the moment and a person should know, by subject."""

from __future__ import annotations

from collections.abc import Iterable

from parachuted.events.bus import Bus


class Problems:
    """The open problems. Each is reported when it appears and when it is resolved."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._open: dict[str, str] = {}

    def set(self, subject: str, problem: str | None) -> None:
        """Set the problem of `subject`; None: it is resolved."""
        if self._open.get(subject) == problem:
            return
        if problem is None:
            del self._open[subject]
        else:
            self._open[subject] = problem
        self._bus.publish("vault.problem", subject=subject, problem=problem)

    def replace(self, group: str, found: dict[str, str]) -> None:
        """Set all problems of a group; those not named are resolved."""
        for subject in [
            subject
            for subject in self._open
            if subject.startswith(group) and subject.removeprefix(group) not in found
        ]:
            self.set(subject, None)
        self.add(group, found.items())

    def add(self, group: str, found: Iterable[tuple[str, str]]) -> None:
        """Add problems to a group."""
        for subject, problem in found:
            self.set(group + subject, problem)

    def all(self) -> dict[str, str]:
        return dict(self._open)
