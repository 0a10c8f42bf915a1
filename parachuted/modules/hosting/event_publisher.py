"""Publishes modules' events and brings events to modules, within what the author of a write may
touch (a person with an editor or an unlimited API key: everything), and without loops.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

from parachuted.access.caller import Caller, WorkChain
from parachuted.access.events import EventFilter
from parachuted.access.grant import CallerGrant, any_of, exactly
from parachuted.agents.active_runs import ActiveRuns
from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.events import FACTS, Bus, Event, EventKind
from parachuted.events.fields import FieldKind, fits
from parachuted.history.run_account import NAME
from parachuted.keys import NOWHERE, Identity
from parachuted.modules.declare import EventMark
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import HandlerCall, ModuleHost
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.results import to_json
from parachuted.vault import VaultPath, WriteResult

log = logging.getLogger(__name__)

MOST_BYTES = 256 * 1024
MOST_WAITING = 1000
_AT_ONCE = 8
_IN_ORDER_S = 30.0
_ALONGSIDE_S = 600.0  # such a handler may let an agent work
_MODULE = "module:"
_NOTHING = CallerGrant(NOWHERE, NOWHERE)


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

    def limited(self, caller: Caller, data: Mapping[str, object]) -> Caller:
        """The caller, limited to what the author of that file event may touch, who wrote by a key
        or in a run. A module's code wrote with the key's scope on that module, which has no paths.
        Of a key or a run that is gone, the file alone is left.
        """
        by, key, run = str(data["by"]), str(data.get("key") or ""), data.get("run")
        grants: list[CallerGrant] = []
        if key:
            identity, request = self._identity_of(key), replace(caller.request, key=key)
            if identity is None:
                grants.append(_NOTHING)
            else:
                request = replace(request, is_valid=lambda: self._holds(identity))
                if not by.startswith(_MODULE):
                    reads, writes = (identity.grant("vault", act) for act in ("read", "write"))
                    grants.append(CallerGrant(reads or NOWHERE, writes or NOWHERE))
            caller = replace(caller, request=request)
        is_agents = by == NAME or by.startswith("agent:") or (by.startswith(_MODULE) and "/" in by)
        if run is not None and is_agents:
            grants.append(self._runs.granted(str(run)) or _NOTHING)
        own = exactly([str(data[name]) for name in ("path", "from") if data.get(name)])
        for grant in grants:
            reads, writes = any_of(grant.reads, own), any_of(grant.writes, own)
            caller = caller.restricted_to(CallerGrant(reads, writes))
        return caller


class EventPublisher:
    """Publishes modules' events, and brings each module those that it may receive: what it does
    then follows from who published or wrote.
    """

    def __init__(self, bus: Bus, audit: ModuleAudit, reach: AuthorReach | None = None) -> None:
        self._bus, self._audit, self._reach = bus, audit, reach
        self.inboxes: dict[str, Inbox] = {}
        self._publishers: dict[int, Caller] = {}
        self._written: dict[str, int] = {}
        bus.subscribe(self._deliver)

    def declare(self, manifest: Manifest) -> None:
        """Accept the events of that manifest until withdrawn. Raises ValueError."""
        for name, fields in manifest.publishes.items():
            self._bus.declare(
                EventKind(
                    name=name,
                    tells=f"The module {manifest.name} says so.",
                    fields={**fields, "causes": FieldKind.IDS},
                    publisher=manifest.name,
                )
            )

    def withdraw(self, module: str) -> None:
        for name, kind in list(self._bus.declared.items()):
            if kind.publisher == module:
                self._bus.withdraw(name)

    def publish(self, module: str, event: str, data: Mapping[str, object], caller: Caller) -> None:
        """Raises ActRefusedError for what is not its own or not declared, too much, or a circle."""
        with self._audit.call("module", module, module, f"event {event}", caller) as answer:
            answer.value = data
            plain = {name: to_json(value) for name, value in data.items()}
            self._check(module, event, plain)
            caller.check_circle(event[:80])
            if caller.chain.within is not None:  # the run may be over before the event is handled
                is_valid = caller.chain.within.asker.request.is_valid
                caller = replace(caller, request=replace(caller.request, is_valid=is_valid))
            self._publishers[self._bus.last_id + 1] = caller
            self._bus.publish(event, **plain)

    def _check(self, module: str, event: str, data: Mapping[str, object]) -> None:
        kind = FACTS.get(event) or self._bus.declared.get(event)
        if kind is None or kind.publisher != module:
            raise ActRefusedError(
                f"the module {module} may not publish {event[:80]}: name it below `publishes:` in "
                f"manifest.yaml, with its fields; it begins with {module}."
            )
        for name, value in data.items():
            if name not in kind.fields or not fits(kind.fields[name], value):
                fields = ", ".join(f"{field}: {holds}" for field, holds in kind.fields.items())
                raise ActRefusedError(
                    f"{event} has the fields {fields}; {name[:80]!r} is not among them, or holds "
                    "something else"
                )
        if len(json.dumps(data)) > MOST_BYTES:
            raise ActRefusedError(
                f"{event} carries more than {MOST_BYTES} bytes; publish the path of a note instead"
            )

    @contextmanager
    def writing(self, path: VaultPath, caller: Caller) -> Iterator[Callable[[WriteResult], None]]:
        """Around a module's write, on any thread: its event follows from what led the module to it,
        until a module writes the file again.
        """
        self._written[str(path)] = caller.chain.events
        yield lambda _written: None

    def _deliver(self, event: Event) -> None:
        publisher = self._publishers.pop(event.id, None)
        name = event.event
        inboxes = [inbox for inbox in self.inboxes.values() if name in inbox.events]
        if inboxes:
            caller = publisher or self._writer(event.data)
            chain = caller.chain
            chain = replace(chain, run=chain.led_by, events=chain.events + 1, depth=0, call=None)
            request = replace(caller.request, by="event", entry="module")
            caller = replace(caller, request=request, chain=chain)
            for inbox in inboxes:
                inbox.put(event, caller)

    def _writer(self, data: Mapping[str, object]) -> Caller:
        """What led to an event of the core's."""
        run, causes, by = data.get("run"), data.get("causes"), str(data.get("by"))
        is_modules = by.startswith(_MODULE) and "/" not in by
        events = self._written.get(str(data.get("path")), 0) if is_modules else 0
        caller = Caller(
            causes=tuple(map(str, causes)) if isinstance(causes, list | tuple) else (),
            chain=WorkChain(run=str(run) if run else None, events=events),
        )
        if self._reach is None or "by" not in data:
            return caller
        return self._reach.limited(caller, data)


