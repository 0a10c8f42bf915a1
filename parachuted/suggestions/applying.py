"""Applying: makes an accepted change through the one writer, as a run that can be undone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from parachuted.access.strangers import MARK, marked
from parachuted.errors import (
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
)
from parachuted.suggestions.payload import changes_watch, check_target, edit_of, text_after
from parachuted.suggestions.store import SuggestionRecord, SuggestionStore, holds_private
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
    Requester,
    SeveralEdits,
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
_DECIDED: tuple[Status, ...] = ("approved", "modified", "rejected")
_MAY_BE_SPARED: frozenset[SuggestionAction] = frozenset({"create", "update"})


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a person made of one agent's suggestions of one kind. `rate`, 0 to 1, is the approved
    share of those decided on; one that was modified counts half.
    """

    agent: str
    action: SuggestionAction
    approved: int
    modified: int
    rejected: int
    rate: float

    @property
    def resolved(self) -> int:
        return self.approved + self.modified + self.rejected


def acceptance_of(suggestions: Iterable[Suggestion]) -> list[Acceptance]:
    counts = Counter(
        (suggestion.source_agent, suggestion.action, suggestion.status)
        for suggestion in suggestions
        if suggestion.resolved_by == USER and suggestion.status in _DECIDED
    )
    found = []
    for agent, action in sorted({key[:2] for key in counts}):
        approved, modified, rejected = (counts[agent, action, status] for status in _DECIDED)
        rate = round((approved + modified / 2) / (approved + modified + rejected), 4)
        found.append(Acceptance(agent, action, approved, modified, rejected, rate))
    return found


def needs_no_asking(
    suggestion: Suggestion,
    before: bytes | None,
    after: bytes | None,
    known: Iterable[Acceptance],
    rate: float,
) -> bool:
    """Whether to apply it at once: nearly all of its kind were approved (`rate` 0: never), its text
    is trusted, and no watch pattern changes.
    """
    if (
        rate <= 0
        or suggestion.action not in _MAY_BE_SPARED
        or suggestion.is_strangers
        or changes_watch(before, after)
    ):
        return False
    return any(
        (one.agent, one.action) == (suggestion.source_agent, suggestion.action)
        and one.resolved >= LEAST_RESOLVED
        and one.rate >= rate
        for one in known
    )


_LARGEST_TARGET, _MOST_SHOWN = 8 << 20, 64 << 10


class SupersededError(Exception):
    """It cannot be done any more: why, what would stand there, and what stands there now."""

    def __init__(self, why: str, ours: bytes | None = None, theirs: bytes | None = None) -> None:
        super().__init__(why)
        self.why, self.ours, self.theirs = why, ours, theirs


