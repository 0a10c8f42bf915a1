"""Publishing: what modules say on the bus, under their own names alone, and not in circles."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from parachuted.access.authority import Authority
from parachuted.errors import ActRefusedError
from parachuted.events import CATALOG, CORE, Bus, EventKind
from parachuted.modules.results import to_json

DEEPEST = 16
MOST_NAMES = 100
MOST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What is known of a module's event beside its data: how many handlers of modules led to it, and on whose behalf it was told."""

    depth: int = 0
    authority: Authority | None = None


class Publishing:
    """Tells what modules publish. What a module says while it handles an event follows from that event, and is one step deeper."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._names: dict[str, set[str]] = {}
        self._handling: dict[str, Counter[int]] = {}
        self._told: dict[int, Published] = {}

    def publish(self, module: str, event: str, data: Mapping[str, object], authority: Authority | None = None) -> None:
        """Tell the event. Raises ActRefusedError for another's name, for too much, and for what goes round in a circle."""
        first = event.partition(".")[0]
        if first != module or first in CORE or (event in CATALOG and CATALOG[event].blocks):
            raise ActRefusedError(f"the module {module} may publish events whose name begins with {module}. and not {event[:80]}")
        plain = to_json(data)
        if not isinstance(plain, dict) or len(json.dumps(plain)) > MOST_BYTES:
            raise ActRefusedError(f"{event[:80]} carries more than {MOST_BYTES} bytes; publish the path of a note instead")
        depth = max(self._handling.get(module, Counter()), default=0)
        if depth > DEEPEST:
            raise ActRefusedError(f"{event[:80]} follows from {DEEPEST} events of modules in a row; it seems to go round in a circle")
        self._declare(module, event, plain)
        self._told[self._bus.last_id + 1] = Published(depth=depth, authority=authority)
        self._bus.publish(event, **plain)

    def told(self, event_id: int) -> Published:
        """What led to that event. Asked once, when it is told."""
        return self._told.pop(event_id, Published())

    @contextlib.contextmanager
    def handling(self, module: str, depth: int) -> Iterator[None]:
        """While the module handles an event of that depth."""
        depths = self._handling.setdefault(module, Counter())
        depths[depth + 1] += 1
        try:
            yield
        finally:
            depths[depth + 1] -= 1
            self._handling[module] = +depths

    def withdraw(self, module: str) -> None:
        """The module is gone, and with it the names that only it had."""
        for name in self._names.pop(module, ()):
            self._bus.withdraw(name)

    def _declare(self, module: str, event: str, data: Mapping[str, object]) -> None:
        names = self._names.setdefault(module, set())
        if event in CATALOG or event in names:
            return
        if len(names) >= MOST_NAMES:
            raise ActRefusedError(f"the module {module} has published {MOST_NAMES} kinds of event; the name is for the kind of an event")
        try:
            self._bus.declare(EventKind(name=event, tells=f"The module {module} says so.", fields=tuple(data)))
        except ValueError as error:
            raise ActRefusedError(str(error)) from error
        names.add(event)
