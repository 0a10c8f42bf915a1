"""Bus: delivers each event to every subscriber in order, without waiting for any of them."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType

from parachuted.access.events import EventFilter, EventValues
from parachuted.events.catalog import CATALOG, FACTS, EventKind

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}(\.[a-z][a-z0-9_-]{0,63}){1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event that has happened; `id` counts up from 1 at each start of the daemon."""

    id: int
    kind: EventKind
    timestamp: datetime
    data: Mapping[str, object]
    values: EventValues = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", EventValues(self.kind, self.data))

    @property
    def event(self) -> str:
        return self.kind.name

    def heard_by(self, listener: EventFilter) -> Event | None:
        """The event as far as that listener may see it, unchanged where nothing is left out; None
        where it may not.
        """
        found = listener.heard(self.kind, self.data, self.values)
        if found is None:
            return None
        name, data = found
        if data is self.data and name == self.kind.name:
            return self
        return replace(self, kind=self.kind if name == self.kind.name else CATALOG[name], data=data)


class Bus:
    """Publishes events and remembers the latest; for one thread."""

    def __init__(self, clock: Callable[[], datetime], *, remembered: int = 1000) -> None:
        self._clock = clock
        self._count = 0
        self._last: deque[Event] = deque(maxlen=remembered)
        self._listeners: list[Callable[[Event], None]] = []
        self._untold: deque[Event] = deque()
        self._is_telling = False
        self._declared: dict[str, EventKind] = {}

    @property
    def last_id(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self._count

    def publish(self, event: str, /, **data: object) -> Event:
        """Deliver the event; what a listener publishes is delivered after the current event.

        KeyError when neither the catalogue nor a module declares it as a fact.
        """
        kind = FACTS.get(event) or self._declared[event]
        self._count += 1
        happened = Event(id=self._count, kind=kind, timestamp=self._clock(), data=data)
        self._last.append(happened)
        self._untold.append(happened)
        if not self._is_telling:
            self._tell_all()
        return happened

    def declare(self, kind: EventKind) -> None:
        """Accept a module's events of that name until `withdraw`.

        ValueError for an invalid name, or one of the catalogue's.
        """
        if not _NAME.fullmatch(kind.name):
            raise ValueError(
                f"{kind.name[:80]!r} is no name for an event; write <module>.<what>, in small "
                "letters"
            )
        if kind.name in CATALOG or kind.blocks:
            raise ValueError(
                f"{kind.name} is not a module's to declare: it is the catalogue's, or tells of "
                "what has not happened"
            )
        if kind.publisher != kind.name.partition(".")[0]:
            raise ValueError(
                f"{kind.name} begins with another name than that of its publisher, {kind.publisher}"
            )
        self._declared[kind.name] = kind

    def withdraw(self, name: str) -> None:
        """Accept no more events of that name, if a module declared it."""
        self._declared.pop(name, None)

    @property
    def declared(self) -> Mapping[str, EventKind]:
        """The declarations of modules, by name."""
        return MappingProxyType(self._declared)

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` for each event from now on; call the result to stop."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def _tell_all(self) -> None:
        self._is_telling = True
        try:
            while self._untold:
                happened = self._untold.popleft()
                for listener in tuple(self._listeners):
                    _tell(listener, happened)
        finally:
            self._is_telling = False

    def since(self, event_id: int) -> Iterator[Event]:
        """The remembered events after that number."""
        return (event for event in tuple(self._last) if event.id > event_id)

    def remembers(self, event_id: int) -> bool:
        """Whether every event after that number is still remembered."""
        return event_id <= self._count and (
            event_id == self._count or (bool(self._last) and self._last[0].id <= event_id + 1)
        )


def _tell(listener: Callable[[Event], None], happened: Event) -> None:
    try:
        listener(happened)
    except Exception:
        log.exception("a listener failed", extra={"event": happened.event})
