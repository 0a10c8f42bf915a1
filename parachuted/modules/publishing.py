"""Publishing: what modules say on the bus, under their own names alone, and not in circles."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from parachuted.access.authority import Authority
from parachuted.access.fields import HOLDS, FieldKind, fits
from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.events import CATALOG, CORE, FACTS, Bus, EventKind
from parachuted.modules.manifest import Manifest
from parachuted.modules.results import to_json

DEEPEST = 16
MOST_BYTES = 256 * 1024
_CAUSES = "causes"
_KINDS = f"the kinds are {', '.join(FieldKind)}"


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

    def declare(self, manifest: Manifest) -> None:
        """Carry the events that the module's manifest says it publishes, until it is withdrawn. Raises ModuleFailedError."""
        module = manifest.name
        for name, fields in manifest.publishes.items():
            kind = EventKind(
                name=name, tells=f"The module {module} says so.", fields={**fields, _CAUSES: FieldKind.IDS}, publisher=module
            )  # fmt: skip
            try:
                self._bus.declare(kind)
            except ValueError as error:
                raise ModuleFailedError(str(error)) from error
            self._names.setdefault(module, set()).add(name)

    def publish(self, module: str, event: str, data: Mapping[str, object], authority: Authority | None = None) -> None:
        """Tell the event. Raises ActRefusedError for another's name, for what was not declared, for too much, and for a circle."""
        first = event.partition(".")[0]
        if first != module or first in CORE:
            raise ActRefusedError(f"the module {module} may publish events whose name begins with {module}. and not {event[:80]}")
        plain = to_json(data)
        if not isinstance(plain, dict) or len(json.dumps(plain)) > MOST_BYTES:
            raise ActRefusedError(f"{event[:80]} carries more than {MOST_BYTES} bytes; publish the path of a note instead")
        _refuse_undeclared(FACTS.get(event) or self._bus.declared.get(event), event, plain)
        depth = max(self._handling.get(module, Counter()), default=0)
        if depth > DEEPEST:
            raise ActRefusedError(f"{event[:80]} follows from {DEEPEST} events of modules in a row; it seems to go round in a circle")
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


def _refuse_undeclared(kind: EventKind | None, event: str, data: Mapping[str, object]) -> None:
    """Raises ActRefusedError, with the line to write, for an event or a field that is not declared, or a value that is not of its kind."""
    if kind is None:
        fields = ", ".join(f"{_name(name)}: {_likely(name, value)}" for name, value in data.items() if name != _CAUSES)
        raise ActRefusedError(
            f"{event[:80]} is not declared; write below `publishes:` in manifest.yaml: `{event[:80]}: {{{fields}}}` ({_KINDS})"
        )
    for name, value in data.items():
        field = kind.fields.get(name)
        if field is None and event in CATALOG:
            raise ActRefusedError(f"{event} has no field {_name(name)}; it has {', '.join(kind.fields)}")
        if field is None:
            raise ActRefusedError(
                f"{event} has no field {_name(name)}; add `{_name(name)}: {_likely(name, value)}` to `{event}` below `publishes:` in "
                f"manifest.yaml ({_KINDS})"
            )
        if not fits(field, value):
            raise ActRefusedError(f"the field {name} of {event} is declared as {field}, which holds {HOLDS[field]}; this is none")


def _likely(name: str, value: object) -> FieldKind:
    """The kind that such a field has, most likely; where that cannot be said, the one that fewest hear."""
    by_name = {"path": FieldKind.PATH, "paths": FieldKind.PATHS, "id": FieldKind.ID, "ids": FieldKind.IDS}
    guessed = by_name.get(name.rpartition("_")[2])
    if guessed is not None and fits(guessed, value):
        return guessed
    return next((kind for kind in (FieldKind.FLAG, FieldKind.NUMBER) if value is not None and fits(kind, value)), FieldKind.FREE)


def _name(name: str) -> str:
    return name[:80] if name.isidentifier() else repr(name[:80])
