"""Curator run: one attempt at a task, from its account to what is reviewed, kept or taken back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from parachuted.access.origin import Taint
from parachuted.access.origins import Origins
from parachuted.access.quoted import QuotedPaths
from parachuted.access.session_taint import SessionTaints
from parachuted.agents import Job
from parachuted.agents.active_runs import ActiveRun, ActiveRuns
from parachuted.audit.events import AuditRecorder, NullAuditRecorder
from parachuted.bubbling import PendingChange, PendingChanges, WatchRegistry
from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentStoppedError,
    AgentUnavailableError,
    StorageFailedError,
)
from parachuted.events import Bus
from parachuted.history.run_account import NAME, RunAccount
from parachuted.history.undo import Undo
from parachuted.hooks import cause_data, event_data
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.agent_hooks import AgentHooks, HookAsker, NoHooks, replaced_text, saw_source
from parachuted.runs.lifecycle import RunLifecycle
from parachuted.runs.run_audit import RunAudit
from parachuted.state import StateStore
from parachuted.tasks import Causes, Queue, RunOutcome
from parachuted.tools.context_files import ContextFiles
from parachuted.vault import History, ObjectStore, Store, VaultIndex, printable

log = logging.getLogger(__name__)

_LONGEST_SESSION = 20
_PIECE = 250
_STORAGE_CHECK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratorParts:
    """What a curator works with."""

    store: Store
    objects: ObjectStore
    index: VaultIndex
    history: History
    state: StateStore
    watches: WatchRegistry
    reviews: PendingChanges
    causes: Causes
    queue: Queue
    bus: Bus
    clock: Callable[[], datetime]
    notice: Callable[[Iterable[str]], Awaitable[None]]
    audit: AuditRecorder = field(default_factory=NullAuditRecorder)
    asker: HookAsker = field(default_factory=NoHooks)
    at_work: ActiveRuns = field(default_factory=ActiveRuns)
    origins: Origins | None = None
    taints: SessionTaints | None = None


class CuratorSessions:
    """The session in which each watcher's curator goes on, and what was read in it."""

    def __init__(self, state: StateStore, taints: SessionTaints | None, backend: str) -> None:
        self._sessions, self._taints = state.table("agent_sessions"), taints
        self._backend = backend

    def get(self, watcher: str) -> str | None:
        """The session to go on with.

        Each run resends all before it, so after some runs there is a new one.
        """
        row = self._sessions.take(watcher)
        if row is None or row["backend"] != self._backend or row["runs"] >= _LONGEST_SESSION:
            return None
        return str(row["session_id"])

    def recall(self, watcher: str, files: ContextFiles) -> None:
        """Mark a run with all that was read in the session that it goes on with."""
        session = self.get(watcher)
        if session is None:
            return
        row = self._sessions.take(watcher)
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
        before = self._sessions.take(watcher)
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


