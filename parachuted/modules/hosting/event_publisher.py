"""Publishes modules' events and brings events to modules, within what the author of a write may
touch (a person with an editor or an unlimited API key: everything), and without loops.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from parachuted.access.caller import Caller, WorkChain
from parachuted.access.events import EventFilter
from parachuted.access.grant import CallerGrant, any_of, exactly
from parachuted.agents.active_runs import ActiveRuns
from parachuted.errors import ActRefusedError, ModuleFailedError, ParachuteError
from parachuted.events import CATALOG, CORE, FACTS, Bus, Event, EventKind
from parachuted.events.fields import HOLDS, FieldKind, fits
from parachuted.history.run_account import NAME
from parachuted.keys import NOWHERE, Identity
from parachuted.modules.declare import EventMark
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.results import to_json
from parachuted.vault import VaultPath, WriteResult

log = logging.getLogger(__name__)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_MODULE = "module:"


class AuthorReach:
    """Limits the caller of what follows from a write to its author's rights, and to the file
    itself.
    """

    def __init__(
        self,
        identity_of: Callable[[str], Identity | None],
        holds: Callable[[Identity], bool],
        runs: ActiveRuns,
    ) -> None:
        """`holds`: whether that identity may still ask. `runs` know what each run was granted."""
        self._identity_of, self._holds, self._runs = identity_of, holds, runs

    def limited(
        self, caller: Caller, paths: Sequence[str], by: str, key: str, run: str | None
    ) -> Caller:
        """The caller, limited to what the author that the history calls `by` may touch, who wrote
        by that key or in that run. A module's code wrote with the key's scope on that module, which
        has no paths. Of a key that is gone, the file alone is left.
        """
        identity = self._identity_of(key) if key else None
        if key:
            caller = replace(caller, request=replace(caller.request, key=key))
        if identity is not None:
            request = replace(caller.request, is_valid=lambda: self._holds(identity))
            caller = replace(caller, request=request)
        if key and (identity is None or not by.startswith(_MODULE)):
            reads, writes = (
                (identity.grant("vault", capability) if identity is not None else None) or NOWHERE
                for capability in ("read", "write")
            )
            caller = _within(caller, paths, CallerGrant(reads, writes))
        if run is None or not is_agents(by):
            return caller
        granted = self._runs.granted(run)
        return _within(caller, paths, granted or CallerGrant(NOWHERE, NOWHERE))


def is_agents(by: str) -> bool:
    return by == NAME or by.startswith("agent:") or (by.startswith(_MODULE) and "/" in by)


def _within(caller: Caller, paths: Sequence[str], grant: CallerGrant) -> Caller:
    own = exactly(paths)
    return caller.restricted_to(CallerGrant(any_of(grant.reads, own), any_of(grant.writes, own)))


MOST_BYTES = 256 * 1024
_MOST_REMEMBERED = 10_000
_CAUSES = "causes"
_KINDS = f"the kinds are {', '.join(FieldKind)}"


class EventPublisher:
    """Publishes modules' events, and remembers their causes, which the reactions then have."""

    def __init__(self, bus: Bus, audit: ModuleAudit, reach: AuthorReach | None = None) -> None:
        self._bus, self._audit, self._reach = bus, audit, reach
        self._names: dict[str, set[str]] = {}
        self._authorities: OrderedDict[int, Caller] = OrderedDict()
        self._inboxes: tuple[Inbox, ...] = ()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._written: OrderedDict[tuple[str, str | None], int] = OrderedDict()
        self._unfinished: list[tuple[str, int]] = []
        self._lock = threading.Lock()

    def declare(self, manifest: Manifest) -> None:
        """Accept the events of that manifest until withdrawn. Raises ModuleFailedError."""
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
        self._inboxes = tuple(inboxes)
        self._unsubscribe()
        self._unsubscribe = self._bus.subscribe(self._pass_on) if self._inboxes else lambda: None

    def _pass_on(self, event: Event) -> None:
        caller = self.caller_of(event)
        for inbox in self._inboxes:
            if event.event in inbox.events:
                inbox.put(event, caller)

    def publish(self, module: str, event: str, data: Mapping[str, object], caller: Caller) -> None:
        """Raises ActRefusedError for what is not its own or not declared, too much, or a circle."""
        with self._audit.call("module", module, module, f"event {event}", caller) as answer:
            answer.value = data
            self._publish(module, event, data, caller)

    def _publish(self, module: str, event: str, data: Mapping[str, object], caller: Caller) -> None:
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
        caller.check_circle(event[:80])
        if caller.chain.within is not None:  # the run may be over before the event is handled
            is_valid = caller.chain.within.asker.request.is_valid
            caller = replace(caller, request=replace(caller.request, is_valid=is_valid))
        _remember(self._authorities, self._bus.last_id + 1, caller)
        self._bus.publish(event, **plain)

    @contextmanager
    def writing(self, path: VaultPath, caller: Caller) -> Iterator[Callable[[WriteResult], None]]:
        """Around a module's write, on any thread: its event follows from what led the module to it.
        Call what it yields with the result; until then every change of the file counts as this one.
        """
        if not caller.chain.events:
            yield lambda _written: None
            return

        def wrote(written: WriteResult) -> None:
            with self._lock:
                _remember(self._written, (written.path, written.after), caller.chain.events)

        unfinished = (str(path), caller.chain.events)
        with self._lock:
            self._unfinished.append(unfinished)
        try:
            yield wrote
        finally:
            with self._lock:
                self._unfinished.remove(unfinished)

    def caller_of(self, event: Event) -> Caller:
        """What led to that event; forgotten once it is asked."""
        found = self._authorities.pop(event.id, None)
        if found is not None:
            return found
        path, digest, causes, run = (
            event.data.get(name) for name in ("path", "digest", _CAUSES, "run")
        )
        caller = Caller(
            causes=tuple(map(str, causes)) if isinstance(causes, list | tuple) else (),
            chain=WorkChain(
                run=run if isinstance(run, str) else None,
                events=self._events_before(str(path), digest if isinstance(digest, str) else None),
            ),
        )
        if self._reach is None or "by" not in event.data:
            return caller
        paths = [str(event.data[name]) for name in ("path", "from") if event.data.get(name)]
        by, key = str(event.data["by"]), str(event.data.get("key") or "")
        return self._reach.limited(caller, paths, by, key, caller.chain.run)

    def _events_before(self, path: str, digest: str | None) -> int:
        with self._lock:
            found = self._written.pop((path, digest), None)
            unfinished = [events for other, events in self._unfinished if other == path]
        return max(unfinished, default=0) if found is None else found

    def withdraw(self, module: str) -> None:
        for name in self._names.pop(module, ()):
            self._bus.withdraw(name)