class Inbox:
    """A module's events until they are handled: only handlers that are async work side by side."""

    def __init__(self, host: ModuleHost, event_filter: EventFilter) -> None:
        self._host, self._event_filter = host, event_filter
        self._specs: dict[str, list[EventMark]] = {}
        for spec in host.declared.events:
            self._specs.setdefault(spec.event, []).append(spec)
        # a moved file can be a new one, or one that is gone, to who sees one side
        is_moved = not {"file.created", "file.deleted"}.isdisjoint(self._specs)
        self.events = frozenset(self._specs) | ({"file.moved"} if is_moved else frozenset())
        self._waiting: asyncio.Queue[tuple[EventMark, Mapping[str, object], Caller]]
        self._waiting = asyncio.Queue(MOST_WAITING)
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.dropped = 0

    def put(self, event: Event, caller: Caller) -> None:
        """Queue an event that the module may receive. When too many wait, the oldest is dropped."""
        received = event.visible_to(self._event_filter)
        if received is None:
            return
        for spec in self._specs.get(received.event, ()):
            if self._waiting.full():
                self._waiting.get_nowait()
                self.dropped += 1
            # its own data: what it does to it is not seen elsewhere
            data = cast("dict[str, object]", to_json(received.data))
            self._waiting.put_nowait((spec, data, caller.fork()))

    async def run(self) -> None:
        """Deliver until cancelled; what is being handled then ends with it."""
        async with asyncio.TaskGroup() as group:
            while True:
                spec, data, caller = await self._waiting.get()
                if spec.is_async:
                    await self._room.acquire()
                    work = self._tell(spec, data, caller, _ALONGSIDE_S)
                    task = group.create_task(work, name=f"{self._host.name} {spec.handler}")
                    task.add_done_callback(lambda _task: self._room.release())
                else:
                    await self._tell(spec, data, caller, _IN_ORDER_S)

    async def _tell(
        self, spec: EventMark, data: Mapping[str, object], caller: Caller, limit_s: float
    ) -> None:
        about = {"of": self._host.name, "event": spec.event}
        try:
            await self._host.call(HandlerCall(spec.handler, data, caller, limit_s, is_event=True))
        except ParachuteError as error:
            log.warning("a module did not handle an event", extra={**about, "error": error.message})
        except Exception:  # a module's callback, wherever it runs
            log.exception("a module did not handle an event", extra=about)
