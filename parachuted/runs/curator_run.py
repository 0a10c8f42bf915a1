"""Curator run: one attempt at a task, from its account to what is reviewed, kept or taken back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from parachuted.access.grant import curator_grant
from parachuted.access.origin import SessionTaints, Taint
from parachuted.access.run_records import QuotedPaths
from parachuted.agents import Job
from parachuted.agents.active_runs import Reach
from parachuted.bubbling import PendingChange
from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentStoppedError,
    AgentUnavailableError,
    StorageFailedError,
)
from parachuted.history.run_account import NAME, RunAccount
from parachuted.history.undo import Undo
from parachuted.hooks import event_data
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_hooks import AgentHooks
from parachuted.runs.run import Run, RunServices
from parachuted.runs.task_reviews import TaskReviews
from parachuted.state import StateStore
from parachuted.tasks import RunOutcome
from parachuted.tools.context_files import ContextFiles
from parachuted.vault import printable

log = logging.getLogger(__name__)

_LONGEST_SESSION = 20
_STORAGE_CHECK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratorWork:
    """What one run of a curator is about: `looked` is what it reviews, `job` all but the tools."""

    account: RunAccount
    files: ContextFiles
    job: Job
    looked: Sequence[PendingChange]


class CuratorSessions:
    """The session in which each watcher's curator goes on, and what was read in it."""

    def __init__(self, state: StateStore, taints: SessionTaints | None, backend: str) -> None:
        self._sessions, self._taints = state.table("agent_sessions"), taints
        self._backend = backend

    def get(self, watcher: str) -> str | None:
        """The session to go on with.

        Each run resends all before it, so after some runs there is a new one.
        """
        row = self._sessions.get_record(watcher)
        if row is None or row["backend"] != self._backend or row["runs"] >= _LONGEST_SESSION:
            return None
        return str(row["session_id"])

    def recall(self, watcher: str, files: ContextFiles) -> None:
        """Mark a run with all that was read in the session that it goes on with."""
        session = self.get(watcher)
        if session is None:
            return
        row = self._sessions.get_record(watcher)
        files.quoted.add_all(
            QuotedPaths.from_document(row.get("quotes") if row is not None else None)
        )
        if self._taints is not None:
            self._taints.recall(session, files.taint)

    def keep(self, account: RunAccount, taint: Taint) -> None:
        """The next run of the watcher goes on with this one's session."""
        watcher = account.task.watcher
        if account.cost is None or account.cost.session_id is None:
            self.drop(watcher, taint)
            return
        session = account.cost.session_id
        if self._taints is not None:
            self._taints.keep(session, taint, agent=f"{NAME} of {watcher}")
        before = self._sessions.get_record(watcher)
        went_on = (
            before is not None
            and before["session_id"] == session
            and before["runs"] < _LONGEST_SESSION
        )
        row = {
            "backend": self._backend,
            "session_id": session,
            "runs": before["runs"] + 1 if before is not None and went_on else 1,
            "quotes": account.quotes(),
        }
        self._sessions.put(watcher, row)

    def drop(self, watcher: str, taint: Taint) -> None:
        """A run that was cut short may have left a stranger's text in its session, unrecorded: the
        next run has a new one.
        """
        if taint:
            with contextlib.suppress(
                StorageFailedError
            ):  # reported elsewhere; the daemon is on its way down, or waits for its disk
                self._sessions.drop(watcher)


