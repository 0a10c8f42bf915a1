"""Changes that agents and modules propose, filed as notes and applied once on approval. Ticking a
box, the command, the API and a bot's button are one act. A file's content counts only if it is what
was proposed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypeVar
from weakref import WeakValueDictionary

from parachuted.access.strangers import Strangers, says_stranger
from parachuted.audit.chain import AuditEvent, AuditRecorder, NullAuditRecorder
from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.events import Bus
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.state import StateStore
from parachuted.suggestions.applying import SuggestionApplier
from parachuted.suggestions.payload import (
    LONGEST_REASONING,
    batch_of,
    changes_watch,
    check_payload,
    suggestion_of,
)
from parachuted.suggestions.store import SuggestionStore, record_of, unknown
from parachuted.suggestions.suggestion import (
    USER,
    Proposal,
    Status,
    Suggestion,
    SuggestionFile,
    SuggestionRecord,
    file_name,
    stands_for,
)
from parachuted.vault import Requester, Store, VaultPath, printable

_Result = TypeVar("_Result")
Sees: TypeAlias = Callable[[str], bool]
_MOST_PENDING, _MOST_OF_ONE = 500, 100
_LARGEST_AT_ONCE = 200_000


def _sees_all(_path: str) -> bool:
    return True


async def _check_nothing(_suggestion: Suggestion) -> None: ...


class Suggestions:
    """All suggestions of one vault. Called on the event loop; one act at a time on each."""

    def __init__(
        self,
        vault: Store,
        *,
        state: StateStore,
        bus: Bus,
        audit: AuditRecorder | None = None,
        strangers: Strangers | None = None,
    ) -> None:
        self._vault, self._strangers = vault, strangers or Strangers()
        self._bus, self._audit = bus, audit or NullAuditRecorder()
        self.store = SuggestionStore(vault, state)
        self._applier = SuggestionApplier(vault, self.store)
        self._hands = WeakValueDictionary[str, asyncio.Lock]()
        self._filing = asyncio.Lock()

    @property
    def trouble(self) -> str | None:
        return self._applier.trouble

    def all(self, *, status: Status | None = None, sees: Sees = _sees_all) -> list[Suggestion]:
        """Those that exist for a caller who `sees` these files, newest first."""
        return [
            record.suggestion
            for record in reversed(self.store.all())
            if status in {None, record.suggestion.status} and self.is_seen(record.suggestion, sees)
        ]

    def get(self, name: str, *, sees: Sees = _sees_all) -> Suggestion:
        """Raises NotFoundError, in the same words for all that the caller does not see."""
        return self.record(name, sees=sees).suggestion

    def record(self, name: str, *, sees: Sees = _sees_all) -> SuggestionRecord:
        record = self.store.get(name)
        if record is None or not self.is_seen(record.suggestion, sees):
            raise unknown(name)
        return record

    def is_seen(self, suggestion: Suggestion, sees: Sees) -> bool:
        return all(sees(path) for path in self.paths_of(suggestion))

    def paths_of(self, suggestion: Suggestion) -> list[str]:
        """The files that it is about: several, where it stands for several."""
        parts = self.parts_of(suggestion)
        # of those that are forgotten no path is known: only a caller who sees all may see it
        forgotten = len(stands_for(suggestion) or parts) - len(parts)
        return [*(part.path for part in parts), *[""] * forgotten]

    def is_strangers(self, suggestion: Suggestion) -> bool:
        """Whether it shows strangers' text: its own words, or lines of its files. Blocks."""
        return any(
            part.is_strangers
            or self._strangers.is_place(part.path)
            or (part.base is not None and says_stranger(self._vault.objects.get(part.base) or b""))
            for part in (suggestion, *self.parts_of(suggestion))
        )

    def parts_of(self, suggestion: Suggestion) -> list[Suggestion]:
        names = stands_for(suggestion)
        if names is None:
            return [suggestion]
        records = [self.store.get(name) for name in names]
        return [record.suggestion for record in records if record is not None]

    def bases(self) -> set[str]:
        """Digests of the texts that pending suggestions were decided on, which must be kept."""
        return {one.base for one in self.all(status="pending") if one.base is not None}

    async def propose(self, proposal: Proposal) -> Suggestion:
        """File a proposal; one that waits already, word for word, is answered by that one. Raises
        EditRefusedError for what is none or changes nothing, PathRefusedError, NotFoundError,
        ActRefusedError when too many wait or a hook objects to the file, StorageFailedError.
        """
        made = suggestion_of(proposal, self._vault.clock())
        async with self._filing:
            if (same := self._same_pending(made)) is not None:
                return same
            return await self._file(made, partial(self._planned, made))

    def _planned(self, made: Suggestion) -> SuggestionRecord:
        planned = self._applier.plan(made)
        return record_of(replace(made, base=planned.base), planned)

    async def propose_several(self, names: Sequence[str], proposal: Proposal) -> Suggestion:
        """File one that stands for several that wait: who approves it approves each of them. Of the
        proposal, its agent, reasoning, run and causes count. Raises NotFoundError,
        EditRefusedError, ActRefusedError, StorageFailedError.
        """
        several = [self.record(name) for name in dict.fromkeys(names)]
        made = batch_of([one.suggestion for one in several], proposal, self._vault.clock())
        diffs = "\n".join(
            one.diff + (f"(all of the new text)\n{one.text}" if one.text else "") for one in several
        )
        if len(diffs) > _LARGEST_AT_ONCE:
            raise EditRefusedError("these are too much to be looked at at once; put fewer together")
        is_private = any(suggestion_record.is_private for suggestion_record in several)
        record = SuggestionRecord(
            suggestion=made, file=file_name(made), diff=diffs, is_private=is_private
        )
        async with self._filing:
            return await self._file(made, lambda: record)

    async def _file(self, made: Suggestion, make: Callable[[], SuggestionRecord]) -> Suggestion:
        """Keep it, then write its file: after a crash in between the next start does."""
        pending = self.all(status="pending")
        of_one = sum(suggestion.source_agent == made.source_agent for suggestion in pending)
        if of_one >= _MOST_OF_ONE or len(pending) >= _MOST_PENDING:
            raise ActRefusedError(
                f"{max(of_one, len(pending))} suggestions wait; a person is to decide first"
            )

        def file() -> SuggestionRecord:
            self._refuse_unaudited()
            record = make()
            self.store.keep(record)
            try:
                self.store.put_up(record)
            except ActRefusedError as error:
                now = self._vault.clock()
                self.store.keep(record.over("rejected", "hook", error.message, now))
                raise
            return record

        filed = await self._whole(file, lambda filed: self._report_filed(filed.suggestion))
        await self._vault.notice([filed.file])
        return filed.suggestion

    async def approve(
        self, name: str, *, by: str = USER, requester: Requester | None = None
    ) -> Suggestion:
        """Do what it suggests, once, merged where the file moved on; where that clashes, it is
        superseded. Raises NotFoundError, EditRefusedError when it is resolved already,
        ActRefusedError when a hook objects (it then waits still), StorageFailedError.
        """
        if (names := stands_for(self.get(name))) is None:
            return await self._apply(name, None, by, requester)
        done, failed = await self.approve_all(by=by, only=names, requester=requester)
        results = [f"{len(done)} were resolved", *(f"{one}: {why}" for one, why in failed.items())]
        return await self._close(name, "approved", by, "; ".join(results), requester)

    async def modify(
        self,
        name: str,
        payload: Mapping[str, object],
        *,
        by: str = USER,
        requester: Requester | None = None,
    ) -> Suggestion:
        """Do it with this payload in place of its own. Raises as `approve`, and for a bad one."""
        changed = check_payload(self.get(name).action, payload)
        return await self._apply(name, changed, by, requester)

    async def _apply(
        self, name: str, payload: Mapping[str, object] | None, by: str, requester: Requester | None
    ) -> Suggestion:
        return await self._resolved(
            name, lambda record: self._applier.apply(record, by, payload, requester), requester
        )

    async def reject(
        self, name: str, *, by: str = USER, reason: str = "", requester: Requester | None = None
    ) -> Suggestion:
        """Raises NotFoundError, EditRefusedError when it is resolved, StorageFailedError."""
        says = reason.strip()[:LONGEST_REASONING] or "nothing was changed"
        return await self._close(name, "rejected", by, says, requester)

    async def approve_all(
        self,
        *,
        by: str = USER,
        only: Collection[str] | None = None,
        check: Callable[[Suggestion], Awaitable[None]] = _check_nothing,
        requester: Requester | None = None,
    ) -> tuple[list[Suggestion], dict[str, str]]:
        """Approve each that waits, or `only` these, the oldest first, unless `check` raises a
        ParachuteError. Returns those that were resolved, and why others were not, by id.
        """
        done, failed = list[Suggestion](), dict[str, str]()
        for one in self.all(status="pending")[::-1]:
            if one.id not in only if only is not None else stands_for(one) is not None:
                continue  # those that it stands for are among them
            try:
                if self.get(one.id).status != "pending":
                    continue  # it was decided meanwhile
                await check(one)
                done.append(await self.approve(one.id, by=by, requester=requester))
            except ParachuteError as error:
                failed[one.id] = error.message
        return done, failed

    async def _close(
        self, name: str, status: Status, by: str, says: str, requester: Requester | None = None
    ) -> Suggestion:
        def close(record: SuggestionRecord) -> SuggestionRecord:
            return self._applier.save(record.over(status, by, says, self._vault.clock()), requester)

        return await self._resolved(name, close, requester)

    async def changes_watch(self, name: str) -> bool:
        planned = await asyncio.to_thread(self._applier.plan, self.get(name))
        return changes_watch(planned.before, planned.after)

    async def say(self, name: str, words: str, seen: SuggestionFile | None = None) -> None:
        """Write words for a person into its file, where it still says what was `seen`; out of date
        once it is resolved, when the file shows that.
        """
        status = self.get(name).status

        def say(record: SuggestionRecord) -> None:
            if record.suggestion.status == status:
                self.store.say(record, words, seen)
            else:
                self.store.put_up(record)

        await self._change(name, say)

    async def place(self, name: str, path: str) -> None:
        await self._change(name, lambda record: self.store.keep(replace(record, file=path)))

    async def show_again(self, name: str) -> None:
        await self._change(name, partial(self.store.put_up, only_new=True))

    async def hide(self, path: str) -> None:
        """That note is ignored from now on: so is what files of suggestions show of it."""

        def hide(record: SuggestionRecord) -> None:
            seen = self.store.read(VaultPath(record.file))
            if seen is not None and not seen.is_ticked:
                self.store.put_up(record, seen=seen)

        for record in self.store.all():
            if record.suggestion.path == path:
                await self._change(record.suggestion.id, hide)

    async def _change(self, name: str, change: Callable[[SuggestionRecord], None]) -> None:
        """Change its record or its file."""
        async with self._hand(name):
            record = self.record(name)
            await self._whole(partial(change, record))
        await self._vault.notice([record.file])

    def _hand(self, name: str) -> asyncio.Lock:
        """One caller at a time changes a suggestion, and decides on its present state."""
        return self._hands.setdefault(name, asyncio.Lock())

    async def settle(self) -> None:
        """At the start: finish what the last daemon was applying. StorageFailedError."""
        for record in self.store.all():
            if record.applying is not None:
                async with self._hand(record.suggestion.id):
                    await self._settled(record.suggestion.id)

    async def _settled(self, name: str) -> SuggestionRecord:
        record = self.record(name)
        if record.applying is None:
            return record
        return await self._whole(partial(self._applier.settle, record), self._report)

    def _same_pending(self, made: Suggestion) -> Suggestion | None:
        def key(of: Suggestion) -> tuple[str, str, str, str]:
            return of.source_agent, of.action, of.path, json.dumps(dict(of.payload), sort_keys=True)

        pending = (one for one in self.all(status="pending") if one.path == made.path)
        return next((suggestion for suggestion in pending if key(suggestion) == key(made)), None)

    async def _resolved(
        self,
        name: str,
        act: Callable[[SuggestionRecord], SuggestionRecord],
        requester: Requester | None,
    ) -> Suggestion:
        self.record(name)
        async with self._hand(name):
            record = await self._settled(name)  # where the disk refused it at the start
            record.check("rejected")  # which any that waits may be
            self._refuse_unaudited()
            resolved = await self._whole(
                lambda: act(record),
                lambda record: self._report(record, requester),
            )
        written = [resolved.suggestion.path] if resolved.suggestion.applied_run is not None else []
        await self._vault.notice([*written, resolved.file])
        return resolved.suggestion

    async def _whole(
        self, call: Callable[[], _Result], then: Callable[[_Result], None] = lambda _result: None
    ) -> _Result:
        """Call in a thread, then `then` with the result, even when cancelled meanwhile."""
        results: list[_Result] = []
        try:
            await run_uninterrupted(lambda: results.append(call()))
        finally:
            for result in results:
                then(result)
        return results[0]

    def _refuse_unaudited(self) -> None:
        if self._audit.refusal is not None:
            raise StorageFailedError(self._audit.refusal)

    def _report_filed(self, suggestion: Suggestion) -> None:
        self._record(suggestion, "created", Requester("agent", suggestion.source_agent))
        self._bus.publish("suggestion.created", **_fields(suggestion))

    def _report(self, record: SuggestionRecord, requester: Requester | None = None) -> None:
        """That it was resolved; `requester`: by whom, where that is more than a name."""
        suggestion = record.suggestion
        if suggestion.is_pending:
            return
        by, status = str(suggestion.resolved_by), suggestion.status
        source = requester or Requester("person" if by == USER else "daemon", by)
        self._record(suggestion, status, source)
        self._bus.publish(
            "suggestion.resolved",
            **_fields(suggestion),
            status=status,
            resolved_by=by,
            applied_run=suggestion.applied_run,
        )

    def _record(self, suggestion: Suggestion, what: str, source: Requester) -> None:
        self._audit.record(
            AuditEvent(
                timestamp=self._vault.clock(),
                event_type="suggestion",
                source_type=source.source_type,
                source_id=source.source_id,
                target_module=suggestion.target_module,
                target_endpoint=f"suggestions.{what}",
                para_ids_involved=[suggestion.target_id] if suggestion.target_id else [],
                request_id=source.request_id or None,
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


def _fields(suggestion: Suggestion) -> dict[str, object]:
    names = ("id", "action", "target_module", "source_agent", "run")
    return {
        "path": printable(suggestion.path),
        "causes": list(suggestion.causes),
        **{name: getattr(suggestion, name) for name in names},
    }
