"""Quoted paths: which notes the record of a run may quote.

Whoever may not read one of them is shown none of the run's words.
"""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 1000


class QuotedPaths:
    """Paths, as they are printed, whose text or name a run's agent was shown. It only grows.

    What cannot be listed (a prompt from elsewhere, more than 1000 paths) makes it `anything`.
    """

    def __init__(self, paths: Iterable[str] | None = ()) -> None:
        """`None`: anything."""
        self._paths: set[str] | None = None if paths is None else set()
        self.add(*(paths or ()))

    @classmethod
    def from_document(cls, value: object) -> QuotedPaths:
        """Loads what `document` made; anything else counts as anything."""
        return cls(
            value
            if isinstance(value, list) and all(isinstance(one, str) for one in value)
            else None
        )

    def add(self, *paths: str) -> None:
        if self._paths is not None:
            self._paths.update(paths)
            if len(self._paths) > _MOST:
                self._paths = None

    def add_all(self, other: QuotedPaths) -> None:
        if other.is_anything:
            self.add_anything()
        else:
            self.add(*(other.document() or ()))

    def add_anything(self) -> None:
        """The agent was shown what cannot be listed."""
        self._paths = None

    @property
    def is_anything(self) -> bool:
        """Whether no list would be complete."""
        return self._paths is None

    def document(self) -> list[str] | None:
        """The sorted list for the record; None: anything."""
        return None if self._paths is None else sorted(self._paths)