class CuratorRun:
    """One attempt, of which `looked` is what it reviews and `job` all but the tools."""

    cancelled = "the run was ended with the daemon, and is done again"

    def __init__(
        self,
        parts: CuratorParts,
        lifecycle: RunLifecycle,
        sessions: CuratorSessions,
        *,
        account: RunAccount,
        files: ContextFiles,
        job: Job,
        looked: Sequence[PendingChange],
    ) -> None:
        self._parts, self._lifecycle, self._sessions = parts, lifecycle, sessions
        self._files, self._job, self._looked = files, job, looked
        self._task, self._limits = account.task, job.limits
        self.account = account
        self.audit = RunAudit(
            parts.audit, parts.clock, account.task, agent=NAME, backend=account.backend
        )

    @property
    def active(self) -> ActiveRun:
        """As it is listed while it works."""
        return ActiveRun(
            run=str(self._task.run), agent=NAME, entry="bubble", since=self.account.started
        )

    async def work(self) -> RunOutcome:
        """Let the agent work.

        Raises AgentUnavailableError and AgentStoppedError when the run is to be tried again.
        """
        account, files = self.account, self._files
        if not account.changes:
            return RunOutcome(result="unchanged", reason="nothing was left to review")
        hooks = self._hooks()
        try:
            await self._let_bubble(hooks)
            account.prompt = await hooks.prompt(account.prompt)
        except ActRefusedError as error:  # the differences stay open until there is another
            return RunOutcome(result="failed", reason=error.message)
        job = replace(
            self._job,
            prompt=account.prompt,
            tools=hooks.tools(self.audit.tools(files.tools())),
            ended=hooks.ended,
        )
        try:
            await self._lifecycle.follow(job, account, self.audit, hooks)
        except AgentStoppedError:
            raise
        except AgentUnavailableError as error:
            if account.written:
                raise AgentStoppedError(error.message) from error
            raise
        except AgentFailedError as error:
            return RunOutcome(result="failed", reason=error.message)
        if files.trouble is not None:  # the disk may take it later
            raise AgentStoppedError(files.trouble)
        return hooks.outcome(
            account, files.declined or account.last_said or "the agent wrote nothing"
        )

    async def close(self, outcome: RunOutcome, error: BaseException | None) -> bool:
        """What was reviewed is closed, unless the run failed; what is tried again is taken back."""
        if error is None:
            await self._until_stored(self._end, outcome, self._parts.clock())
            return True
        if not isinstance(error, AgentUnavailableError):
            self._sessions.drop(self._task.watcher, self._files.taint)
        if isinstance(error, AgentStoppedError):
            await self._until_stored(self._take_back, outcome.reason)
        elif isinstance(error, AgentUnavailableError):
            await self._wait(outcome.reason)
        return False

    def _hooks(self) -> AgentHooks:
        parts, task, account = self._parts, self._task, self.account
        first = task.causes[0] if task.causes else None
        began = parts.causes.get(first) if first is not None else None
        root = printable(began.path) if began is not None else None
        cause = cause_data(
            task.causes, actor=NAME, run=task.run, root=root, depth=1 + len(task.parents)
        )
        return AgentHooks(
            asker=parts.asker,
            clock=parts.clock,
            vault=parts.store.folder,
            session_id=str(task.run),
            agent=NAME,
            cause=cause,
            publish=parts.bus.publish,
            added=account.quoted.add_anything,
            saw=lambda source: saw_source(source, parts.store, parts.origins, self._files.taint),
            replaced=partial(replaced_text, parts.store),
        )

    async def _let_bubble(self, hooks: AgentHooks) -> None:
        """Ask whether the watcher may be woken. Raises ActRefusedError."""
        if not self._parts.asker.wants("bubble.before"):
            return
        task, account = self._task, self.account
        data = {
            "watcher": printable(task.watcher),
            "run": task.run,
            "paths": [note.path for note in account.changes],
            "causes": list(task.causes),
            "most_cost_usd": self._limits.max_cost_usd if account.backend != "offline" else 0.0,
        }
        texts = [note.diff for note in account.changes if note.diff]
        units = list(
            dict.fromkeys(f"{note.path}#{unit}" for note in account.changes for unit in note.units)
        )
        told = event_data(data, self._parts.store.folder)
        decision = await hooks.asker.ask(
            hooks.hook_event(
                "bubble.before", told, diff={"text": "\n".join(texts), "changed": units}
            )
        )
        if not decision.allowed:
            raise ActRefusedError(
                f"a hook objected to waking {printable(task.watcher)}: {decision.reason}"
            )

    async def _until_stored(self, record: Callable[..., Awaitable[None]], *what: object) -> None:
        """While the disk refuses, wait for it: the agent's work must not be done again."""
        while True:
            try:
                await record(*what)
            except (StorageFailedError, OSError) as error:
                log.warning(
                    "a run's end could not be recorded yet",
                    extra={"run": self._task.run, "error": str(error)},
                )
                await asyncio.sleep(_STORAGE_CHECK_S)
            else:
                return

    async def _end(self, outcome: RunOutcome, at: datetime) -> None:
        await self._parts.notice(
            [written.path for written in self.account.written if written.changed]
        )
        await asyncio.to_thread(self._lifecycle.accounts.close, self.account, outcome, at)
        self._sessions.keep(self.account, self._files.taint)
        await self._settle(failed=outcome.result == "failed")

    async def _settle(self, *, failed: bool) -> None:
        """What was reviewed is closed, unless the run failed, and the task goes.

        May be cut short, and gone through again.
        """
        for piece in in_pieces(self._looked):
            with self._parts.state.batch():
                for review in piece:
                    settle(
                        self._parts.reviews,
                        review,
                        digest_in(self._parts.index, review.path),
                        self._parts.clock(),
                        failed=failed,
                    )
            await asyncio.sleep(0)
        self._parts.queue.finish(self._task)

    async def _take_back(self, reason: str) -> None:
        """Take back what a run wrote that is done again later, or it would be there twice."""
        parts, run = self._parts, str(self._task.run)
        undo = Undo(
            store=parts.store,
            objects=parts.objects,
            history=parts.history,
            bus=parts.bus,
            clock=parts.clock,
            notice=parts.notice,
        )
        reverted = await run_uninterrupted(undo.take_back, [run])
        for one in reverted:
            if one.kept:
                log.warning(
                    "some text of a run that was ended stays",
                    extra={"run": run, "path": printable(one.path)},
                )
        await parts.notice([one.path for one in reverted if one.changed])
        self.account.written = ()
        await self._wait(reason)

    async def _wait(self, reason: str) -> None:
        """The same run is tried again."""
        await self._give_up()
        await asyncio.to_thread(self._lifecycle.accounts.wait, self.account, reason)

    async def _give_up(self) -> None:
        for piece in in_pieces(self._looked):
            with self._parts.state.batch():
                for review in piece:
                    self._parts.reviews.give_up(review)
            await asyncio.sleep(0)


def settle(
    reviews: PendingChanges,
    looked: PendingChange,
    present: str | None,
    at: datetime,
    *,
    failed: bool,
) -> None:
    """A run is over: what it looked at has been seen, unless it failed."""
    if failed:
        reviews.give_up(looked)
    else:
        reviews.saw(looked, present, at)


def in_pieces(reviews: Sequence[PendingChange]) -> Iterable[Sequence[PendingChange]]:
    """So many as one batch may hold without keeping others waiting."""
    return (reviews[start : start + _PIECE] for start in range(0, len(reviews), _PIECE))


def digest_in(index: VaultIndex, path: str) -> str | None:
    """What is in that file now, as the index knows it."""
    entry = index.get(path)
    return entry.digest if entry is not None else None
