"""Office: suggestions over a real vault, store, history and state, with what was told of them.

`reopen` is the next daemon's life.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from parachuted.audit.chain import AuditEvent
from parachuted.events import Bus, Event
from parachuted.state import open_state
from parachuted.suggestions import Proposal, Suggestions
from parachuted.vault import ObjectStore, Store, VaultPath, VaultRoot, WriteJournal


class MemoryAudit:
    refusal: str | None = None

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


@dataclass
class SuggestionRig:
    folder: Path
    ask: object = None
    noticed: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vault, self.home = self.folder / "vault", self.folder / "home"
        self.vault.mkdir(exist_ok=True)
        self.home.mkdir(mode=0o700, exist_ok=True)
        self._seconds = itertools.count()
        self.open()

    def clock(self) -> datetime:
        return datetime(2026, 1, 5, 12, tzinfo=UTC) + timedelta(seconds=next(self._seconds))

    def open(self) -> None:
        state = self.home / "state"
        state.mkdir(exist_ok=True)
        self.state = open_state(state / "state.db")
        self.objects = ObjectStore(state / "objects")
        self.history = WriteJournal(state / "history.db")
        self.root = VaultRoot(self.vault)
        self.store = Store(
            self.root, self.objects, self.history, self.clock, ask=self.ask, notice=self.notice
        )
        self.bus, self.audit = Bus(self.clock), MemoryAudit()
        self.bus.subscribe(self.events.append)
        self.suggestions = Suggestions(
            self.store,
            state=self.state,
            bus=self.bus,
            audit=self.audit,
        )

    def close(self) -> None:
        self.state.close()
        self.history.close()
        self.objects.close()

    def reopen(self, *, lose_state: bool = False) -> None:
        """The daemon is gone, without a word, and the next one opens what is left."""
        self.close()
        if lose_state:
            shutil.rmtree(self.home / "state")
        self.open()

    async def notice(self, paths: Iterable[str]) -> None:
        self.noticed += paths

    def write(self, path: str, text: str) -> str:
        file = self.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return self.store.read(VaultPath(path)).digest

    def text(self, path: str) -> str:
        return (self.vault / path).read_text("utf-8")

    async def propose(
        self, path: str, payload: dict[str, object], action: str = "update", **more: object
    ):
        more = {"source_agent": "reflector", "reasoning": "it follows from today's journal"} | more
        return await self.suggestions.propose(
            Proposal(path=path, payload=payload, action=action, **more)
        )

    async def proposed(self):
        """One that waits: to make two of one."""
        self.write("a.md", "one\n")
        return await self.propose("a.md", {"text": "two\n"})

    async def created(self, name: str = "b"):
        """One that waits: to make a note of its own name."""
        return await self.propose(f"{name}.md", {"text": f"{name}\n"}, "create")

    async def batch(self, *several):
        """They are put before the person as one."""
        chief = Proposal(source_agent="chief", action="update", path="", payload={}, reasoning="b")
        return await self.suggestions.propose_several([one.id for one in several], chief)

    async def approve(self, suggestion):
        return await self.suggestions.approve(suggestion.id)

    def now(self, suggestion):
        """What has become of it."""
        return self.suggestions.get(suggestion.id)

    def file(self, suggestion) -> Path:
        return self.vault / self.suggestions.record(suggestion.id).file

    def said(self, suggestion) -> str:
        return self.file(suggestion).read_text("utf-8")

    def tick(self, suggestion, *boxes: str) -> None:
        """A person ticks boxes in an editor."""
        file = self.file(suggestion)
        text = file.read_text("utf-8")
        for box in boxes:
            assert f"- [ ] {box}" in text
            text = text.replace(f"- [ ] {box}", f"- [x] {box}", 1)
        file.write_text(text, "utf-8")
