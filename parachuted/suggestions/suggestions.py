"""Changes that agents and modules propose, filed as notes and applied once on approval.

Ticking a box in an editor, the command, the API and a bot's button are one act. The change is made
by the one writer, as a run that can be undone. The vault gives no authority: a file's content
counts only if it is what was proposed.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.access.origins import Origins
from parachuted.audit.events import (
    CALLER,
    AuditCaller,
    AuditEvent,
    AuditRecorder,
    NullAuditRecorder,
)
from parachuted.errors import ActRefusedError, EditRefusedError, ParachuteError, StorageFailedError
from parachuted.events import Bus
from parachuted.state import StateStore
from parachuted.suggestions.acceptance import Acceptance, acceptance_of, needs_no_asking
from parachuted.suggestions.applying import AppliedSuggestion, PlannedSuggestion, SuggestionApplier
from parachuted.suggestions.payload import changes_watch, check_payload
from parachuted.suggestions.record import SuggestionRecord, record_of
from parachuted.suggestions.run_document import save_run
from parachuted.suggestions.seal import Sealer
from parachuted.suggestions.store import SuggestionStore, shown_of, superseded, unknown
from parachuted.suggestions.suggestion import AUTO, USER, Proposal, Status, Suggestion, stands_for
from parachuted.suggestions.suggestion_file import SuggestionFile, SuggestionPreview, file_name
from parachuted.suggestions.targets import check_target, module_of
from parachuted.vault import (
    Author,
    History,
    ObjectStore,
    Store,
    VaultRoot,
    WriteResult,
    new_id,
    printable,
)

_Result = TypeVar("_Result")
_MOST_PENDING, _MOST_OF_ONE = 500, 100
_FEWEST, _MOST_AT_ONCE, _LARGEST_AT_ONCE = 2, 50, 200_000
_LONGEST_REASONING, _LONGEST_NAME = 4_000, 200
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionParts:
    """With what suggestions are filed and applied.

    `notice` takes the paths that were written, to be looked at now.

    `origins` learns what the words count as that are put in place. `auto_approve_rate`: from which
    rate of acceptance (0 to 1) an agent's `create` and `update` are done at once; 0 is never.
    """

    root: VaultRoot
    store: Store
    objects: ObjectStore
    history: History
    state: StateStore
    home: Path
    bus: Bus
    clock: Callable[[], datetime]
    notice: Callable[[Iterable[str]], Awaitable[None]]
    audit: AuditRecorder = field(default_factory=NullAuditRecorder)
    origins: Origins | None = None
    auto_approve_rate: float = 0.0


class _UnwrittenError(Exception):
    """Nothing was written, so nothing is to be recorded of it."""

    def __init__(self, applied: AppliedSuggestion) -> None:
        super().__init__(applied.why)
        self.applied = applied


class Suggestions:
    """All suggestions of one vault.

    Its methods are called on the event loop, one suggestion at a time being in one hand.
    """

    def __init__(self, parts: SuggestionParts) -> None:
        self._parts = parts
        self.store = SuggestionStore(
            store=parts.store,
            state=parts.state,
            sealer=Sealer(parts.home),
            clock=parts.clock,
            size=parts.root.size,
        )
        self._applier = SuggestionApplier(parts.root, parts.store)
        self._busy: set[str] = set()
        self._hands = WeakValueDictionary[str, asyncio.Lock]()
        self._unsettled = {
            record.suggestion.id for record in self.store.all() if record.applying is not None
        }
        self._filing = asyncio.Lock()
        self.trouble: str | None = None  # for a person: why a file does not say what is so

    def all(
        self, *, status: Status | None = None, sees: Callable[[str], bool] = lambda _path: True
    ) -> list[Suggestion]:
        """Those that exist for who `sees` these files, the newest first."""
        found = [record.suggestion for record in self.store.all()][::-1]
        return [
            one
            for one in found
            if (status is None or one.status == status) and self.is_seen(one, sees)
        ]

    def get(self, name: str, *, sees: Callable[[str], bool] = lambda _path: True) -> Suggestion:
        """That one.

        Raises NotFoundError, in the same words for all that does not exist for them.
        """
        return self.record(name, sees=sees).suggestion

    def record(
        self, name: str, *, sees: Callable[[str], bool] = lambda _path: True
    ) -> SuggestionRecord:
        """The same with what is shown of it."""
        record = self.store.get(name)
        if record is None or not self.is_seen(record.suggestion, sees):
            raise unknown(name)
        return record

    def is_seen(self, suggestion: Suggestion, sees: Callable[[str], bool]) -> bool:
        """Whether every file that it is about exists for who `sees` these."""
        return all(sees(path) for path in self.paths_of(suggestion))

    def paths_of(self, suggestion: Suggestion) -> list[str]:
        """The files that it is about: several, where it stands for several."""
        parts = self.parts_of(suggestion)
        lost = len(stands_for(suggestion) or parts) - len(
            parts
        )  # of which nothing is known any more, so only who sees all may see it
        return [*(one.path for one in parts), *[""] * lost]

    def sources_of(self, suggestion: Suggestion) -> Iterator[tuple[str, Origin]]:
        """All that showing it tells of, and what that counts as: its own words, and the files that
        it quotes the names and lines of.
        """
        yield f"the suggestion {suggestion.id}", suggestion.origin
        for one in self.parts_of(suggestion) if self._parts.origins is not None else ():
            yield f"the suggestion {one.id}", one.origin
            if one.path and self._parts.origins is not None:
                yield printable(one.path), self._parts.origins.of(one.path, one.base)

    def parts_of(self, suggestion: Suggestion) -> list[Suggestion]:
        """Itself, or those for which it stands."""
        names = stands_for(suggestion)
        if names is None:
            return [suggestion]
        found = [self.store.get(name) for name in names]
        return [record.suggestion for record in found if record is not None]

    def acceptance(self) -> list[Acceptance]:
        """What a person made of each agent's suggestions, by action."""
        return acceptance_of(record.suggestion for record in self.store.all())

    def bases(self) -> set[str]:
        """Digests of the texts that pending suggestions were decided on: they are needed until
        these are resolved.
        """
        return {one.base for one in self.all(status="pending") if one.base is not None}

    async def propose(self, proposal: Proposal) -> Suggestion:
        """File a proposal; one that waits already, word for word, is answered by that one.

        Raises EditRefusedError for what is none or changes nothing, PathRefusedError for what is a
        program's, NotFoundError where there is no such file, ActRefusedError when too many wait, or
        a hook objects to the file, StorageFailedError.
        """
        made = self._checked(proposal)
        async with self._filing:
            same = self._same_pending(made)
            if same is not None:
                return same
            self._refuse_flood(made)
            record, planned = await self._whole(lambda: self._filed(made), self._tell_created)
        await self._parts.notice([record.file])
        suggestion = record.suggestion
        if needs_no_asking(
            suggestion,
            planned.before,
            planned.after,
            self.acceptance(),
            self._parts.auto_approve_rate,
        ):
            return await self.approve(suggestion.id, by=AUTO)
        return suggestion

    async def approve(self, name: str, *, by: str = USER) -> Suggestion:
        """Do what it suggests, once.

        Merged where the file moved on; where that clashes, it is superseded and nothing is done.

        Raises NotFoundError, EditRefusedError when it is resolved already, ActRefusedError when a
        hook objects (it then waits still), StorageFailedError.
        """
        if stands_for(self.get(name)) is not None:
            return await self._approve_several(name, by)
        return await self._resolved(name, lambda record: self._apply(record, by, None))

    async def modify(
        self, name: str, payload: Mapping[str, object], *, by: str = USER
    ) -> Suggestion:
        """Do it as a person would have it: with this payload in place of its own.

        Raises as `approve`, and for a payload that is none.
        """
        suggestion = self.get(name)
        changed = check_payload(suggestion.action, payload)
        return await self._resolved(name, lambda record: self._apply(record, by, changed))

    async def reject(self, name: str, *, by: str = USER, reason: str = "") -> Suggestion:
        """Let it be.

        Raises NotFoundError, EditRefusedError when it is resolved already, StorageFailedError.
        """
        says = reason.strip()[:_LONGEST_REASONING] or "nothing was changed"
        return await self._resolved(name, lambda record: self._close(record, "rejected", by, says))

    async def approve_all(
        self,
        *,
        by: str = USER,
        sees: Callable[[str], bool] = lambda _path: True,
        only: Collection[str] | None = None,
    ) -> tuple[list[Suggestion], dict[str, str]]:
        """Approve each that waits and that they see, or `only` these of them, the oldest first.

        Answers those that were resolved, and why others were not, by id.
        """
        done, failed = list[Suggestion](), dict[str, str]()
        for one in self.all(status="pending", sees=sees)[::-1]:
            if one.id not in only if only is not None else stands_for(one) is not None:
                continue  # those that it stands for are among them
            try:
                done.append(await self.approve(one.id, by=by))
            except ParachuteError as error:
                failed[one.id] = error.message
        return done, failed

    async def propose_several(self, names: Sequence[str], proposal: Proposal) -> Suggestion:
        """File one that stands for several that wait: who approves it approves each of them, and
        nothing else.

        Of the proposal, its agent, reasoning, run and causes count. Raises NotFoundError,
        EditRefusedError, ActRefusedError, StorageFailedError.
        """
        several = [self.get(name) for name in dict.fromkeys(names)]
        if not _FEWEST <= len(several) <= _MOST_AT_ONCE or any(
            not one.is_pending or stands_for(one) is not None for one in several
        ):
            raise EditRefusedError(
                f"a batch is of {_FEWEST} to {_MOST_AT_ONCE} suggestions that wait, none of them "
                "a batch"
            )
        modules = {one.target_module for one in several}
        stranger = next((one.origin for one in several if one.origin in UNTRUSTED), proposal.origin)
        made = Suggestion(
            id=f"s{secrets.token_hex(5)}",
            source_agent=proposal.source_agent,
            source_session=proposal.source_session,
            timestamp=self._parts.clock(),
            action="update",
            target_module=modules.pop() if len(modules) == 1 else "vault",
            target_id=None,
            payload={"suggestions": [one.id for one in several]},
            reasoning=proposal.reasoning[:_LONGEST_REASONING],
            path="",
            base=None,
            run=proposal.run,
            causes=proposal.causes,
            origin=stranger,
        )
        shown = [self.record(one.id).shown for one in several]
        diffs = "\n".join(
            one.diff + (f"(all of the new text)\n{one.text}" if one.text is not None else "")
            for one in shown
        )
        if len(diffs) > _LARGEST_AT_ONCE:
            raise EditRefusedError("these are too much to be looked at at once; put fewer together")
        async with self._filing:
            self._refuse_flood(made)
            record = await self._whole(
                lambda: self._filed_several(made, diffs),
                lambda one: self._tell_created((one, None)),
            )
        await self._parts.notice([record.file])
        return made

    def _filed_several(self, made: Suggestion, diffs: str) -> SuggestionRecord:
        self._refuse_unaudited()
        record = record_of(made, file_name(made), SuggestionPreview(diff=diffs))
        self.store.keep(record)
        self.store.put_up(record)
        return record

    async def _approve_several(self, name: str, by: str) -> Suggestion:
        """Each of those that it stands for and that still wait; it is over then, whatever became of
        each.
        """
        done, failed = await self.approve_all(by=by, only=stands_for(self.get(name)) or ())
        told = [f"{len(done)} were resolved", *(f"{one}: {why}" for one, why in failed.items())]
        return await self._resolved(
            name, lambda record: self._close(record, "approved", by, "; ".join(told))
        )

    async def changes_watch(self, name: str) -> bool:
        """Whether it would have another set of notes watched."""
        suggestion = self.get(name)

        def look() -> bool:
            planned = self._applier.plan(suggestion)
            return changes_watch(planned.before, planned.after)

        return await asyncio.to_thread(look)

    async def say(self, name: str, words: str) -> None:
        """Write words for a person into its file."""
        status = self.get(name).status
        async with self._hand(name):
            record = self.record(name)
            is_so = (
                record.suggestion.status == status
            )  # else the words are of what was, and the file says what is
            say = (
                (lambda: self.store.say(record, words))
                if is_so
                else (lambda: self.store.put_up(record))
            )
            await self._whole(say, lambda _said: None)
        await self._parts.notice([record.file])

    def _hand(self, name: str) -> asyncio.Lock:
        """One suggestion is in one hand at a time: what is written of it is decided on what is so,
        not on what was.
        """
        return self._hands.setdefault(name, asyncio.Lock())

    async def adopt(self, file: SuggestionFile, path: str) -> SuggestionRecord:
        """Know a suggestion again by its sealed file, when the state was lost."""
        suggestion = file.suggestion
        if suggestion is None:
            raise unknown(path)
        return await self._whole(
            lambda: self._adopted(suggestion, file, path), lambda _record: None
        )

    def _adopted(self, suggestion: Suggestion, file: SuggestionFile, path: str) -> SuggestionRecord:
        try:
            shown = shown_of(suggestion, self._applier.plan(suggestion))
        except ParachuteError as error:
            shown = SuggestionPreview(
                diff=f"(what would change is not known any more: {error.message})"
            )
        record = SuggestionRecord(suggestion=suggestion, file=path, shown=shown, body=file.shown)
        self.store.keep(record)
        return record

    async def place(self, name: str, path: str) -> None:
        """A person gave its file another name."""
        async with self._hand(name):
            record = replace(self.record(name), file=path)
            await self._whole(lambda: self.store.keep(record), lambda _kept: None)

    async def show_again(self, name: str) -> None:
        """Write its file as it should be."""
        async with self._hand(name):
            record = self.record(name)
            await self._whole(lambda: self.store.put_up(record), lambda _written: None)
        await self._parts.notice([record.file])

    async def taken_back(self, runs: Iterable[str]) -> None:
        """These runs were undone: say so in the files of the suggestions that they applied."""
        gone = set(runs)
        for record in self.store.all():
            if record.suggestion.applied_run in gone:
                says = f"{record.suggestion.outcome.partition(';')[0]}, and was taken back"
                over = record_of(
                    replace(record.suggestion, outcome=says), record.file, record.shown
                )
                await self._whole(lambda over=over: self._kept(over), lambda _kept: None)  # type: ignore[misc]

    def _kept(self, record: SuggestionRecord) -> None:
        self.store.keep(record)
        self._put_up(record)

    def settle(self) -> list[SuggestionRecord]:
        """At the start: those that the last daemon was just applying were applied, if their run
        wrote; else they wait again. Blocks.
        """
        settled = []
        for name in sorted(self._unsettled):
            record = self.store.get(name)
            settled += [self._settled(record)] if record is not None else []
            self._unsettled.discard(name)
        return settled

    def _settled(self, record: SuggestionRecord) -> SuggestionRecord:
        run, suggestion = str(record.applying), record.suggestion
        if not self._parts.history.writes_by(run):
            kept = replace(record, applying=None)
            self.store.keep(kept)
            return kept
        by = suggestion.resolved_by or USER
        author = Author(by=f"suggestion:{suggestion.id}", run=run, causes=suggestion.causes)
        return self._done(
            record, replace(suggestion, applied_run=run), author, AppliedSuggestion(), by
        )

    def _checked(self, proposal: Proposal) -> Suggestion:
        path = check_target(proposal.path)
        payload = check_payload(proposal.action, proposal.payload)
        if (
            not 0 < len(proposal.source_agent) <= _LONGEST_NAME
            or len(proposal.source_session) > _LONGEST_NAME
        ):
            raise EditRefusedError(
                f"source_agent should be a text of 1 to {_LONGEST_NAME} characters, "
                "source_session one of at most that"
            )
        if proposal.base is not None and _DIGEST.fullmatch(proposal.base) is None:
            raise EditRefusedError(
                "base should be the digest of a text, 64 hexadecimal digits, as reading it tells"
            )
        words = (
            proposal.reasoning
            + proposal.source_agent
            + proposal.source_session
            + (proposal.target_id or "")
        )
        if len(proposal.reasoning) > _LONGEST_REASONING or any(
            "\ud800" <= one <= "\udfff" for one in words
        ):
            raise EditRefusedError(
                f"reasoning should be a text of at most {_LONGEST_REASONING} characters"
            )
        return Suggestion(
            id=f"s{secrets.token_hex(5)}",
            source_agent=proposal.source_agent,
            source_session=proposal.source_session,
            timestamp=self._parts.clock(),
            action=proposal.action,
            target_module=proposal.target_module or module_of(path),
            target_id=proposal.target_id,
            payload=payload,
            reasoning=proposal.reasoning,
            path=path,
            base=proposal.base,
            run=proposal.run,
            causes=proposal.causes,
            origin=proposal.origin,
        )

    def _same_pending(self, made: Suggestion) -> Suggestion | None:
        def key(one: Suggestion) -> tuple[str, str, str, str]:
            return (
                one.source_agent,
                one.action,
                one.path,
                json.dumps(dict(one.payload), sort_keys=True),
            )

        return next(
            (
                one
                for one in self.all(status="pending")
                if one.path == made.path and key(one) == key(made)
            ),
            None,
        )

    def _refuse_flood(self, made: Suggestion) -> None:
        pending = self.all(status="pending")
        of_one = sum(one.source_agent == made.source_agent for one in pending)
        if of_one >= _MOST_OF_ONE or len(pending) >= _MOST_PENDING:
            raise ActRefusedError(
                f"{max(of_one, len(pending))} suggestions wait already; a person is to decide on "
                "these first"
            )

    def _filed(self, made: Suggestion) -> tuple[SuggestionRecord, PlannedSuggestion]:
        """In a thread.

        It is kept before its file is written: a crash in between leaves one whose file is made at
        the next start.
        """
        self._refuse_unaudited()
        planned = self._applier.plan(made)
        suggestion = replace(made, base=planned.base)
        record = record_of(suggestion, file_name(suggestion), shown_of(suggestion, planned))
        self.store.keep(record)
        try:
            self.store.put_up(record)
        except ActRefusedError as error:
            self.store.keep(self._over(record, "rejected", "hook", error.message))
            raise
        return record, planned

    async def _resolved(
        self, name: str, act: Callable[[SuggestionRecord], SuggestionRecord]
    ) -> Suggestion:
        record = self.record(name)
        if name in self._busy or name in self._unsettled:
            raise EditRefusedError(f"the suggestion {name} is just being resolved")
        if not record.suggestion.is_pending:
            raise EditRefusedError(
                f"the suggestion {name} was {record.suggestion.status} already, by "
                f"{record.suggestion.resolved_by}"
            )
        self._busy.add(name)
        try:
            async with self._hand(name):
                record = self.record(name)
                self._refuse_unaudited()
                resolved = await self._whole(lambda: act(record), self._tell_resolved)
        finally:
            self._busy.discard(name)
        written = [resolved.suggestion.path] if resolved.suggestion.applied_run is not None else []
        await self._parts.notice([*written, resolved.file])
        return resolved.suggestion

    def _apply(
        self, record: SuggestionRecord, by: str, payload: Mapping[str, object] | None
    ) -> SuggestionRecord:
        """In a thread.

        What is about to be done is kept first, so that a crash does it neither twice nor half.
        """
        parts, now = self._parts, self._parts.clock()
        suggestion = replace(record.suggestion, modifications=payload)
        run, causes = new_id("r", now), suggestion.causes or (new_id("c", now),)
        author = Author(by=f"suggestion:{suggestion.id}", run=run, causes=causes)
        intent = replace(record, suggestion=replace(suggestion, resolved_by=by), applying=run)
        self.store.keep(intent)
        try:
            applied = self._written(suggestion, author)
        except BaseException:
            if not parts.history.writes_by(run):
                self.store.keep(record)
            raise
        if applied.why is not None:
            made = self._over(record, "superseded", by, applied.why).suggestion
            over = superseded(record, made, applied.ours, applied.theirs)
            self.store.keep(over)
            self._put_up(over)
            return over
        return self._done(record, suggestion, author, applied, by)

    def _written(self, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        """What a stranger's words were put into is a stranger's from before the write on, so that
        no kill in between makes it trusted.
        """
        origins = self._parts.origins
        if origins is None:
            return self._applier.apply(suggestion, author)
        try:
            with origins.writing(suggestion.path, suggestion.origin) as wrote:
                applied = self._applier.apply(suggestion, author)
                wrote(_must_be_written(applied).after)
        except _UnwrittenError as unwritten:
            return unwritten.applied
        return applied

    def _done(
        self,
        record: SuggestionRecord,
        suggestion: Suggestion,
        author: Author,
        applied: AppliedSuggestion,
        by: str,
    ) -> SuggestionRecord:
        """In a thread: it was applied. Record the run, then that it is over."""
        parts, written = self._parts, applied.written
        writes = parts.history.writes_by(str(author.run))
        if writes:
            save_run(
                parts.history,
                parts.objects,
                suggestion,
                author,
                by=by,
                writes=writes,
                at=parts.clock(),
            )
        merged = (
            " (merged with what was written since)"
            if written is not None and written.merged
            else ""
        )
        says = (
            f"{printable(suggestion.path)} was written{merged}; `parachute undo {author.run}` "
            "takes it back"
            if writes
            else "it said that already"
        )
        status: Status = "approved" if suggestion.modifications is None else "modified"
        applied_run = author.run if writes else None
        return self._close(
            replace(record, suggestion=replace(suggestion, applied_run=applied_run)),
            status,
            by,
            says,
        )

    def _close(
        self, record: SuggestionRecord, status: Status, by: str, says: str
    ) -> SuggestionRecord:
        over = self._over(record, status, by, says)
        self.store.keep(over)
        self._put_up(over)
        return over

    def _over(
        self, record: SuggestionRecord, status: Status, by: str, says: str
    ) -> SuggestionRecord:
        suggestion = replace(
            record.suggestion,
            status=status,
            resolved_by=by,
            resolved_at=self._parts.clock(),
            outcome=says,
        )
        return record_of(suggestion, record.file, replace(record.shown, words=""))

    def _put_up(self, record: SuggestionRecord) -> None:
        """The file follows; where it cannot, it does at the next start: what counts is kept."""
        try:
            self.store.put_up(record)
        except ParachuteError as error:
            self.trouble = f"the file of a suggestion could not be written: {error.message}"
        else:
            self.trouble = None

    def _refuse_unaudited(self) -> None:
        if self._parts.audit.refusal is not None:
            raise StorageFailedError(self._parts.audit.refusal)

    def _tell_created(self, filed: tuple[SuggestionRecord, PlannedSuggestion | None]) -> None:
        suggestion = filed[0].suggestion
        self._audit(suggestion, "created", AuditCaller("agent", suggestion.source_agent, ""))
        self._parts.bus.publish("suggestion.created", **_told(suggestion))

    def _tell_resolved(self, record: SuggestionRecord) -> None:
        suggestion = record.suggestion
        by = str(suggestion.resolved_by)
        self._audit(
            suggestion,
            suggestion.status,
            CALLER.get() or AuditCaller("person" if by == USER else "daemon", by, ""),
        )
        told = {
            "status": suggestion.status,
            "resolved_by": by,
            "applied_run": suggestion.applied_run,
        }
        self._parts.bus.publish("suggestion.resolved", **_told(suggestion), **told)

    def _audit(self, suggestion: Suggestion, what: str, caller: AuditCaller) -> None:
        self._parts.audit.record(
            AuditEvent(
                timestamp=self._parts.clock(),
                event_type="suggestion",
                source_type=caller.source_type,
                source_id=caller.source_id,
                target_module=suggestion.target_module,
                target_endpoint=f"suggestions.{what}",
                para_ids_involved=[suggestion.target_id] if suggestion.target_id else [],
                request_id=caller.request_id or None,
                paths=[printable(path) for path in self.paths_of(suggestion)],
                names=[f"id={suggestion.id}"],
                causes=suggestion.causes,
                run=suggestion.applied_run or suggestion.run,
                details={
                    "id": suggestion.id,
                    "action": suggestion.action,
                    "agent": suggestion.source_agent,
                },
            )
        )

    async def _whole(self, call: Callable[[], _Result], then: Callable[[_Result], None]) -> _Result:
        """Call in a thread, then tell.

        Who is cancelled meanwhile goes only when it has ended and was told: nothing is done half.
        """
        running = asyncio.get_running_loop().run_in_executor(
            None, contextvars.copy_context().run, call
        )
        try:
            result = await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            if running.exception() is None:
                then(running.result())
            raise
        then(result)
        return result


def _must_be_written(applied: AppliedSuggestion) -> WriteResult:
    if applied.written is None:
        raise _UnwrittenError(applied)
    return applied.written


def _told(suggestion: Suggestion) -> dict[str, object]:
    return {
        "id": suggestion.id,
        "action": suggestion.action,
        "path": printable(suggestion.path),
        "target_module": suggestion.target_module,
        "source_agent": suggestion.source_agent,
        "run": suggestion.run,
        "causes": list(suggestion.causes),
    }