class SuggestionApplier:
    """Plans and applies. Blocks on the disk. No link is followed."""

    def __init__(self, root: VaultRoot, store: Store) -> None:
        self._root, self._store = root, store

    def plan(self, suggestion: Suggestion) -> PlannedSuggestion:
        """On the text that it was decided on. EditRefusedError, NotFoundError, PathRefusedError."""
        path = self._straight(suggestion.path)
        before, base = self._base(path, suggestion)
        after = _text_after(suggestion, before)
        if after == before:
            raise EditRefusedError(
                f"{printable(path)} says that already, so there is nothing to suggest"
            )
        return PlannedSuggestion(before=before, after=after, base=base)

    def apply(self, suggestion: Suggestion, author: Author) -> WriteResult | None:
        """Do it; None: it was so already. Raises SupersededError, and what the store raises when
        the disk refuses or a hook objects; then nothing was done.
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

    def _create(
        self, path: VaultPath, suggestion: Suggestion, author: Author
    ) -> WriteResult | None:
        data = _text_after(suggestion, None) or b""
        try:
            return self._store.create(path, data, author)
        except ConflictError as error:
            if error.theirs == data:
                return None
            base = suggestion.effect.get("over")
            why = "there is now another file of that name"
            if base is None:
                raise SupersededError(why, data, error.theirs) from error
            return self._add(path, str(base).encode(), error, suggestion, author, why)

    def _delete(
        self, path: VaultPath, suggestion: Suggestion, author: Author
    ) -> WriteResult | None:
        try:
            return self._store.delete(path, author, base=suggestion.base)
        except NotFoundError:
            return None
        except ConflictError as error:
            why = "the file was changed since, so it is not removed"
            raise SupersededError(why, b"", error.theirs) from error

    def _update(self, path: VaultPath, suggestion: Suggestion, author: Author) -> WriteResult:
        gone = "the file is gone"
        try:
            present = self._store.read(path, keep=True)
        except NotFoundError as error:
            raise SupersededError(gone) from error
        is_same = present.digest == suggestion.base
        base = present.data if is_same else self._store.bases.text(path, str(suggestion.base))
        if base is None:
            why = "the file was changed since, and the text that this was decided on is not kept"
            raise SupersededError(why, theirs=present.data)
        ours = self._wanted(suggestion, base, present.data)
        try:
            return self._store.replace(path, ours, author, base=suggestion.base)
        except NotFoundError as error:
            raise SupersededError(gone, ours) from error
        except ConflictError as error:
            why = "the file was changed since in the same place"
            return self._add(path, base, error, suggestion, author, why)

    def _wanted(self, suggestion: Suggestion, base: bytes, present: bytes) -> bytes:
        try:
            return _text_after(suggestion, base) or b""
        except (EditRefusedError, NotFoundError) as error:
            if suggestion.modifications is not None:  # a person's, so the suggestion waits still
                raise
            raise SupersededError(error.message, theirs=present) from error

    def _add(
        self,
        path: VaultPath,
        base: bytes,
        conflict: ConflictError,
        suggestion: Suggestion,
        author: Author,
        why: str,
    ) -> WriteResult:
        """Do it to the file as it is now, where that only grew. Raises SupersededError."""
        try:
            if "text" not in suggestion.effect:
                edit = edit_of(suggestion.action, suggestion.effect, base)
                if suggestion.is_strangers:
                    edit = SeveralEdits(edits=(edit, MARK))
                return self._store.edit(path, edit, author, base=suggestion.base)
            merged = merge_three(base, conflict.ours, conflict.theirs, prefer="both")
            if merged.clean:
                now = digest_of(conflict.theirs)
                done = self._store.replace(path, merged.data, author, base=now)
                return replace(done, merged=True)
        except (ConflictError, EditRefusedError, NotFoundError) as error:
            raise SupersededError(why, conflict.ours, conflict.theirs) from error
        raise SupersededError(why, conflict.ours, conflict.theirs)

    def _base(self, path: VaultPath, suggestion: Suggestion) -> tuple[bytes | None, str | None]:
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


def _text_after(suggestion: Suggestion, before: bytes | None) -> bytes | None:
    """What is to stand there, marked where strangers' words led to it. Raises as `text_after`."""
    after = text_after(suggestion.action, suggestion.effect, before)
    if after is None or after == before or not suggestion.is_strangers:
        return after
    return marked(suggestion.path, after)


