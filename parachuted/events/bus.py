"""Bus: delivers each event to every subscriber in order, without waiting for any of them."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

from parachuted.access.events import EventFilter
from parachuted.events.catalog import CATALOG, FACTS, EventKind

log = logging.getLogger(__name__)

_Published = TypeVar("_Published", "Event", "Sequence[Event]")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}(\.[a-z][a-z0-9_-]{0,63}){1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`id` counts up from 1 at each start of the daemon."""

    id: int
    kind: EventKind
    timestamp: datetime
    data: Mapping[str, object]

    @property
    def event(self) -> str:
        return self.kind.name

    def visible_to(self, listener: EventFilter) -> Event | None:
        """The event as far as that listener may see it; None where it may not."""
        found = listener.visible(self.kind, self.data)
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
        self._listeners: list[Callable[[Sequence[Event]], None]] = []
        self._untold: deque[Sequence[Event]] = deque()
        self._is_telling = False
        self._declared: dict[str, EventKind] = {}

    @property
    def last_id(self) -> int:
        return self._count

    def publish(self, event: str, /, **data: object) -> Event:
        """What a listener publishes comes after it. KeyError: it is not declared as a fact."""
        return self.publish_all([(event, data)])[0]

    def publish_all(self, facts: Iterable[tuple[str, Mapping[str, object]]]) -> Sequence[Event]:
        """Events found at one moment, in their order. After a KeyError none is delivered."""
        now, first = self._clock(), self._count + 1
        events = [
            Event(id=number, kind=FACTS.get(name) or self._declared[name], timestamp=now, data=data)
            for number, (name, data) in enumerate(facts, first)
        ]
        if events:
            self._count += len(events)
            self._last += events
            self._untold.append(events)
            if not self._is_telling:
                self._tell_all()
        return events

    def declare(self, kind: EventKind) -> None:
        """Accept a module's events of that name until `withdraw`. ValueError."""
        if not _NAME.fullmatch(kind.name):
            raise ValueError(
                f"{kind.name[:80]!r} is not an event name; write <module>.<what>, in small letters"
            )
        if kind.name in CATALOG or kind.blocks:
            raise ValueError(
                f"{kind.name} cannot be declared by a module: it is in the catalogue, or asks "
                "before something happens"
            )
        if kind.publisher != kind.name.partition(".")[0]:
            raise ValueError(
                f"{kind.name} begins with another name than that of its publisher, {kind.publisher}"
            )
        self._declared[kind.name] = kind

    def withdraw(self, name: str) -> None:
        self._declared.pop(name, None)

    @property
    def declared(self) -> Mapping[str, EventKind]:
        return MappingProxyType(self._declared)

    def subscribe(self, listener: Callable[[Event], None], *names: str) -> Callable[[], None]:
        """Call `listener` for each event, or those of these names; call the result to stop."""
        is_over = False

        def hear(events: Sequence[Event]) -> None:
            for event in events:
                if not is_over and (not names or event.event in names):
                    _tell(listener, event)

        unsubscribe = self.subscribe_to_batches(hear)

        def end() -> None:
            nonlocal is_over
            is_over = True
            unsubscribe()

        return end

    def subscribe_to_batches(
        self, listener: Callable[[Sequence[Event]], None]
    ) -> Callable[[], None]:
        """The same with all events that were published at once."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def _tell_all(self) -> None:
        self._is_telling = True
        try:
            while self._untold:
                events = self._untold.popleft()
                for listener in tuple(self._listeners):
                    _tell(listener, events)
        finally:
            self._is_telling = False

    def since(self, event_id: int) -> Iterator[Event]:
        return (event for event in tuple(self._last) if event.id > event_id)

    def remembers(self, event_id: int) -> bool:
        return event_id <= self._count and (
            event_id == self._count or (bool(self._last) and self._last[0].id <= event_id + 1)
        )


def _tell(listener: Callable[[_Published], None], published: _Published) -> None:
    try:
        listener(published)
    except Exception:
        event = published if isinstance(published, Event) else published[0]
        log.exception("a listener failed", extra={"event": event.event})


class Problems:
    """Each is reported when it appears and when it is resolved."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._open: dict[str, str] = {}  # by subject
        self.any_open = False

    @property
    def open(self) -> dict[str, str]:
        return dict(self._open)

    def set(self, subject: str, problem: str | None) -> None:
        """None: it is resolved."""
        if self._open.get(subject) == problem:
            return
        if problem is None:
            del self._open[subject]
        else:
            self._open[subject] = problem
        self.any_open = bool(self._open)
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
        for subject, problem in found:
            self.set(group + subject, problem)
