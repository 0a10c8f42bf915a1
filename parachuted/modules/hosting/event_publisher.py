"""Publishes modules' events on the bus and brings events to modules, within what the author of a
write may touch, and without loops.

A person who saved a file in an editor, or whose API key is not limited, may touch everything.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from parachuted.access.authority import Authority
from parachuted.access.events import HOLDS, FieldKind, fits
from parachuted.access.grant import any_of, exactly
from parachuted.agents.active_runs import ActiveRuns
from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.events import CATALOG, CORE, FACTS, Bus, Event, EventKind
from parachuted.history.run_account import NAME
from parachuted.keys import NOWHERE, AccessGrant, Identity
from parachuted.modules.hosting.inbox import Inbox
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.results import to_json
from parachuted.vault import VaultPath, WriteResult

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_MODULE = "module:"


class AuthorReach:
    """Limits the authority of what follows from a write to what its author may touch, and to the
    file itself.
    """

    def __init__(
        self,
        identity_of: Callable[[str], Identity | None],
        holds: Callable[[Identity], bool],
        runs: ActiveRuns,
    ) -> None:
        """`identity_of` finds an API key by its id, `holds` says whether it still may ask, and
        `runs` know what each run of an agent was granted.
        """
        self._identity_of, self._holds, self._runs = identity_of, holds, runs

    def limited(
        self, authority: Authority, paths: Sequence[str], by: str, key: str, run: str | None
    ) -> Authority:
        """The authority, limited to the author that the history calls `by`, who wrote through that
        API key or in that run.
        """
        if key:
            authority = self._limited_to_key(authority, paths, by, key)
        if run is None or not is_agents(by):
            return authority
        granted = self._runs.granted(run)
        reads, writes = (NOWHERE, NOWHERE) if granted is None else granted
        return _within(authority, paths, reads, writes)

    def _limited_to_key(
        self, authority: Authority, paths: Sequence[str], by: str, key: str
    ) -> Authority:
        """A module's code wrote with the key's scope on that module, all else with the one on the
        vault. Of a key that is gone, the file alone is left.
        """
        identity = self._identity_of(key)
        if identity is None:
            return _within(replace(authority, caller=key), paths, NOWHERE, NOWHERE)
        module = by.removeprefix(_MODULE) if by.startswith(_MODULE) else None
        reads, writes = (
            identity.grant(module or "vault", "write" if module else one) or NOWHERE
            for one in ("read", "write")
        )
        limited = _within(authority, paths, reads, writes)
        return replace(limited, caller=key, holds=lambda: self._holds(identity))


def is_agents(by: str) -> bool:
    """Whether the author of that name is an agent that the daemon runs."""
    return by == NAME or by.startswith("agent:") or (by.startswith(_MODULE) and "/" in by)


def _within(
    authority: Authority, paths: Sequence[str], reads: AccessGrant, writes: AccessGrant
) -> Authority:
    own = exactly(paths)
    return authority.narrowed(any_of(reads, own), any_of(writes, own))


MOST_BYTES = 256 * 1024
_MOST_REMEMBERED = 10_000
_CAUSES = "causes"
_KINDS = f"the kinds are {', '.join(FieldKind)}"


class EventPublisher:
    """Publishes modules' events, and remembers what led to each, since the reactions of the modules
    that it brings them to have the same causes.
    """

    def __init__(self, bus: Bus, reach: AuthorReach | None = None) -> None:
        """`reach` limits what follows from a write to what its author may touch."""
        self._bus, self._reach = bus, reach
        self._names: dict[str, set[str]] = {}
        self._authorities: OrderedDict[int, Authority] = OrderedDict()
        self._inboxes: dict[str, list[Inbox]] = {}
        self._unsubscribe: Callable[[], None] = lambda: None
        self._written: OrderedDict[tuple[str, str | None], int] = OrderedDict()
        self._unfinished: list[tuple[str, int]] = []
        self._lock = threading.Lock()

    def declare(self, manifest: Manifest) -> None:
        """Accept the events that the module's manifest declares, until withdrawn.

        Raises ModuleFailedError.
        """
        module = manifest.name
        for name, fields in manifest.publishes.items():
            kind = EventKind(
                name=name,
                tells=f"The module {module} says so.",
                fields={**fields, _CAUSES: FieldKind.IDS},
                publisher=module,
            )
            try:
                self._bus.declare(kind)
            except ValueError as error:
                raise ModuleFailedError(str(error)) from error
            self._names.setdefault(module, set()).add(name)

    def deliver_to(self, inboxes: Iterable[Inbox]) -> None:
        """From now on, bring events to these; while there are none, nothing is listened to."""
        self._inboxes = {}
        for inbox in inboxes:
            for event in inbox.events:
                self._inboxes.setdefault(event, []).append(inbox)
        self._unsubscribe()
        self._unsubscribe = self._bus.subscribe(self._hear) if self._inboxes else lambda: None

    def _hear(self, event: Event) -> None:
        led_by = self.authority_of(event)
        for inbox in self._inboxes.get(event.event, ()):
            inbox.put(event, led_by)

    def publish(
        self, module: str, event: str, data: Mapping[str, object], authority: Authority
    ) -> None:
        """Tell the event.

        Raises ActRefusedError for another's name, for what was not declared, for too much, and for
        a circle.
        """
        first = event.partition(".")[0]
        if first != module or first in CORE:
            raise ActRefusedError(
                f"the module {module} may publish events whose name begins with {module}. and not "
                f"{event[:80]}"
            )
        plain = to_json(data)
        if not isinstance(plain, dict) or len(json.dumps(plain)) > MOST_BYTES:
            raise ActRefusedError(
                f"{event[:80]} carries more than {MOST_BYTES} bytes; publish the path of a note "
                "instead"
            )
        _refuse_undeclared(FACTS.get(event) or self._bus.declared.get(event), event, plain)
        authority.check_circle(event[:80])
        if authority.within is not None:  # the run may be over before the event is handled
            authority = replace(authority, holds=authority.within.asker.holds)
        _remember(self._authorities, self._bus.last_id + 1, authority)
        self._bus.publish(event, **plain)

    @contextmanager
    def writing(
        self, path: VaultPath, authority: Authority
    ) -> Iterator[Callable[[WriteResult], None]]:
        """A module writes that file: the event of it follows from what led the module to it.

        Call what it yields with the result. Any thread may use it. The event may come before the
        result is known, so until then every change of the file counts as this one.
        """
        if not authority.events:
            yield lambda _written: None
            return

        def wrote(written: WriteResult) -> None:
            with self._lock:
                _remember(self._written, (written.path, written.after), authority.events)

        unfinished = (str(path), authority.events)
        with self._lock:
            self._unfinished.append(unfinished)
        try:
            yield wrote
        finally:
            with self._lock:
                self._unfinished.remove(unfinished)

    def authority_of(self, event: Event) -> Authority:
        """What led to that event; forgotten once it is asked."""
        found = self._authorities.pop(event.id, None)
        if found is not None:
            return found
        path, digest, causes, run = (
            event.data.get(name) for name in ("path", "digest", _CAUSES, "run")
        )
        authority = Authority(
            causes=tuple(map(str, causes)) if isinstance(causes, list | tuple) else (),
            runs=(run,) if isinstance(run, str) else (),
            events=self._events_before(str(path), digest if isinstance(digest, str) else None),
        )
        if self._reach is None or "by" not in event.data:
            return authority
        paths = [str(event.data[name]) for name in ("path", "from") if event.data.get(name)]
        by, key = str(event.data["by"]), str(event.data.get("key") or "")
        return self._reach.limited(authority, paths, by, key, next(iter(authority.runs), None))

    def _events_before(self, path: str, digest: str | None) -> int:
        with self._lock:
            found = self._written.pop((path, digest), None)
            unfinished = [events for other, events in self._unfinished if other == path]
        return max(unfinished, default=0) if found is None else found

    def withdraw(self, module: str) -> None:
        """The module is gone, and with it the names that only it had."""
        for name in self._names.pop(module, ()):
            self._bus.withdraw(name)


def _remember(led_by: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    led_by[key] = value
    if len(led_by) > _MOST_REMEMBERED:
        led_by.popitem(last=False)


def _refuse_undeclared(kind: EventKind | None, event: str, data: Mapping[str, object]) -> None:
    """Raises ActRefusedError, with the line to write, for an event or a field that is not declared,
    or a value that is not of its kind.
    """
    if kind is None:
        fields = ", ".join(
            f"{_name(name)}: {_likely(name, value)}"
            for name, value in data.items()
            if name != _CAUSES
        )
        raise ActRefusedError(
            f"{event[:80]} is not declared; write below `publishes:` in manifest.yaml: "
            f"`{event[:80]}: {{{fields}}}` ({_KINDS})"
        )
    for name, value in data.items():
        field = kind.fields.get(name)
        if field is None and event in CATALOG:
            raise ActRefusedError(
                f"{event} has no field {_name(name)}; it has {', '.join(kind.fields)}"
            )
        if field is None:
            raise ActRefusedError(
                f"{event} has no field {_name(name)}; add `{_name(name)}: {_likely(name, value)}` "
                f"to `{event}` below `publishes:` in "
                f"manifest.yaml ({_KINDS})"
            )
        if not fits(field, value):
            raise ActRefusedError(
                f"the field {name} of {event} is declared as {field}, which holds {HOLDS[field]}; "
                "this is none"
            )


def _likely(name: str, value: object) -> FieldKind:
    """The likely kind of such a field; when in doubt, the one visible to the fewest."""
    by_name = {
        "path": FieldKind.PATH,
        "paths": FieldKind.PATHS,
        "id": FieldKind.ID,
        "ids": FieldKind.IDS,
    }
    guessed = by_name.get(name.rpartition("_")[2])
    if guessed is not None and fits(guessed, value):
        return guessed
    return next(
        (
            kind
            for kind in (FieldKind.FLAG, FieldKind.NUMBER)
            if value is not None and fits(kind, value)
        ),
        FieldKind.FREE,
    )


def _name(name: str) -> str:
    return name[:80] if name.isidentifier() else repr(name[:80])