class SuggestionResolver:
    """Applies and keeps how they ended. Blocks. `trouble`: why a file was not written."""

    def __init__(self, vault: Store, store: SuggestionStore) -> None:
        self._vault, self._store = vault, store
        self.applier = SuggestionApplier(vault.root, vault)
        self.trouble: str | None = None

    def apply(
        self,
        record: SuggestionRecord,
        by: str,
        payload: Mapping[str, object] | None,
        requester: Requester | None = None,
    ) -> SuggestionRecord:
        """`payload`: what a person would have in place of its own."""
        now = self._vault.clock()
        run, causes = new_id("r", now), record.suggestion.causes or (new_id("c", now),)
        author = Author(by=f"suggestion:{record.suggestion.id}", run=run, causes=causes)
        started = record.start(run, by, payload)
        self._store.keep(started)
        try:
            written = self.applier.apply(started.suggestion, author)
        except SupersededError as error:
            return self.save(self._superseded(record, error, by), requester)
        except BaseException:
            if not self._vault.history.writes_by(run):
                self._store.keep(started.waiting())
            raise
        return self._done(started, author, written, requester)

    def settle(self, record: SuggestionRecord) -> SuggestionRecord:
        """At the start: one that was being applied was, if its run wrote; else it waits again."""
        writes = self._vault.history.writes_by(str(record.applying))
        if writes:
            return self._done(record, writes[0].author, None)
        waiting = record.waiting()
        self._store.keep(waiting)
        return waiting

    def _done(
        self,
        record: SuggestionRecord,
        author: Author,
        written: WriteResult | None,
        requester: Requester | None = None,
    ) -> SuggestionRecord:
        suggestion, run, by = record.suggestion, str(author.run), record.suggestion.resolved_by
        writes = self._vault.history.writes_by(run)
        says = "it said that already"
        if writes:
            self._save_run(suggestion, author, writes)
            is_merged = written is not None and written.merged
            merged = " (merged with what was written since)" if is_merged else ""
            path = printable(suggestion.path)
            says = f"{path} was written{merged}; `parachute undo {run}` takes it back"
        status: Status = "approved" if suggestion.modifications is None else "modified"
        applied_run = run if writes else None
        return self.close(record, status, by or USER, says, requester, applied_run=applied_run)

    def _save_run(self, suggestion: Suggestion, author: Author, writes: Sequence[Write]) -> None:
        path, now, vault = printable(suggestion.path), self._vault.clock(), self._vault
        named = {
            "id": suggestion.id,
            "source_agent": suggestion.source_agent,
            "resolved_by": suggestion.resolved_by,
        }
        document = run_document(
            str(author.run),
            watcher=path,
            agent="suggestion",
            started=now,
            causes=[{"id": cause} for cause in author.causes],
            parents=[suggestion.run] if suggestion.run else [],
            ended=now.isoformat(),
            reason=f"{suggestion.action} {path}, suggested by {suggestion.source_agent} as "
            f"{suggestion.id}, approved by {suggestion.resolved_by}",
            wrote=[
                wrote(write.path, (write.before, write.after), vault.objects) for write in writes
            ],
            suggestion=named,
        )
        vault.history.save_run(
            str(author.run),
            started=now,
            watcher=suggestion.path,
            outcome=PERSONS,
            causes=list(author.causes),
            document=document,
        )

    def _superseded(
        self, record: SuggestionRecord, error: SupersededError, by: str
    ) -> SuggestionRecord:
        texts = (
            ("What would stand there", _shown_text(error.ours)),
            ("What stands there now", _shown_text(error.theirs)),
        )
        is_private = holds_private(error.ours or b"", error.theirs or b"")
        now = self._vault.clock()
        return record.over("superseded", by, error.why, now, after=texts, is_private=is_private)

    def close(
        self,
        record: SuggestionRecord,
        status: Status,
        by: str,
        says: str,
        requester: Requester | None = None,
        *,
        applied_run: str | None = None,
    ) -> SuggestionRecord:
        over = record.over(status, by, says, self._vault.clock(), applied_run=applied_run)
        return self.save(over, requester)

    def save(
        self, record: SuggestionRecord, requester: Requester | None = None
    ) -> SuggestionRecord:
        """Keep it. Its file follows; where it cannot, it does at the next start."""
        self._store.keep(record)
        try:
            self._store.put_up(record, requester)
        except ParachuteError as error:
            self.trouble = f"the file of a suggestion could not be written: {error.message}"
        else:
            self.trouble = None
        return record


def _shown_text(text: bytes | None) -> str:
    if text is None:
        return "(not known, or no file)"
    shown = text[:_MOST_SHOWN].decode("utf-8", "replace")
    return shown if len(text) <= _MOST_SHOWN else f"{shown}\n(cut: it has {len(text)} bytes)"
