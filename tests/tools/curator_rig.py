"""Study: a desk with a curator at it. What it writes is noticed as the noticer would."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from parachuted.agents import Backend, RunLimits
from parachuted.history import Undo
from parachuted.runs import Curator, CuratorParts, RunRecovery
from parachuted.runs.agent_hooks import HookAsker
from parachuted.tasks import RunOutcome
from parachuted.testing import ScriptedBackend
from parachuted.vault import History, Store, VaultPath, VaultRoot
from tests.bubbling.reconciler_rig import ReconcilerRig

LIMITS = RunLimits(timeout_s=5, max_turns=12, max_cost_usd=0.25)


@dataclass
class CuratorRig(ReconcilerRig):
    """`run` lets a curator do a watcher's task."""

    backend: Backend = field(default_factory=ScriptedBackend)
    refusals: list[Exception] = field(default_factory=list)

    def open(self) -> None:
        super().open()
        self.history = History(self.folder / "history.db")
        self.store = Store(VaultRoot(self.vault), self.objects, self.history, self.clock)
        self.undo = Undo(
            store=self.store,
            objects=self.objects,
            history=self.history,
            bus=self.reconciler.bus,
            clock=self.clock,
            notice=self.notice,
        )
        self.parts = CuratorParts(
            store=self.store,
            objects=self.objects,
            index=self.index,
            history=self.history,
            state=self.state,
            watches=self.watches,
            reviews=self.reviews,
            causes=self.causes,
            queue=self.queue,
            bus=self.reconciler.bus,
            clock=self.clock,
            notice=self.notice,
        )
        self.curator = Curator(self.parts, self.backend, model=None, limits=LIMITS)
        self.aftermath = RunRecovery(
            state=self.state,
            queue=self.queue,
            reviews=self.reviews,
            index=self.index,
            history=self.history,
            undo=self.undo,
            clock=self.clock,
        )

    def hook(self, asker: HookAsker) -> None:
        """From now on the curator asks these hooks."""
        self.curator = Curator(
            replace(self.parts, asker=asker), self.backend, model=None, limits=LIMITS
        )

    def reopen(self) -> None:
        """The daemon is gone, without a word, and the next one opens the state."""
        self.state.close()
        self.history.close()
        self.open()

    async def notice(self, paths: Iterable[str]) -> None:
        """What our writer wrote, by whom it wrote it."""
        if self.refusals:
            raise self.refusals.pop()
        for path in paths:
            data = (self.vault / path).read_bytes() if (self.vault / path).exists() else None
            change = self.change(path, None if data is None else data.decode())
            write = self.history.unnoticed(path, change.new.digest if change.new else None)
            if write is not None:
                change = self.change(path, None if data is None else data.decode(), by=write.author)
                self.history.notice([write])
                await self.look(change)

    async def run(self, watcher: str) -> RunOutcome:
        """The watcher's task, from its beginning to its end."""
        task = self.queue.queued(f"{watcher}.md")
        assert task is not None
        return await self.curator.perform(
            self.queue.begin(task, task.run or f"r-{next(self._numbers):04}-{watcher}", task.causes)
        )

    def text(self, name: str) -> str:
        return (self.vault / f"{name}.md").read_text("utf-8")

    def path(self, name: str) -> VaultPath:
        return VaultPath(f"{name}.md")
