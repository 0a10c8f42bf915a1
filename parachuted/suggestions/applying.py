"""Applying: makes an accepted change through the one writer, as a run that can be undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parachuted.access.strangers import MARK, marked
from parachuted.errors import (
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
)
from parachuted.suggestions.payload import check_target, edit_of, text_after
from parachuted.suggestions.store import SuggestionStore, holds_private
from parachuted.suggestions.suggestion import (
    USER,
    PlannedSuggestion,
    Status,
    Suggestion,
    SuggestionAction,
    SuggestionRecord,
)
from parachuted.vault import (
    PERSONS,
    Author,
    Requester,
    SeveralEdits,
    Store,
    VaultPath,
    Write,
    WriteResult,
    digest_of,
    merge_three,
    new_id,
    printable,
)
from parachuted.vault.chains import wrote
from parachuted.vault.trail import run_document

_LARGEST_TARGET, _MOST_SHOWN = 8 << 20, 64 << 10
_GONE, _SINCE = "the file is gone", "the file was changed since in the same place"
_CLASHES: Mapping[SuggestionAction, str] = {
    "create": "there is now another file of that name",
    "delete": "the file was changed since, so it is not removed",
    "update": _SINCE,
    "link": _SINCE,
}


class SupersededError(Exception):
    """It cannot be done any more: why, what would stand there, and what stands there now."""

    def __init__(self, why: str, ours: bytes | None = None, theirs: bytes | None = None) -> None:
        super().__init__(why)
        self.why, self.ours, self.theirs = why, ours, theirs


class SuggestionApplier:
    """Plans, applies, and keeps how they ended. Blocks on the disk. No link is followed. `trouble`:
    why a file was not written.
    """

    def __init__(self, store: Store, records: SuggestionStore) -> None:
        self._root, self._store, self._records = store.root, store, records
        self.trouble: str | None = None

    def plan(self, suggestion: Suggestion) -> PlannedSuggestion:
        """On the text that it was decided on. EditRefusedError, NotFoundError, PathRefusedError."""
        path = self._straight(suggestion.path)
        before, base = self._base(path, suggestion)
        after = _text_after(suggestion, before)
        if after == before:
            raise EditRefusedError(f"{printable(path)} says that already; nothing is to be done")
        return PlannedSuggestion(before=before, after=after, base=base)

    def write(self, suggestion: Suggestion, author: Author) -> WriteResult | None:
        """Do it; None: it was so already. Raises SupersededError, and what the store raises when
        the disk refuses or a hook objects; then nothing was done.
        """
        path, base = self._straight(suggestion.path), suggestion.base
        with self._root.straight():
            known, ours = self._wanted(path, suggestion)
            try:
                match suggestion.action:
                    case "create":
                        return self._store.create(path, ours, author)
                    case "delete":
                        return self._store.delete(path, author, base=base)
                    case _:
                        return self._store.replace(path, ours, author, base=base)
            except NotFoundError as error:
                if suggestion.action == "delete":
                    return None
                raise SupersededError(_GONE, ours) from error
            except ConflictError as error:
                if suggestion.action == "create" and error.theirs == ours:
                    return None
                clash = SupersededError(_CLASHES[suggestion.action], ours, error.theirs)
                if known is None:
                    raise clash from error
                return self._add(path, known, clash, suggestion, author)

    def _wanted(self, path: VaultPath, suggestion: Suggestion) -> tuple[bytes | None, bytes]:
        """The text to merge from (None: no merge), and what is to stand there."""
        if suggestion.action == "delete":
            return None, b""
        if suggestion.action == "create":
            over = suggestion.effect.get("over")
            known = None if over is None else str(over).encode()
            return known, _text_after(suggestion, None) or b""
        try:
            present = self._store.read(path, keep=True)
        except NotFoundError as error:
            raise SupersededError(_GONE) from error
        is_same = present.digest == suggestion.base
        base = present.data if is_same else self._store.bases.text(path, str(suggestion.base))
        if base is None:
            why = "the file was changed since, and the text that this was decided on is not kept"
            raise SupersededError(why, theirs=present.data)
        try:
            return base, _text_after(suggestion, base) or b""
        except (EditRefusedError, NotFoundError) as error:
            if suggestion.modifications is not None:  # a person's, so the suggestion waits still
                raise
            raise SupersededError(error.message, theirs=present.data) from error

    def _add(
        self,
        path: VaultPath,
        base: bytes,
        clash: SupersededError,
        suggestion: Suggestion,
        author: Author,
    ) -> WriteResult:
        """Do it to the file as it is now, where that only grew. Raises the clash."""
        ours, theirs = clash.ours or b"", clash.theirs or b""
        try:
            if "text" not in suggestion.effect:
                edit = edit_of(suggestion.effect)
                if suggestion.is_strangers:
                    edit = SeveralEdits(edits=(edit, MARK))
                return self._store.edit(path, edit, author, base=suggestion.base)
            merged = merge_three(base, ours, theirs, prefer="both")
            if merged.clean:
                now = digest_of(theirs)
                done = self._store.replace(path, merged.data, author, base=now)
                return replace(done, merged=True)
        except (ConflictError, EditRefusedError, NotFoundError) as error:
            raise clash from error
        raise clash

    def _base(self, path: VaultPath, suggestion: Suggestion) -> tuple[bytes | None, str | None]:
        try:
            with self._root.straight():
                if self._root.size(path) > _LARGEST_TARGET:
                    most = f"{_LARGEST_TARGET >> 20} MB"
                    raise EditRefusedError(f"{printable(path)} is larger than {most}; split it")
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
            raise NotFoundError(f"base is not one of the texts of {printable(path)}; read it")
        self._store.bases.keep(path, known)
        return known, suggestion.base

    def _straight(self, path: str) -> VaultPath:
        target = check_target(path)
        if self._store.resolve(target) != target:
            raise PathRefusedError(f"{printable(target)} is a link; name the file itself")
        return target

    def apply(
        self,
        record: SuggestionRecord,
        by: str,
        payload: Mapping[str, object] | None,
        requester: Requester | None = None,
    ) -> SuggestionRecord:
        """`payload`: what a person would have in place of its own."""
        now = self._store.clock()
        run, causes = new_id("r", now), record.suggestion.causes or (new_id("c", now),)
        author = Author(by=f"suggestion:{record.suggestion.id}", run=run, causes=causes)
        started = record.start(run, by, payload)
        self._records.keep(started)
        try:
            written = self.write(started.suggestion, author)
        except SupersededError as error:
            after = (
                ("What would stand there", _shown_text(error.ours)),
                ("What stands there now", _shown_text(error.theirs)),
            )
            over = record.over("superseded", by, error.why, self._store.clock())
            is_private = over.is_private or holds_private(error.ours or b"", error.theirs or b"")
            return self.save(replace(over, after=after, is_private=is_private), requester)
        except BaseException:
            if not self._store.history.writes_by(run):
                self._records.keep(started.waiting())
            raise
        is_merged = written is not None and written.merged
        return self._done(started, author, requester, is_merged=is_merged)

    def settle(self, record: SuggestionRecord) -> SuggestionRecord:
        """At the start: one that was being applied was, if its run wrote; else it waits again."""
        if writes := self._store.history.writes_by(str(record.applying)):
            return self._done(record, writes[0].author)
        waiting = record.waiting()
        self._records.keep(waiting)
        return waiting

    def _done(
        self,
        record: SuggestionRecord,
        author: Author,
        requester: Requester | None = None,
        *,
        is_merged: bool = False,
    ) -> SuggestionRecord:
        suggestion, run = record.suggestion, str(author.run)
        says = "it said that already"
        if writes := self._store.history.writes_by(run):
            self._save_run(suggestion, author, writes)
            merged = " (merged with what was written since)" if is_merged else ""
            path = printable(suggestion.path)
            says = f"{path} was written{merged}; `parachute undo {run}` takes it back"
        status: Status = "approved" if suggestion.modifications is None else "modified"
        applied_run = run if writes else None
        by = suggestion.resolved_by or USER
        at = self._store.clock()
        return self.save(record.over(status, by, says, at, run=applied_run), requester)

    def _save_run(self, suggestion: Suggestion, author: Author, writes: Sequence[Write]) -> None:
        path, now, vault = printable(suggestion.path), self._store.clock(), self._store
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
            wrote=wrote(writes, vault.history, vault.objects),
            suggestion={
                name: getattr(suggestion, name) for name in ("id", "source_agent", "resolved_by")
            },
        )
        vault.history.save_run(
            str(author.run),
            started=now,
            watcher=suggestion.path,
            outcome=PERSONS,
            causes=list(author.causes),
            document=document,
        )

    def save(
        self, record: SuggestionRecord, requester: Requester | None = None
    ) -> SuggestionRecord:
        """Keep it. Its file follows; where it cannot, it does at the next start."""
        self._records.keep(record)
        self.trouble = None
        try:
            self._records.put_up(record, requester)
        except ParachuteError as error:
            self.trouble = f"the file of a suggestion could not be written: {error.message}"
        return record


def _text_after(suggestion: Suggestion, before: bytes | None) -> bytes | None:
    """What is to stand there, marked where strangers' words led to it. Raises as `text_after`."""
    after = text_after(suggestion.action, suggestion.effect, before)
    if after is None or after == before or not suggestion.is_strangers:
        return after
    return marked(suggestion.path, after)


def _shown_text(text: bytes | None) -> str:
    if text is None:
        return "(not known, or no file)"
    shown = text[:_MOST_SHOWN].decode("utf-8", "replace")
    return shown if len(text) <= _MOST_SHOWN else f"{shown}\n(cut: it has {len(text)} bytes)"