def _remember(led_by: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    led_by[key] = value
    if len(led_by) > _MOST_REMEMBERED:
        led_by.popitem(last=False)


def _refuse_undeclared(kind: EventKind | None, event: str, data: Mapping[str, object]) -> None:
    where = f"`{event[:80]}` below `publishes:` in manifest.yaml ({_KINDS})"
    if kind is None:
        raise ActRefusedError(f"{event[:80]} is not declared; add {where}, with its fields")
    for name, value in data.items():
        field = kind.fields.get(name)
        if field is None:
            raise ActRefusedError(
                f"{event} has no field {_name(name)}; it has {', '.join(kind.fields)}"
                if event in CATALOG
                else f"{event} has no field {_name(name)}; add it to {where}"
            )
        if not fits(field, value):
            raise ActRefusedError(
                f"the field {name} of {event} is declared as {field}, which holds {HOLDS[field]}; "
                "this is none"
            )


def _name(name: str) -> str:
    return name[:80] if name.isidentifier() else repr(name[:80])


MOST_WAITING = 1000
_AT_ONCE = 8
_IN_ORDER_S = 30.0
_ALONGSIDE_S = 600.0  # such a handler may let an agent work


class Inbox:
    """Holds events until `run` delivers them: only handlers that are async work side by side."""

    def __init__(self, host: ModuleHost, event_filter: EventFilter) -> None:
        self._host, self._event_filter = host, event_filter
        self._specs: dict[str, list[EventMark]] = {}
        for spec in host.declared.events:
            self._specs.setdefault(spec.event, []).append(spec)
        # a moved file can be a new one, or one that is gone, to who sees one side
        is_moved = not {"file.created", "file.deleted"}.isdisjoint(self._specs)
        self.events = frozenset(self._specs) | ({"file.moved"} if is_moved else frozenset())
        self._waiting: deque[tuple[str, Mapping[str, object], Caller]] = deque()
        self._has_some = asyncio.Event()
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.dropped = 0

    def put(self, event: Event, caller: Caller) -> None:
        """Queue an event that the module may receive. When too many wait, the oldest is dropped."""
        received = event.visible_to(self._event_filter)
        if received is None or received.event not in self._specs:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        caller = replace(
            caller.fork(),
            request=replace(caller.request, by="event", entry="module"),
            chain=replace(
                caller.chain,
                run=caller.chain.led_by,
                events=caller.chain.events + 1,
                depth=0,
                call=None,
            ),
        )
        # its own data: what it does to it is not seen elsewhere
        data = {str(name): to_json(value) for name, value in received.data.items()}
        self._waiting.append((received.event, data, caller))
        self._has_some.set()

    async def run(self) -> None:
        """Deliver until cancelled; what is being handled then ends with it."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._has_some.wait()
                self._has_some.clear()
                while self._waiting:
                    event, data, caller = self._waiting.popleft()
                    for spec in self._specs[event]:
                        if not spec.is_async:
                            await self._tell(spec, data, caller, _IN_ORDER_S)
                            continue
                        await self._room.acquire()
                        task = group.create_task(
                            self._tell(spec, data, caller, _ALONGSIDE_S),
                            name=f"{self._host.name} {spec.handler}",
                        )
                        task.add_done_callback(lambda _task: self._room.release())

    async def _tell(
        self, spec: EventMark, data: Mapping[str, object], caller: Caller, limit_s: float
    ) -> None:
        about = {"of": self._host.name, "event": spec.event}
        try:
            await self._host.tell(HandlerCall(spec.handler, data, caller, limit_s))
        except ParachuteError as error:
            log.warning("a module did not handle an event", extra={**about, "error": error.message})
        except Exception:  # a module's callback, wherever it runs
            log.exception("a module did not handle an event", extra=about)
