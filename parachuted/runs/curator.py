"""Curator: asks an agent to bring a watching note up to date with what changed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from parachuted.access.granting import curator_grant
from parachuted.agents import Backend, Job, RunLimits
from parachuted.agents.digest import find_generated
from parachuted.agents.part_changes import PartChanges
from parachuted.bubbling import PendingChange
from parachuted.bubbling.trie import WatchMatch
from parachuted.errors import (
    AgentStoppedError,
    AgentUnavailableError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
)
from parachuted.history.run_account import NAME, RunAccount, RunAccounts
from parachuted.runs.briefing import SYSTEM_PROMPT, changed_notes, prompt_for
from parachuted.runs.curator_run import (
    CuratorParts,
    CuratorRun,
    CuratorSessions,
    digest_in,
    in_pieces,
)
from parachuted.runs.lifecycle import RunLifecycle
from parachuted.tasks import RunOutcome, Task
from parachuted.tools.context_files import ContextFiles, ContextGrant
from parachuted.vault import (
    Author,
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


class Curator:
    """Does the work of tasks, with one backend."""

    def __init__(
        self, parts: CuratorParts, backend: Backend, *, model: str | None, limits: RunLimits
    ) -> None:
        self._parts, self._backend, self._model, self._limits = parts, backend, model, limits
        self._sessions = CuratorSessions(parts.state, parts.taints, backend.name)
        self._lifecycle = RunLifecycle(
            backend=backend,
            accounts=RunAccounts(parts.history, parts.objects, parts.causes),
            active_runs=parts.at_work,
            bus=parts.bus,
        )

    async def perform(self, task: Task) -> RunOutcome:
        """One run of a task that has begun.

        Raises AgentUnavailableError when the agent could not begin, and StorageFailedError or
        OSError when the disk refuses: try later.
        """
        asked = self._parts.at_work.moment
        await asyncio.to_thread(self._refuse_conflict, VaultPath(task.watcher))
        looked = await self._look(task)
        run = await asyncio.to_thread(self._prepare, task, looked)
        await self._lifecycle.open(run.account)
        try:
            return await self._lifecycle.run(run, since=asked)
        except AgentStoppedError as error:
            raise AgentUnavailableError(error.message) from error

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
        for piece in in_pieces(
            [review for review in self._parts.reviews.of(task.watcher) if not review.is_in_conflict]
        ):
            with self._parts.state.batch():
                looked += [
                    self._parts.reviews.look_at(review, digest_in(self._parts.index, review.path))
                    for review in piece
                ]
            await asyncio.sleep(0)
        return looked

    def _prepare(self, task: Task, looked: Sequence[PendingChange]) -> CuratorRun:
        """The agent's grant and prompt. Blocks on the disk."""
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
        job = Job(
            id=str(task.run),
            watcher=printable(task.watcher),
            system_prompt=SYSTEM_PROMPT,
            prompt=account.prompt,
            tools=(),
            limits=self._limits,
            changes=tuple(changes),
            at=account.started,
            session_id=self._sessions.get(task.watcher),
            agent=NAME,
            causes=task.causes,
            watched=len(grant.watched) - len(grant.past) + grant.left_out,
            links=link_setting(parts.store.folder),
            generated=self._generated(grant.own) if changes else None,
        )
        return CuratorRun(
            parts,
            self._lifecycle,
            self._sessions,
            account=account,
            files=files,
            job=job,
            looked=looked,
        )

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
        parts = self._parts
        self._sessions.recall(watcher, files)
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
