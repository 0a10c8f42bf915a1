"""Curator: one run.

It asks an agent to bring a watcher's note up to date with what changed, and records what came of
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from parachuted.access.granting import curator_grant
from parachuted.access.origin import Taint
from parachuted.access.origins import Origins
from parachuted.access.quoted import QuotedPaths
from parachuted.access.session_taint import SessionTaints
from parachuted.agents import Backend, Job, RunLimits
from parachuted.agents.active_runs import ActiveRun, ActiveRuns
from parachuted.agents.digest import find_generated
from parachuted.agents.part_changes import PartChanges
from parachuted.audit.events import AuditRecorder, NullAuditRecorder
from parachuted.bubbling import PendingChange, PendingChanges, WatchRegistry
from parachuted.bubbling.trie import WatchMatch
from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentStoppedError,
    AgentUnavailableError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.events import Bus
from parachuted.history.run_account import NAME, RunAccount, RunAccounts
from parachuted.history.undo import Undo
from parachuted.hooks import cause_data, event_data
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.state import StateStore
from parachuted.tasks import Causes, Queue, RunOutcome, Task
from parachuted.tools.agent_hooks import AgentHooks, HookAsker, NoHooks, replaced_text, saw_source
from parachuted.tools.audited import RunAudit
from parachuted.tools.briefing import SYSTEM_PROMPT, changed_notes, prompt_for
from parachuted.tools.context_files import ContextFiles, ContextGrant
from parachuted.vault import (
    Author,
    History,
    ObjectStore,
    Store,
    VaultIndex,
    VaultPath,
    parse_note,
    printable,
)
from parachuted.vault.conflicts import conflict_line
from parachuted.vault.link_setting import link_setting

log = logging.getLogger(__name__)

_MOST_WATCHED = 200
_LONGEST_SESSION = 20
_LARGEST_OWN = 64 << 10
_PIECE = 250
_GRACE_S = 30.0
_NOT_WATCHED = PartChanges(label="", items=("no longer watched",))
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


class Curator:
    """Does the work of tasks, with one backend."""

    def __init__(
        self, parts: CuratorParts, backend: Backend, *, model: str | None, limits: RunLimits
    ) -> None:
        self._parts, self._backend, self._model, self._limits = parts, backend, model, limits
        self._sessions = parts.state.table("agent_sessions")
        self._accounts = RunAccounts(parts.history, parts.objects, parts.causes)

    async def perform(self, task: Task) -> RunOutcome:
        """One run of a task that has begun.

        Raises AgentUnavailableError when the agent could not begin, and StorageFailedError or
        OSError when the disk refuses: try later.
        """
        asked = self._parts.at_work.moment
        await asyncio.to_thread(self._refuse_conflict, VaultPath(task.watcher))
        looked = await self._look(task)
        files, account = await asyncio.to_thread(self._prepare, task, looked)
        await asyncio.to_thread(self._accounts.open, account)
        audit = RunAudit(
            self._parts.audit, self._parts.clock, task, agent=NAME, backend=self._backend.name
        )
        audit.began()
        try:
            working = ActiveRun(
                run=str(task.run), agent=NAME, entry="bubble", since=account.started
            )
            outcome = await self._parts.at_work.hold(
                working, self._ask(account, files, audit), since=asked
            )
        except AgentStoppedError as error:
            self._lose_session(task, files.taint)
            audit.ended(RunOutcome(result="failed", reason=error.message))
            await self._stopped(looked, account, error.message)
            raise AgentUnavailableError(error.message) from error
        except AgentUnavailableError as error:
            audit.ended(RunOutcome(result="failed", reason=error.message))
            await self._give_up(looked)
            await asyncio.to_thread(self._accounts.wait, account, error.message)
            raise
        except asyncio.CancelledError:
            self._lose_session(task, files.taint)
            audit.ended(
                RunOutcome(
                    result="failed", reason="the run was ended with the daemon, and is done again"
                )
            )
            raise
        audit.ended(outcome)
        await self._end(looked, account, outcome, files.taint)
        paths = [printable(path) for path in account.net]
        cost = account.cost.cost_usd if account.cost else 0.0
        extra = {
            "run": task.run,
            "watcher": printable(task.watcher),
            "outcome": outcome.result,
            "reason": outcome.reason,
        }
        log.info("run ended", extra=extra)
        self._parts.bus.publish(
            "run.finished",
            run=task.run,
            watcher=printable(task.watcher),
            outcome=outcome.result,
            reason=outcome.reason,
            paths=paths,
            cost_usd=cost,
        )
        return outcome

    def _refuse_conflict(self, watcher: VaultPath) -> None:
        """Raise AgentUnavailableError while the watcher's own note has conflict markers, which are
        a person's to resolve.
        """
        with contextlib.suppress(NotFoundError, PathRefusedError):
            line = conflict_line(self._parts.store.read(watcher).data)
            if line is not None:
                raise AgentUnavailableError(
                    f"{printable(watcher)} has conflict markers (line {line}); resolve them, and "
                    "the run begins"
                )

    async def _look(self, task: Task) -> list[PendingChange]:
        """Mark what the run reviews, so that what changes meanwhile stays open."""
        looked: list[PendingChange] = []
        for piece in _pieces(
            [review for review in self._parts.reviews.of(task.watcher) if not review.is_in_conflict]
        ):
            with self._parts.state.batch():
                looked += [
                    self._parts.reviews.look_at(review, self._digest(review.path))
                    for review in piece
                ]
            await asyncio.sleep(0)
        return looked

    def _digest(self, path: str) -> str | None:
        entry = self._parts.index.get(path)
        return entry.digest if entry is not None else None

    def _prepare(
        self, task: Task, looked: Sequence[PendingChange]
    ) -> tuple[ContextFiles, RunAccount]:
        """In a thread, since it reads: the agent's tools, and what it will be told."""
        parts, watcher = self._parts, VaultPath(task.watcher)
        reviews = [
            review
            for review in looked
            if review.asked or review.source or review.base != (review.reviewing or None)
        ]
        changes = changed_notes(reviews, parts.objects, self._match_of(watcher))
        watched = sorted(parts.watches.watched_by(watcher), key=self._modified, reverse=True)
        grant = _grant(watcher, [review for review in reviews if review.reviewing], watched)
        past = set(map(printable, grant.past))
        changes = tuple(
            replace(note, news=(*note.news, _NOT_WATCHED)) if note.path in past else note
            for note in changes
        )
        files = ContextFiles(
            store=parts.store,
            grant=grant,
            author=Author(by=NAME, run=str(task.run), causes=task.causes),
            clock=parts.clock,
            origins=parts.origins,
        )
        self._recall(files, reviews, task.watcher)
        account = RunAccount(
            task=task,
            backend=self._backend.name,
            model=self._model,
            started=parts.clock(),
            changes=changes,
            written=files.written,
            prompt=prompt_for(watcher, self._own_text(files), changes),
            system_prompt=SYSTEM_PROMPT,
            quoted=files.quoted,
        )
        return files, account

    def _match_of(self, watcher: str) -> Callable[[str], WatchMatch | None]:
        """By which of its patterns the watcher watches a path."""
        return lambda path: next(
            (match for match in self._parts.watches.watchers_of(path) if match.watcher == watcher),
            None,
        )

    def _modified(self, path: str) -> int:
        entry = self._parts.index.get(path)
        return entry.mtime_ns if entry is not None else 0

    def _generated(self, own: VaultPath) -> tuple[str, ...] | None:
        """The lines of the generated section as a run left them, where somebody has edited it
        since. Blocks on the disk.
        """
        try:
            present = find_generated(parse_note(self._parts.store.read(own).data))
        except ParachuteError:  # the agent will be told the same
            return None
        if present is None or not present.is_edited:
            return None
        for write in reversed(self._parts.history.writes_of(own)):
            data = (
                self._parts.objects.get(write.after)
                if write.author.by == NAME and write.after is not None
                else None
            )
            then = find_generated(parse_note(data)) if data is not None else None
            if then is not None and then.check == present.check and not then.is_edited:
                return then.inside
        return None

    def _recall(self, files: ContextFiles, reviews: Sequence[PendingChange], watcher: str) -> None:
        """What it has read before it begins: the differences that it is told, and all of the
        session that it goes on with.
        """
        parts, session = self._parts, self._session(watcher)
        if session is not None:
            row = self._sessions.take(watcher)
            files.quoted.add_all(
                QuotedPaths.from_document(row.get("quotes") if row is not None else None)
            )
            if parts.taints is not None:
                parts.taints.recall(session, files.taint)
        for review in reviews if parts.origins is not None else ():
            if review.source and parts.origins is not None:
                files.taint.read(printable(review.source), parts.origins.of(review.source))
            for digest in filter(None, (review.base, review.reviewing)):
                files.saw(review.path, parts.objects.get(digest) or b"", digest)

    def _own_text(self, files: ContextFiles) -> str:
        """The watcher's own note.

        What the agent is shown of it is what its edits are decided on.
        """
        try:
            content = self._parts.store.read(files.grant.own, keep=True)
        except ParachuteError as error:
            return f"(cannot be read: {error.message})"
        files.read[files.grant.own] = content.digest
        files.saw(files.grant.own, content.data)
        text = content.data[:_LARGEST_OWN].decode("utf-8", "replace")
        return (
            text
            if len(content.data) <= _LARGEST_OWN
            else f"{text}\n(cut: the note has {len(content.data)} bytes)"
        )

    async def _ask(self, account: RunAccount, files: ContextFiles, audit: RunAudit) -> RunOutcome:
        if not account.changes:
            return RunOutcome(result="unchanged", reason="nothing was left to review")
        task, hooks = account.task, self._hooks(account, files)
        try:
            await self._let_bubble(hooks, account)
            account.prompt = await hooks.prompt(account.prompt)
        except (
            ActRefusedError
        ) as error:  # the differences stay open, and nobody asks again before there is another
            return RunOutcome(result="failed", reason=error.message)
        job = Job(
            id=str(task.run),
            watcher=printable(task.watcher),
            system_prompt=SYSTEM_PROMPT,
            prompt=account.prompt,
            tools=hooks.tools(audit.tools(files.tools())),
            limits=self._limits,
            changes=tuple(account.changes),
            at=account.started,
            session_id=self._session(task.watcher),
            agent=NAME,
            causes=task.causes,
            ended=hooks.ended,
            watched=len(files.grant.watched) - len(files.grant.past) + files.grant.left_out,
            links=await asyncio.to_thread(link_setting, self._parts.store.folder),
            generated=await asyncio.to_thread(self._generated, files.grant.own),
        )
        if (problem := await self._work(job, account, audit)) is not None:
            return RunOutcome(result="failed", reason=problem)
        ending = await hooks.stopping(account.last_said)
        if not ending.allowed:
            log.info(
                "a hook wants a run to go on, which no run does",
                extra={"run": task.run, "reason": ending.reason},
            )
        if files.trouble is not None:  # the disk may take it later
            raise AgentStoppedError(files.trouble)
        return hooks.outcome(
            account, files.declined or account.last_said or "the agent wrote nothing"
        )

    async def _work(self, job: Job, account: RunAccount, audit: RunAudit) -> str | None:
        """Do the job; why it failed, or None.

        Raises AgentUnavailableError and AgentStoppedError for what passes.
        """
        try:
            await self._follow(job, account, audit)
        except AgentStoppedError:
            raise
        except AgentUnavailableError as error:
            if account.written:
                raise AgentStoppedError(error.message) from error
            raise
        except AgentFailedError as error:
            return error.message
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            return f"the backend {self._backend.name} broke: it was cancelled from within"
        except Exception as error:
            log.exception("the agent's backend broke", extra={"run": job.id})
            return f"the backend {self._backend.name} broke: {type(error).__name__}"
        return None

    def _hooks(self, account: RunAccount, files: ContextFiles) -> AgentHooks:
        parts, task = self._parts, account.task
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
            saw=lambda source: saw_source(source, parts.store, parts.origins, files.taint),
            replaced=partial(replaced_text, parts.store),
        )

    async def _let_bubble(self, hooks: AgentHooks, account: RunAccount) -> None:
        """Ask whether the watcher may be woken. Raises ActRefusedError."""
        if not self._parts.asker.wants("bubble.before"):
            return
        task = account.task
        data = {
            "watcher": printable(task.watcher),
            "run": task.run,
            "paths": [note.path for note in account.changes],
            "causes": list(task.causes),
            "most_cost_usd": self._limits.max_cost_usd if self._backend.name != "offline" else 0.0,
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

    async def _follow(self, job: Job, account: RunAccount, audit: RunAudit) -> None:
        """Do the job. The backend keeps the limits; one that does not is ended some time later."""
        async with (
            asyncio.timeout(self._limits.timeout_s + _GRACE_S),
            contextlib.aclosing(self._backend.run(job)) as steps,  # type: ignore[type-var]
        ):
            async for step in steps:
                account.note(step)
                audit.note(step)
        if (reason := job.ended()) is not None:
            raise AgentFailedError(reason)

    def _session(self, watcher: str) -> str | None:
        """The session to go on with.

        Each run resends all before it, so after some runs a new one is begun.
        """
        row = self._sessions.take(watcher)
        if row is None or row["backend"] != self._backend.name or row["runs"] >= _LONGEST_SESSION:
            return None
        return str(row["session_id"])

    def _keep_session(self, account: RunAccount, taint: Taint) -> None:
        if account.cost is not None and account.cost.session_id is not None:
            watcher, session = account.task.watcher, account.cost.session_id
            if self._parts.taints is not None:
                self._parts.taints.keep(session, taint, agent=f"{NAME} of {watcher}")
            before = self._sessions.take(watcher)
            went_on = (
                before is not None
                and before["session_id"] == session
                and before["runs"] < _LONGEST_SESSION
            )
            runs = before["runs"] + 1 if before is not None and went_on else 1
            row = {
                "backend": self._backend.name,
                "session_id": session,
                "runs": runs,
                "quotes": account.quotes(),
            }
            self._sessions.put(watcher, row)
        else:
            self._lose_session(account.task, taint)

    def _lose_session(self, task: Task, taint: Taint) -> None:
        """A run that was cut short may have left what it read in its session, of which nobody has
        told: if that was a stranger's, the next one begins anew.
        """
        if taint:
            with contextlib.suppress(
                StorageFailedError
            ):  # told elsewhere; the daemon is on its way down, or waits for its disk
                self._sessions.drop(task.watcher)

    async def _end(
        self,
        looked: Sequence[PendingChange],
        account: RunAccount,
        outcome: RunOutcome,
        taint: Taint,
    ) -> None:
        """Record the end.

        The work is done and must not be done again, so while the disk refuses this waits for it.
        """
        at = self._parts.clock()
        while True:
            try:
                await self._parts.notice(
                    [written.path for written in account.written if written.changed]
                )
                await asyncio.to_thread(self._accounts.close, account, outcome, at)
                self._keep_session(account, taint)
                await self._settle(account.task, looked, failed=outcome.result == "failed")
            except (StorageFailedError, OSError) as error:
                log.warning(
                    "a run's end could not be recorded yet",
                    extra={"run": account.task.run, "error": str(error)},
                )
                await asyncio.sleep(_STORAGE_CHECK_S)
            else:
                return

    async def _settle(self, task: Task, looked: Sequence[PendingChange], *, failed: bool) -> None:
        """What was reviewed is closed, unless the run failed, and the task goes.

        May be cut short, and gone through again.
        """
        for piece in _pieces(looked):
            with self._parts.state.batch():
                for review in piece:
                    settle(
                        self._parts.reviews,
                        review,
                        self._digest(review.path),
                        self._parts.clock(),
                        failed=failed,
                    )
            await asyncio.sleep(0)
        self._parts.queue.finish(task)

    async def _stopped(
        self, looked: Sequence[PendingChange], account: RunAccount, reason: str
    ) -> None:
        """Take back what a run wrote that is done again later, or it would stand there twice.

        While the disk refuses, this waits for it.
        """
        while True:
            try:
                await self._take_back(looked, account, reason)
            except (StorageFailedError, OSError) as error:
                log.warning(
                    "a run could not be taken back yet",
                    extra={"run": account.task.run, "error": str(error)},
                )
                await asyncio.sleep(_STORAGE_CHECK_S)
            else:
                return

    async def _take_back(
        self, looked: Sequence[PendingChange], account: RunAccount, reason: str
    ) -> None:
        parts, run = self._parts, str(account.task.run)
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
        account.written = ()
        await self._give_up(looked)
        await asyncio.to_thread(self._accounts.wait, account, reason)

    async def _give_up(self, looked: Sequence[PendingChange]) -> None:
        for piece in _pieces(looked):
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


def _grant(
    watcher: VaultPath, present: Iterable[PendingChange], watched: Sequence[VaultPath]
) -> ContextGrant:
    """What the one function that grants says, as the tools of a curator take it."""
    changed = [VaultPath(review.path) for review in present]
    paths = tuple(path for path in dict.fromkeys([*changed, *watched]) if path != watcher)
    granted = curator_grant(own=watcher, watched=paths[:_MOST_WATCHED])
    return ContextGrant(
        own=watcher,
        watched=tuple(path for path in paths[:_MOST_WATCHED] if granted.may_read(path)),
        is_writable=granted.may_write(watcher),
        past=frozenset(changed).difference(watched),
        left_out=len(paths[_MOST_WATCHED:]),
    )


def _is_cancelled() -> bool:
    """Whether the run itself is to end, and not just something inside the backend."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _pieces(reviews: Sequence[PendingChange]) -> Iterable[Sequence[PendingChange]]:
    return (reviews[start : start + _PIECE] for start in range(0, len(reviews), _PIECE))
