"""Passes bus events to the hooks that match, with their cause and what changed.

The bus does not wait, and comparing texts takes time, so this happens off the loop, in event order,
and only for events that a hook matches.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from parachuted.access.events import EventFilter
from parachuted.errors import ParachuteError
from parachuted.events import CORE, Bus, Change, Event
from parachuted.hooks.hook_event import HookEvent, cause_data, event_data, module_of
from parachuted.vault import (
    NOTE_SUFFIXES,
    ObjectStore,
    changed_units,
    diff_of,
    meaning,
    parse_note,
    printable,
)
from parachuted.vault.note import WHOLE

_HEARS = (
    EventFilter.of_person()
)  # a hook is a program of the person's own, from whom no file is kept
_ASKED_WHERE_IT_HAPPENS = frozenset({"tool.after", "tool.failed", "session.start"})
_MOST_WAITING = 1000
_AT_ONCE = 64
_LARGEST = 4 << 20
_MOST_HELD = 32 << 20
_BEGINNING = 8 << 10
_PROBLEM = "hooks:listening"


class FactListener(Protocol):
    """The hooks, as receivers of events."""

    @property
    def wanted(self) -> AbstractSet[str]: ...

    def tell(self, hook_event: HookEvent) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueuedEvent:
    event: Event
    change: Change | None

    @property
    def size(self) -> int:
        return len(self.change.data or b"") if self.change is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _TextChanges:
    """What the texts add to the event."""

    data: Mapping[str, object] = field(default_factory=dict)
    diff: Mapping[str, object] | None = None


class HookEventListener:
    """Between the bus and the hooks. All on the loop's thread, but for the comparing."""

    def __init__(
        self,
        bus: Bus,
        hooks: FactListener,
        *,
        vault: Path,
        objects: ObjectStore,
        root_of: Callable[[str], str | None] = lambda _cause: None,
        report: Callable[[str, str | None], None] = lambda _subject, _problem: None,
    ) -> None:
        """`root_of`: the file that a cause began with; `report` takes a subject, and what is wrong
        with it or None.
        """
        self._hooks, self._vault, self._objects, self._root_of = hooks, vault, objects, root_of
        self._report = report
        self._changes: Sequence[Change] = ()
        self._changed: Mapping[tuple[str, object], Change] | None = None
        self._waiting: deque[_QueuedEvent] = deque()
        self._held = 0
        self._wake = asyncio.Event()
        self._is_full = False
        self._end = bus.subscribe_to_batches(self._on_events)

    @contextlib.contextmanager
    def about(self, changes: Sequence[Change]) -> Iterator[None]:
        """What is published within tells of these changes: an event has no place for the text that
        was there before.
        """
        self._changes = changes
        try:
            yield
        finally:
            self._changes, self._changed = (), None

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                some = [self._next_event() for _ in range(min(_AT_ONCE, len(self._waiting)))]
                for hook_event in await self._occurrences(some):
                    self._hooks.tell(hook_event)
            if self._is_full:
                self._is_full = False
                self._report(_PROBLEM, None)

    def close(self) -> None:
        self._end()

    def _on_events(self, events: Sequence[Event]) -> None:
        wanted = self._hooks.wanted - _ASKED_WHERE_IT_HAPPENS
        for event in events:
            if event.event in wanted and event.heard_by(_HEARS) is not None:
                self._queue(event)

    def _queue(self, event: Event) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self._next_event()
            if not self._is_full:
                self._is_full = True
                self._report(
                    _PROBLEM,
                    f"more than {_MOST_WAITING} events wait for hooks, so the oldest are dropped",
                )
        waiting = _QueuedEvent(event=event, change=self._about(event))
        self._held += waiting.size
        self._waiting.append(waiting)
        self._wake.set()

    def _next_event(self) -> _QueuedEvent:
        """The oldest, which waits no longer."""
        waiting = self._waiting.popleft()
        self._held -= waiting.size
        return waiting

    def _about(self, event: Event) -> Change | None:
        """The change that the event tells of. Its text is held only while not too much waits."""
        if self._changed is None:
            self._changed = {
                (f"file.{change.kind}", printable(change.path)): change for change in self._changes
            }
        change = self._changed.get((event.event, event.data.get("path")))
        if change is None:
            return None
        return (
            change
            if self._held + len(change.data or b"") <= _MOST_HELD
            else change._replace(data=None)
        )

    async def _occurrences(self, some: list[_QueuedEvent]) -> list[HookEvent]:
        """In a thread only where something is to be compared: else a hook would wait for a thread
        to be free.
        """
        if not any(one.change is not None for one in some):
            return [self._occurrence(one, _TextChanges()) for one in some]
        changes = await asyncio.to_thread(lambda: [self._look(one.change) for one in some])
        return [self._occurrence(one, found) for one, found in zip(some, changes, strict=True)]

    def _occurrence(self, one: _QueuedEvent, changes: _TextChanges) -> HookEvent:
        event, data = one.event, one.event.data
        causes = (
            [str(cause) for cause in causes]
            if isinstance(causes := data.get("causes"), list | tuple)
            else []
        )
        run = data.get("run")
        actor, session = str(data.get("by") or "daemon"), data.get("session_id")
        root = self._root_of(causes[0]) if causes else None
        return HookEvent(
            event=event.event,
            at=event.timestamp,
            vault=self._vault,
            module=_module(event.event, actor),
            data=event_data({**data, **changes.data}, self._vault),
            session_id=session if isinstance(session, str) else None,
            cause=cause_data(
                causes, actor=actor, run=run if isinstance(run, str) else None, root=root
            )
            if causes
            else None,
            diff=changes.diff,
        )

    def _look(self, change: Change | None) -> _TextChanges:
        """What a change changed, as far as the texts are kept. Blocks on the disk."""
        if change is None:
            return _TextChanges()
        old, new = (
            entry.digest if entry is not None else None for entry in (change.old, change.new)
        )
        try:
            before, after = self._text(old), self._text(new) if change.data is None else change.data
        except ParachuteError:
            before = after = None
        matter = (
            {"frontmatter": dict(parse_note(after).values)}
            if after is not None and change.path.endswith(NOTE_SUFFIXES)
            else {}
        )
        return _TextChanges(data=matter, diff=_diff(change, (old, new), (before, after)))

    def _text(self, digest: str | None) -> bytes | None:
        return None if digest is None else self._objects.get(digest)


def _diff(
    change: Change, digests: tuple[str | None, str | None], texts: tuple[bytes | None, bytes | None]
) -> dict[str, object]:
    if any((text is None) != (digest is None) for text, digest in zip(texts, digests, strict=True)):
        return {
            "text": "(a text of it is not kept, so the difference cannot be shown)",
            "changed": [],
        }
    if any(
        text is not None and (len(text) > _LARGEST or b"\0" in text[:_BEGINNING]) for text in texts
    ):
        return {
            "text": "(too large, or not text, so there are no lines to compare)",
            "changed": [WHOLE],
        }
    units = changed_units(*(None if text is None else meaning(text) for text in texts))
    before, after = (text or b"" for text in texts)
    return {
        "text": diff_of(before, after, change.path, source=change.source),
        "changed": list(units),
    }


def _module(event: str, actor: str) -> str | None:
    """Whose event it is: a module's own, or what a module did."""
    first = event.partition(".")[0]
    return module_of(actor) if first in CORE else first
