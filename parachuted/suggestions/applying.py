"""Applying: makes an accepted change through the one writer, as a run that can be undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from parachuted.access.origin import UNTRUSTED
from parachuted.access.origins import Origins
from parachuted.errors import (
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
)
from parachuted.suggestions.payload import changes_watch, check_target, edit_of, text_after
from parachuted.suggestions.store import SuggestionRecord, SuggestionStore, record_of, superseded
from parachuted.suggestions.suggestion import (
    USER,
    PlannedSuggestion,
    Status,
    Suggestion,
    SuggestionAction,
)
from parachuted.vault import (
    PERSONS,
    Author,
    Caller,
    History,
    ObjectStore,
    Store,
    VaultPath,
    VaultRoot,
    Write,
    WriteResult,
    digest_of,
    merge_three,
    new_id,
    printable,
)
from parachuted.vault.trail import run_document, wrote

LEAST_RESOLVED = 20
_MAY_BE_SPARED: frozenset[SuggestionAction] = frozenset({"create", "update"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    agent: str
    action: SuggestionAction
    approved: int
    modified: int
    rejected: int

    @property
    def resolved(self) -> int:
        return self.approved + self.modified + self.rejected

    @property
    def rate(self) -> float:
        """What was approved as it was, of all that was decided on, 0 to 1; what a person had to
        change counts half.
        """
        return (self.approved + self.modified / 2) / self.resolved if self.resolved else 0.0


def acceptance_of(suggestions: Iterable[Suggestion]) -> list[Acceptance]:
    """By agent and action.

    Undecided suggestions, and those that another agent decided, do not count.
    """
    found: dict[tuple[str, SuggestionAction], dict[str, int]] = {}
    for one in suggestions:
        if one.resolved_by == USER and one.status in {"approved", "modified", "rejected"}:
            counts = found.setdefault((one.source_agent, one.action), {})
            counts[one.status] = counts.get(one.status, 0) + 1
    return [
        Acceptance(
            agent=agent,
            action=action,
            approved=counts.get("approved", 0),
            modified=counts.get("modified", 0),
            rejected=counts.get("rejected", 0),
        )
        for (agent, action), counts in sorted(found.items())
    ]


def needs_no_asking(
    suggestion: Suggestion,
    before: bytes | None,
    after: bytes | None,
    known: Iterable[Acceptance],
    rate: float,
) -> bool:
    """Whether it may be applied at once: nearly all of its kind were approved, and its text is
    trusted.

    `rate` 0 is never. A change to watch patterns is always asked.
    """
    if (
        rate <= 0
        or suggestion.action not in _MAY_BE_SPARED
        or suggestion.origin in UNTRUSTED
        or changes_watch(before, after)
    ):
        return False
    return any(
        (one.agent, one.action) == (suggestion.source_agent, suggestion.action)
        and one.resolved >= LEAST_RESOLVED
        and one.rate >= rate
        for one in known
    )


_LARGEST_TARGET = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSuggestion:
    """What came of it.

    `why`: the reason for which it could not be done any more; `ours` and `theirs` are then both
    texts.
    """

    written: WriteResult | None = None
    why: str | None = None
    ours: bytes | None = None
    theirs: bytes | None = None


class SuggestionApplier:
    """Plans and applies. Blocks on the disk. No link is followed."""

    def __init__(self, root: VaultRoot, store: Store) -> None:
        self._root, self._store = root, store

    def plan(self, suggestion: Suggestion) -> PlannedSuggestion:
        """What it would do, on the text that it was decided on.

        Raises EditRefusedError, NotFoundError, PathRefusedError.
        """
        path = self._straight(suggestion.path)
        before, base = self._base(path, suggestion)
        after = text_after(suggestion.action, suggestion.effect, before)
        if after == before:
            raise EditRefusedError(
                f"{printable(path)} says that already, so there is nothing to suggest"
            )
        return PlannedSuggestion(before=before, after=after, base=base)

    def apply(self, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        """Do it.

        Raises what the store raises when the disk refuses or a hook objects; then nothing was done.
        """
        path = self._straight(suggestion.path)
        with self._root.straight():
            match suggestion.action:
                case "create":
                    return self._create(path, suggestion, author)
                case "delete":
                    return self._delete(path, suggestion, author)
                case _:
                    return self._update(path, suggestion, author)

    def _create(self, path: VaultPath, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        data = text_after("create", suggestion.effect, None) or b""
        try:
            return AppliedSuggestion(written=self._store.create(path, data, author))
        except ConflictError as error:
            if error.theirs == data:
                return AppliedSuggestion()
            over = suggestion.effect.get("over")
            base = str(over).encode()
            written = self._add(path, base, error, suggestion, author) if over else None
            why = None if written else "there is now another file of that name"
            return AppliedSuggestion(written=written, why=why, ours=data, theirs=error.theirs)

    def _delete(self, path: VaultPath, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        try:
            return AppliedSuggestion(written=self._store.delete(path, author, base=suggestion.base))
        except NotFoundError:
            return AppliedSuggestion()
        except ConflictError as error:
            return AppliedSuggestion(
                why="the file was changed since, so it is not removed",
                ours=b"",
                theirs=error.theirs,
            )

    def _update(self, path: VaultPath, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        try:
            present = self._store.read(path, keep=True)
        except NotFoundError:
            return AppliedSuggestion(why="the file is gone", ours=None, theirs=None)
        is_same = present.digest == suggestion.base
        base = present.data if is_same else self._store.bases.text(path, str(suggestion.base))
        if base is None:
            return AppliedSuggestion(
                why="the file was changed since, and the text that this was decided on is not kept",
                theirs=present.data,
            )
        try:
            ours = text_after(suggestion.action, suggestion.effect, base) or b""
        except (EditRefusedError, NotFoundError) as error:
            if (
                suggestion.modifications is not None
            ):  # what a person would have in its place is wrong; the suggestion waits still
                raise
            return AppliedSuggestion(why=error.message, theirs=present.data)
        try:
            return AppliedSuggestion(
                written=self._store.replace(path, ours, author, base=suggestion.base)
            )
        except ConflictError as error:
            written = self._add(path, base, error, suggestion, author)
            why = None if written else "the file was changed since in the same place"
            return AppliedSuggestion(written=written, why=why, ours=ours, theirs=error.theirs)
        except NotFoundError:
            return AppliedSuggestion(why="the file is gone", ours=ours)

    def _add(
        self,
        path: VaultPath,
        base: bytes,
        conflict: ConflictError,
        suggestion: Suggestion,
        author: Author,
    ) -> WriteResult | None:
        """Do it to the file as it is now, which got more in the same place; None: it changes more
        than that.
        """
        try:
            if "text" not in suggestion.effect:
                edit = edit_of(suggestion.action, suggestion.effect, base)
                return self._store.edit(path, edit, author, base=suggestion.base)
            merged = merge_three(base, conflict.ours, conflict.theirs, prefer="both")
            if not merged.clean:
                return None
            now = digest_of(conflict.theirs)
            return replace(self._store.replace(path, merged.data, author, base=now), merged=True)
        except (ConflictError, EditRefusedError, NotFoundError):
            return None

    def _base(self, path: VaultPath, suggestion: Suggestion) -> tuple[bytes | None, str | None]:
        """The text that it is decided on, which is kept for good."""
        try:
            with self._root.straight():
                if self._root.size(path) > _LARGEST_TARGET:
                    raise EditRefusedError(
                        f"{printable(path)} is larger than {_LARGEST_TARGET >> 20} MB; nothing is "
                        "suggested for it"
                    )
                present = self._store.read(path, keep=True)
        except NotFoundError:
            if suggestion.action == "create":
                return None, None
            raise
        if suggestion.action == "create":
            raise EditRefusedError(f"{printable(path)} is there already; suggest to update it")
        if suggestion.base in {None, present.digest}:
            return present.data, present.digest
        known = self._store.bases.text(path, str(suggestion.base))
        if known is None:
            raise NotFoundError(
                f"the text this was decided on ({str(suggestion.base)[:12]}) is not one of "
                f"{printable(path)}; read it again"
            )
        self._store.bases.keep(path, known)
        return known, suggestion.base

    def _straight(self, path: str) -> VaultPath:
        target = check_target(path)
        if self._store.resolve(target) != target:
            raise PathRefusedError(
                f"{printable(target)} is a link, so nothing is suggested for it; name the file "
                "itself"
            )
        return target


def save_run(
    history: History,
    objects: ObjectStore,
    suggestion: Suggestion,
    author: Author,
    *,
    by: str,
    writes: Sequence[Write],
    at: datetime,
) -> None:
    """Record the run that applied it, which counts in no budget of agents. Blocks on the disk.

    Raises StorageFailedError.
    """
    path = printable(suggestion.path)
    document = run_document(
        str(author.run),
        watcher=path,
        agent="suggestion",
        started=at,
        causes=[{"id": cause} for cause in author.causes],
        parents=[suggestion.run] if suggestion.run else [],
        ended=at.isoformat(),
        reason=f"{suggestion.action} {path}, suggested by {suggestion.source_agent} as "
        f"{suggestion.id}, approved by {by}",
        wrote=[wrote(write.path, (write.before, write.after), objects) for write in writes],
        quotes=sorted({path, *(printable(write.path) for write in writes)}),
        suggestion={
            "id": suggestion.id,
            "source_agent": suggestion.source_agent,
            "resolved_by": by,
        },
    )
    history.save_run(
        str(author.run),
        started=at,
        watcher=suggestion.path,
        outcome=PERSONS,
        causes=list(author.causes),
        document=document,
    )


class _UnwrittenError(Exception):
    """Nothing was written, so nothing is to be recorded of it."""

    def __init__(self, applied: AppliedSuggestion) -> None:
        super().__init__(applied.why)
        self.applied = applied


class SuggestionResolver:
    """Applies suggestions and keeps how they ended. Blocks on the disk.

    `trouble` says why the file of one could not be written.
    """

    def __init__(self, vault: Store, store: SuggestionStore, origins: Origins | None) -> None:
        self._vault, self._store, self._origins = vault, store, origins
        self.applier = SuggestionApplier(vault.root, vault)
        self.trouble: str | None = None

    def apply(
        self,
        record: SuggestionRecord,
        by: str,
        payload: Mapping[str, object] | None,
        caller: Caller | None = None,
    ) -> SuggestionRecord:
        """In a thread.

        What is about to be done is kept first, so that a crash does it neither twice nor half.
        """
        now = self._vault.clock()
        suggestion = replace(record.suggestion, modifications=payload)
        run, causes = new_id("r", now), suggestion.causes or (new_id("c", now),)
        author = Author(by=f"suggestion:{suggestion.id}", run=run, causes=causes)
        intent = replace(record, suggestion=replace(suggestion, resolved_by=by), applying=run)
        self._store.keep(intent)
        try:
            applied = self._written(suggestion, author)
        except BaseException:
            if not self._vault.history.writes_by(run):
                self._store.keep(record)
            raise
        if applied.why is not None:
            made = self.over(record, "superseded", by, applied.why).suggestion
            return self.save(superseded(record, made, applied.ours, applied.theirs), caller)
        return self._done(record, suggestion, author, applied, by, caller)

    def _written(self, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        """What a stranger's words were put into is a stranger's from before the write on, so that
        no kill in between makes it trusted.
        """
        origins = self._origins
        if origins is None:
            return self.applier.apply(suggestion, author)
        try:
            with origins.writing(suggestion.path, suggestion.origin) as wrote:
                applied = self.applier.apply(suggestion, author)
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
        caller: Caller | None = None,
    ) -> SuggestionRecord:
        """In a thread: it was applied. Record the run, then that it is over."""
        vault, written = self._vault, applied.written
        writes = self._vault.history.writes_by(str(author.run))
        if writes:
            save_run(
                self._vault.history,
                vault.objects,
                suggestion,
                author,
                by=by,
                writes=writes,
                at=vault.clock(),
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
        return self.close(
            replace(record, suggestion=replace(suggestion, applied_run=applied_run)),
            status,
            by,
            says,
            caller,
        )

    def close(
        self,
        record: SuggestionRecord,
        status: Status,
        by: str,
        says: str,
        caller: Caller | None = None,
    ) -> SuggestionRecord:
        return self.save(self.over(record, status, by, says), caller)

    def save(self, record: SuggestionRecord, caller: Caller | None = None) -> SuggestionRecord:
        """Keep it. Its file follows; where it cannot, it does at the next start."""
        self._store.keep(record)
        try:
            self._store.put_up(record, caller)
        except ParachuteError as error:
            self.trouble = f"the file of a suggestion could not be written: {error.message}"
        else:
            self.trouble = None
        return record

    def over(
        self, record: SuggestionRecord, status: Status, by: str, says: str
    ) -> SuggestionRecord:
        suggestion = replace(
            record.suggestion,
            status=status,
            resolved_by=by,
            resolved_at=self._vault.clock(),
            outcome=says,
        )
        return record_of(suggestion, record.file, replace(record.shown, words=""))

    def settle(self, record: SuggestionRecord) -> SuggestionRecord:
        """At the start, of one that was just being applied: it was, if its run wrote; else it waits
        again, as it did before, so that a tick in its file counts.
        """
        run, suggestion = str(record.applying), record.suggestion
        writes = self._vault.history.writes_by(run)
        if not writes:
            waiting = replace(suggestion, resolved_by=None, modifications=None)
            kept = replace(record, suggestion=waiting, applying=None)
            self._store.keep(kept)
            return kept
        by = suggestion.resolved_by or USER
        return self._done(
            record,
            replace(suggestion, applied_run=run),
            writes[0].author,
            AppliedSuggestion(),
            by,
        )


def _must_be_written(applied: AppliedSuggestion) -> WriteResult:
    if applied.written is None:
        raise _UnwrittenError(applied)
    return applied.written
