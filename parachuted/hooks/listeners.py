"""What asks hooks and informs them: the store before it writes, the bus of what has happened."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from parachuted.errors import HookRefusedError, ParachuteError
from parachuted.events import CORE, Bus, Change, Event
from parachuted.hooks.hook_event import HookEvent, cause_data, event_data, module_of
from parachuted.hooks.hooks import Hooks
from parachuted.vault import (
    NOTE_SUFFIXES,
    ObjectStore,
    WriteIntent,
    changed_units,
    diff_of,
    meaning,
    parse_note,
    printable,
)
from parachuted.vault.note import WHOLE

_BEFORE_WRITE = "write.before"
_ASKED_WHERE_IT_HAPPENS = frozenset({"tool.after", "session.start"})
_MOST_WAITING = 1000
_LARGEST = 4 << 20
_MOST_HELD = 32 << 20
_BEGINNING = 8 << 10
_PROBLEM = "hooks:listening"
_RootOf = Callable[[str], str | None]  # the file that began a cause, if known


class WriteHooks:
    """Asks in the thread that writes, from `begin` on: what a start puts right was agreed to
    before.
    """

    def __init__(
        self,
        hooks: Hooks,
        *,
        vault: Path,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], datetime],
        root_of: _RootOf = lambda _cause: None,
    ) -> None:
        self._hooks, self._vault, self._loop, self._clock = hooks, vault, loop, clock
        self._root_of = root_of
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True

    def is_asked(self) -> bool:
        return self._has_begun and self._hooks.wants(_BEFORE_WRITE)

    def ask(self, intent: WriteIntent) -> None:
        """Raises HookRefusedError with the hooks' words."""
        decision = self._hooks.ask_from_thread(self._occurrence(intent), self._loop)
        if not decision.allowed:
            raise HookRefusedError(
                f"a hook refused the write to {printable(intent.path)}, so nothing was written: "
                f"{decision.reason}"
            )

    def _occurrence(self, intent: WriteIntent) -> HookEvent:
        author, units = intent.author, list(intent.units())
        data: dict[str, object] = {
            "path": printable(intent.path),
            "from": printable(intent.source) if intent.source is not None else None,
            "actor": author.by,
            "run": author.run,
            "causes": list(author.causes),
            "operation": intent.operation,
            "base": intent.base,
            "digest": intent.digest,
            "sections": units,
            "frontmatter": intent.frontmatter(),
        }
        root = self._root_of(author.causes[0]) if author.causes else None
        return HookEvent(
            event=_BEFORE_WRITE,
            at=self._clock(),
            vault=self._vault,
            module=module_of(author.by),
            session_id=author.run,
            data=event_data(data, self._vault),
            cause=cause_data(author.causes, actor=author.by, run=author.run, root=root),
            diff={"text": intent.diff(), "changed": units},
        )


class HookEventListener:
    """Passes bus events to the hooks that match, with their cause and what changed, in order and
    off the loop, since the bus does not wait and comparing texts takes time.
    """

    def __init__(
        self,
        bus: Bus,
        hooks: Hooks,
        *,
        vault: Path,
        objects: ObjectStore,
        root_of: _RootOf = lambda _cause: None,
        report: Callable[[str, str | None], None] = lambda _subject, _problem: None,
    ) -> None:
        self._hooks, self._vault, self._objects, self._root_of = hooks, vault, objects, root_of
        self._report = report
        self._changes: dict[tuple[str, object], Change] = {}
        self._waiting: deque[tuple[Event, Change | None]] = deque()
        self._held = 0
        self._wake = asyncio.Event()
        self._is_full = False
        self.close = bus.subscribe_to_batches(self._on_events)

    @contextlib.contextmanager
    def about(self, changes: Sequence[Change]) -> Iterator[None]:
        """Events published within are of these changes: they lack the earlier text."""
        self._changes = {
            (f"file.{change.kind}", printable(change.path)): change for change in changes
        }
        try:
            yield
        finally:
            self._changes = {}

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                event, change = self._next()
                if change is None:  # else a hook would wait for a thread to be free
                    self._hooks.tell(self._hook_event(event, {}, None))
                else:
                    more, diff = await asyncio.to_thread(self._compare, change)
                    self._hooks.tell(self._hook_event(event, more, diff))
            if self._is_full:
                self._is_full = False
                self._report(_PROBLEM, None)

    def _on_events(self, events: Sequence[Event]) -> None:
        wanted = self._hooks.wanted - _ASKED_WHERE_IT_HAPPENS
        for event in events:
            if event.event in wanted:
                self._queue(event)

    def _queue(self, event: Event) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self._next()
            is_news, self._is_full = not self._is_full, True
            wait = f"more than {_MOST_WAITING} events wait for hooks"
            if is_news:
                self._report(_PROBLEM, f"{wait}, so the oldest are dropped")
        change = self._changes.get((event.event, event.data.get("path")))
        if change is not None and self._held + len(change.data or b"") > _MOST_HELD:
            change = change._replace(data=None)  # it is read again, if it is kept
        self._held += len(change.data or b"") if change is not None else 0
        self._waiting.append((event, change))
        self._wake.set()

    def _next(self) -> tuple[Event, Change | None]:
        event, change = self._waiting.popleft()
        self._held -= len(change.data or b"") if change is not None else 0
        return event, change

    def _hook_event(
        self, event: Event, more: Mapping[str, object], diff: Mapping[str, object] | None
    ) -> HookEvent:
        data = event.data
        causes = found if isinstance(found := data.get("causes"), list) else []
        actor, run, session = (
            str(data.get("by") or "daemon"),
            data.get("run"),
            data.get("session_id"),
        )
        root = self._root_of(causes[0]) if causes else None
        run = found if isinstance(found := data.get("run"), str) else None
        first = event.event.partition(".")[0]
        return HookEvent(
            event=event.event,
            at=event.timestamp,
            vault=self._vault,
            module=module_of(actor) if first in CORE else first,
            data=event_data({**data, **more}, self._vault),
            session_id=session if isinstance(session, str) else None,
            cause=cause_data(causes, actor=actor, run=run, root=root) if causes else None,
            diff=diff,
        )

    def _compare(self, change: Change) -> tuple[Mapping[str, object], Mapping[str, object]]:
        """The frontmatter, and what changed, as far as the texts are kept. Blocks on the disk."""
        old, new = (None if at is None else at.digest for at in (change.old, change.new))
        try:
            before, after = self._text(old), self._text(new) if change.data is None else change.data
        except ParachuteError:
            before = after = None
        more = {}
        if after is not None and change.path.endswith(NOTE_SUFFIXES):
            more["frontmatter"] = dict(parse_note(after).values)
        if (before is None) != (old is None) or (after is None) != (new is None):
            text = "(a text of it is not kept, so it cannot be compared)"
            return more, {"text": text, "changed": []}
        texts = [text for text in (before, after) if text is not None]
        if any(len(text) > _LARGEST or b"\0" in text[:_BEGINNING] for text in texts):
            text = "(too large, or not text, so it is not compared)"
            return more, {"text": text, "changed": [WHOLE]}
        units = changed_units(
            *(None if text is None else meaning(text) for text in (before, after))
        )
        lines = diff_of(before or b"", after or b"", change.path, source=change.source)
        return more, {"text": lines, "changed": list(units)}

    def _text(self, digest: str | None) -> bytes | None:
        return None if digest is None else self._objects.get(digest)
