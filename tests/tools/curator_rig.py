"""Study: a desk with a curator at it. What it writes is noticed as the noticer would."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field

from parachuted.access.strangers import Strangers
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.job import Backend, RunLimits
from parachuted.history import Undo
from parachuted.history.acts import ActFinisher
from parachuted.hooks import Hooks
from parachuted.runs.curator import Curator, RunRecovery, TaskReviews
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.tasks import RunOutcome
from parachuted.testing import ScriptedBackend
from parachuted.vault import Store, VaultRoot, WriteJournal
from tests.bubbling.reconciler_rig import ReconcilerRig
from tests.runs.task_rig import make_parts

LIMITS = RunLimits(timeout_s=60, max_turns=12, max_cost_usd=0.25)


@dataclass
class CuratorRig(ReconcilerRig):
    backend: Backend = field(default_factory=ScriptedBackend)
    refusals: list[Exception] = field(default_factory=list)

    def open(self) -> None:
        super().open()
        self.history = WriteJournal(self.folder / "history.db")
        weakref.finalize(self, self.history.close)
        self.store = Store(
            VaultRoot(self.vault), self.objects, self.history, self.clock, notice=self.notice
        )
        self.undo = Undo(self.store, self.bus)
        self.at_work = ActiveRuns()
        self.task_reviews = TaskReviews(
            state=self.state,
            pending=self.reviews,
            queue=self.queue,
            index=self.index,
            clock=self.clock,
        )
        self.curator = self.curator_with(self.backend)
        self.aftermath = RunRecovery(
            acts=ActFinisher(self.store),
            reviews=self.task_reviews,
            history=self.history,
            undo=self.undo,
        )

    def curator_with(
        self,
        backend: Backend,
        *,
        asker: Hooks | None = None,
        strangers: Strangers | None = None,
    ) -> Curator:
        vaults = GrantedVaults(self.store, self.index, None, strangers=strangers or Strangers())
        parts = make_parts(self, vaults, backend, asker, self.causes, active_runs=self.at_work)
        return Curator(
            parts=parts,
            watches=self.watches,
            reviews=self.task_reviews,
            undo=self.undo,
            limits=LIMITS,
        )

    def hook(self, asker: Hooks) -> None:
        self.curator = self.curator_with(self.backend, asker=asker)

    def reopen(self) -> None:
        """The daemon is gone, without a word, and the next one opens the state."""
        self.state.close()
        self.history.close()
        self.open()

    async def notice(self, paths: Iterable[str]) -> None:
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
        task = self.queue.queued(f"{watcher}.md")
        assert task is not None
        return await self.curator.perform(
            self.queue.begin(task, task.run or f"r-{next(self._numbers):04}-{watcher}", task.causes)
        )

    def text(self, name: str) -> str:
        return (self.vault / f"{name}.md").read_text("utf-8")