class CuratorRun(Run):
    """One attempt at a task."""

    cancelled = "the run was ended with the daemon, and is done again"

    def __init__(
        self,
        work: CuratorWork,
        *,
        services: RunServices,
        hooks: AgentHooks,
        reviews: TaskReviews,
        sessions: CuratorSessions,
        undo: Undo,
    ) -> None:
        super().__init__(services, hooks, work.account.task, agent=NAME)
        self.account, self.job = work.account, work.job
        self._files, self._looked, self._store = work.files, work.looked, work.files.store
        self._reviews, self._sessions, self._undo = reviews, sessions, undo

    def reach(self) -> Reach:
        files = self._files.grant
        granted = curator_grant(own=files.own, watched=files.watched)
        return granted.reads, granted.writes

    async def work(self) -> RunOutcome:
        """Let the agent work.

        Raises AgentUnavailableError and AgentStoppedError when the run is to be tried again.
        """
        account, files = self.account, self._files
        if not account.changes:
            return RunOutcome(result="unchanged", reason="nothing was left to review")
        try:
            await self._ask_to_wake()
            account.prompt = await self.hooks.prompt(account.prompt)
        except ActRefusedError as error:  # the differences stay open until there is another
            return RunOutcome(result="failed", reason=error.message)
        job = replace(
            self.job,
            prompt=account.prompt,
            tools=self.hooks.tools(self.audit.tools(files.tools())),
            ended=self.hooks.ended,
            compacting=self.hooks.compacting,
        )
        failed: AgentFailedError | None = None
        try:
            await self.follow(job)
        except (AgentStoppedError, AgentUnavailableError):
            raise
        except AgentFailedError as error:
            failed = error
        if files.trouble is not None:  # the disk may take it later
            raise AgentStoppedError(files.trouble) from failed
        if failed is not None:
            return RunOutcome(result="failed", reason=failed.message)
        return self.hooks.outcome(
            account, files.declined or account.last_said or "the agent wrote nothing"
        )

    async def settle(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        """What was reviewed is closed, unless the run failed; what is tried again is taken back."""
        if error is None:
            await self._until_stored(self._close, outcome, self.services.clock())
            return True
        if not isinstance(error, AgentUnavailableError) or self.account.written:
            self._sessions.drop(self.task.watcher, self._files.taint)
        if isinstance(error, AgentStoppedError | AgentUnavailableError):
            await self._until_stored(self._put_back, outcome.reason)
        return False

    async def _ask_to_wake(self) -> None:
        """Ask hooks whether the watcher may be woken. Raises ActRefusedError."""
        if not self.hooks.wants("bubble.before"):
            return
        account, watcher = self.account, printable(self.task.watcher)
        data = {
            "watcher": watcher,
            "run": self.task.run,
            "paths": [note.path for note in account.changes],
            "causes": list(self.task.causes),
            "most_cost_usd": self.job.limits.max_cost_usd if account.backend != "offline" else 0.0,
        }
        texts = [note.diff for note in account.changes if note.diff]
        units = dict.fromkeys(
            f"{note.path}#{unit}" for note in account.changes for unit in note.units
        )
        decision = await self.hooks.ask(
            "bubble.before",
            event_data(data, self._store.folder),
            diff={"text": "\n".join(texts), "changed": list(units)},
        )
        if not decision.allowed:
            raise ActRefusedError(f"a hook objected to waking {watcher}: {decision.reason}")

    async def _until_stored(self, record: Callable[..., Awaitable[None]], *what: object) -> None:
        """While the disk refuses, wait for it: the agent's work must not be done again."""
        while True:
            try:
                return await record(*what)
            except (StorageFailedError, OSError) as error:
                log.warning(
                    "a run's end could not be recorded yet",
                    extra={"run": self.id, "error": str(error)},
                )
                await asyncio.sleep(_STORAGE_CHECK_S)

    async def _close(self, outcome: RunOutcome, at: datetime) -> None:
        await self._store.notice(
            [written.path for written in self.account.written if written.changed]
        )
        await asyncio.to_thread(self.services.accounts.close, self.account, outcome, at)
        self._sessions.keep(self.account, self._files.taint)
        await self._reviews.close(self.task, self._looked, failed=outcome.result == "failed")

    async def _put_back(self, reason: str) -> None:
        """The run is done again later: what it wrote is taken back, or it would be there twice."""
        reverted = await run_uninterrupted(self._undo.take_back, [self.id])
        for note in reverted:
            if note.kept:
                log.warning(
                    "some text of a run that was ended stays",
                    extra={"run": self.id, "path": printable(note.path)},
                )
        await self._store.notice([note.path for note in reverted if note.changed])
        self.account.written = ()
        await self._reviews.release(self._looked)
        await asyncio.to_thread(self.services.accounts.wait, self.account, reason)
