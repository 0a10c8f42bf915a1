"""Vault writing: what a module, or a run of an agent, may write, checked at every call.

Where a path leads is resolved first, and both ends are checked; a link that is swapped in meanwhile
is not followed. What is written after untrusted text was read is recorded as untrusted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace

from parachuted.access.authority import Authority, RunRestrictions, current
from parachuted.access.notes import NoteEdit
from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.access.origins import Origins
from parachuted.access.private_text import edit_keeping_private, without_private
from parachuted.access.run_records import ProposedChange, RunWatch
from parachuted.audit.chain import AuditRecorder, NullAuditRecorder
from parachuted.bubbling import watched_beyond
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    StorageFailedError,
)
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.bounded_notes import BoundedNotes, has_spans, set_key, vault_edit
from parachuted.runs.bounds import ModuleBounds
from parachuted.search import Search
from parachuted.tools import Writing, unwatched
from parachuted.vault import (
    AppendToSection,
    Author,
    DeleteKey,
    Edit,
    EditRequest,
    FileContent,
    ReplaceAll,
    ReplaceSection,
    SetFrontmatterKey,
    Store,
    VaultIndex,
    VaultPath,
    WriteResult,
    apply_edit,
    declared_origin,
    digest_of,
    printable,
)
from parachuted.vault.edit_request import decide

_LARGEST_WRITE = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Objected:
    run: RunWatch
    change: ProposedChange
    why: str


class VaultWriting(BoundedNotes):
    """Writes for one module, or for one run of its agent.

    `author` returns the present author and causes.
    """

    def __init__(  # noqa: PLR0913  the parts of a part
        self,
        store: Store,
        index: VaultIndex,
        search: Search,
        bounds: ModuleBounds,
        author: Callable[[], Author],
        *,
        audit: AuditRecorder | None = None,
        writing: Writing = unwatched,
        run: RunWatch | None = None,
        authority: Callable[[], Authority] = current,
        origins: Origins | None = None,
        own: Origin = "agent",
        module: str = "",
    ) -> None:
        """`writing` is entered for each write, and gives what is called with its result, before the
        write can be noticed; `run` watches over a run of an agent.

        `authority` finds on whose behalf it acts now. For a module, `origins` says whose texts are
        a stranger's, and `own` what those count as that it writes itself; `module` is its name.
        """
        super().__init__(
            store, index, search, bounds, authority=authority, run=run, origins=origins, own=own
        )
        self._audit = audit or NullAuditRecorder()
        self._author, self._writing, self._reason = author, writing, ""
        self._module = module

    async def write(self, path: str, text: str, *, base: str | None = None) -> str:
        """Make the note this text, and return its digest.

        What others wrote since `base` is merged, or it is a conflict.
        """
        return await self.write_bytes(path, encoded(text), base=base)

    async def write_bytes(self, path: str, data: bytes, *, base: str | None = None) -> str:
        """Write these bytes and return their digest.

        A change by others since `base` is a conflict unless both are text.
        """
        _check_size(data)
        return await self._written(
            path,
            lambda real: self._put(real, data, base),
            lambda real: self._planned(real, ReplaceAll(data=data), base),
        )

    async def create(self, path: str, text: str) -> str:
        """Make a new note; ConflictError when there is one."""
        data = encoded(text)
        plan = ProposedChange(path="", action="create", base=None, data=data)
        return await self._written(
            path, lambda real: self._create(real, data), lambda real: replace(plan, path=str(real))
        )

    async def import_note(
        self, path: str, text: str, *, base: str | None = None, is_own: bool = False
    ) -> str:
        """Make a note of what another program held, or, with a `base`, put it into one.

        Its frontmatter says `origin: imported`, and so does the record of where texts came from,
        unless it is what the person wrote (`is_own`), who asks for it.
        """
        data, origin = encoded(text), self._watch.origin_of_import(is_own=is_own)
        if origin in UNTRUSTED and not UNTRUSTED.intersection(declared_origin(data)):
            data = apply_edit(SetFrontmatterKey(key="origin", value=origin), data)
        plan = ProposedChange(path="", action="create", base=None, data=data)
        return await self._written(
            path,
            lambda real: self._create(real, data) if base is None else self._put(real, data, base),
            lambda real: (
                replace(plan, path=str(real))
                if base is None
                else self._planned(real, ReplaceAll(data=data), base)
            ),
            origin=origin,
        )

    async def append(self, path: str, section: str, text: str) -> str:
        edit = AppendToSection(section=section, content=text, create=True)
        return await self._edit(path, edit, None)

    async def replace_section(
        self, path: str, section: str, text: str, *, base: str | None = None
    ) -> str:
        edit = ReplaceSection(section=section, content=text, create=True, is_only=True)
        return await self._edit(path, edit, base)

    async def set_key(self, path: str, key: str, value: object) -> str:
        """Set one key of the frontmatter; None takes it out."""
        return await self._edit(path, DeleteKey(key=key) if value is None else set_key(key, value))

    async def edit(self, path: str, edits: Sequence[NoteEdit], *, base: str | None = None) -> str:
        """Make all of the changes as one write, or none, and return the note's digest.

        What others wrote since `base` is kept, or it is a conflict.
        """
        return await self._edit(path, vault_edit(edits, base), base)

    async def delete(self, path: str) -> None:
        """Remove a file; its content is kept. A link is not removed, nor what it leads to."""
        await self._written(
            path,
            lambda real: self._store.delete(real, self._author()),
            self._gone,
            is_gone=True,
        )

    async def _edit(self, path: str, edit: Edit, base: str | None = None) -> str:
        return await self._written(
            path,
            lambda real: self._edited(real, edit, base),
            lambda real: self._planned(real, edit, base),
        )

    async def _written(
        self,
        path: str,
        act: Callable[[VaultPath], WriteResult],
        plan: Callable[[VaultPath], ProposedChange],
        *,
        is_gone: bool = False,
        origin: Origin | None = None,
    ) -> str:
        """`plan` describes the change, for a run that may not make it now; `origin` is whose text
        it is, where that does not follow from what was read.
        """
        target = VaultPath.parse(path)
        beyond = await self._beyond("write", target, is_named=is_gone)
        written = await run_uninterrupted(
            self._write, target, act, plan, beyond=beyond, is_gone=is_gone, origin=origin
        )
        if isinstance(written, _Objected):
            raise ActRefusedError(await written.run.instead(written.change, written.why))
        if written.changed:
            await self._store.notice([written.path])
        return written.after or ""

    def _write(
        self,
        path: VaultPath,
        act: Callable[[VaultPath], WriteResult],
        plan: Callable[[VaultPath], ProposedChange],
        *,
        beyond: Sequence[str],
        is_gone: bool,
        origin: Origin | None,
    ) -> WriteResult | _Objected:
        """`is_gone`: the file is to be removed: the name itself is meant, so a link that has it is
        not followed.
        """
        run = self._watching
        real = self._may_write(path, beyond=beyond, is_named=is_gone)
        if run is not None and (why := run.objection(real)) is not None:
            with self._store.root.straight():
                return _Objected(run=run, change=plan(real), why=why)
        with self._store.root.straight(), self._as_run(real), self._writing(real) as wrote:
            try:
                written = act(real) if is_gone else self._recorded(real, act, origin)
            except ConflictError as error:
                raise self._as_seen(real, error) from None
            if written.changed:
                wrote(written)
        if written.after is not None:
            self._remember(written.path, written.after)
        return written

    def _as_run(self, path: str) -> AbstractContextManager[None]:
        """Around a write: it is part of the run that the module's call is."""
        call = self._authority().call
        return (
            nullcontext() if call is None else call.writing(self._author().by, path, self._reason)
        )

    def _may_write(
        self, path: VaultPath, *, beyond: Sequence[str] = (), is_named: bool = False
    ) -> VaultPath:
        """The file that is meant; `is_named`: the name itself, so no link that has it is followed.

        Raises when it may not be written now.
        """
        if self._audit.refusal is not None:
            raise StorageFailedError(self._audit.refusal)
        self._authority().check_circle(f"writing {printable(path)}")
        real, caller, bounds = self._real(path, is_named=is_named), self._caller, self._bounds
        if caller is not None and not caller.may_write_by(self._module):
            raise ActRefusedError(
                f"{bounds.who} may not write {printable(path)} for an agent that may not write "
                "notes itself"
            )
        if caller is not None and self._watching is caller.watch:
            bounds = self._own.limited(caller.asker.reads, caller.asker.writes)
        bounds.with_files("write", beyond).check_write(path, real)
        return real

    @property
    def _caller(self) -> RunRestrictions | None:
        """The run of an agent that has called one of this module's tools; what an event of that
        leads to is the module's own.
        """
        now, within = self._authority(), self._authority().within
        if within is None or within.watch is None or within.asker.events != now.events:
            return None
        return within

    @property
    def _watching(self) -> RunWatch | None:
        """What says whether a write is suggested instead: that of a run, also where its agent calls
        another module than its own.
        """
        caller = self._caller
        watch: RunWatch | None = None if caller is None else caller.watch
        return self._run if caller is None or caller.module == self._module else watch

    def _recorded(
        self, real: VaultPath, act: Callable[[VaultPath], WriteResult], origin: Origin | None
    ) -> WriteResult:
        """Record who wrote the text: untrusted, if the writer has read untrusted text or is not
        trusted.
        """
        with self._watch.writing(real, origin) as wrote:
            written = act(real)
            wrote(written.after if written.changed else None)
        return written

    def _planned(self, real: VaultPath, edit: Edit, base: str | None) -> ProposedChange:
        """What an edit would do.

        A whole text was decided on its base; a part of one is put where it belongs now.
        """
        try:
            before = self._store.read(real, keep=True)
        except NotFoundError:
            if base is not None or not isinstance(edit, ReplaceAll):
                raise
            return ProposedChange(path=str(real), action="create", base=None, data=edit.data)
        self._check_base(real, base, before)
        if not self._sees_private(real):
            edit = self._keeping_private(real, edit, before, base)
        if base is not None and isinstance(edit, ReplaceAll):
            return ProposedChange(path=str(real), action="update", base=base, data=edit.data)
        data = self._applied(real, edit, base if has_spans(edit) else None, before)
        return ProposedChange(path=str(real), action="update", base=before.digest, data=data)

    def _check_base(self, real: VaultPath, base: str | None, present: FileContent) -> None:
        """Any kept text can be named by its digest, and a merge with it would reveal it."""
        if base not in {None, present.digest} and (real, base) not in self._bases:
            raise NotFoundError(
                f"the text this was decided on ({str(base)[:12]}) is not one that was read here; "
                f"read {printable(real)} again"
            )

    def _gone(self, real: VaultPath) -> ProposedChange:
        return ProposedChange(
            path=str(real),
            action="delete",
            base=self._store.read(real, keep=True).digest,
            data=None,
        )

    def _put(self, real: VaultPath, data: bytes, base: str | None) -> WriteResult:
        try:
            return self._edited(real, ReplaceAll(data=data), base)
        except NotFoundError:
            if base is not None:
                raise
        return self._create(real, data)

    def _create(self, real: VaultPath, data: bytes) -> WriteResult:
        self._refuse_watching(real, b"", data)
        return self._store.create(real, data, self._author())

    def _edited(self, real: VaultPath, edit: Edit, base: str | None) -> WriteResult:
        self._refuse_large(real, real)
        before = self._store.read(real)
        self._check_base(real, base, before)
        if not self._sees_private(real):
            edit = self._keeping_private(real, edit, before, base)
        if base not in {None, before.digest} and self._store.bases.text(real, str(base)) is None:
            raise ConflictError(
                f"{printable(real)} changed since it was read, and that text is not kept; read it "
                "again",
                base=b"",
                ours=b"",
                theirs=before.data,
            )
        # what is refused here the store refuses too, with what the caller is to know
        with suppress(NotFoundError, ConflictError, EditRefusedError):
            self._refuse_watching(real, before.data, self._applied(real, edit, base, before))
        return self._store.edit(real, edit, self._author(), base=base)

    def _applied(self, real: VaultPath, edit: Edit, base: str | None, before: FileContent) -> bytes:
        """The text with the edit in it, merged with what others wrote since its base."""
        request = EditRequest(edit=edit, base=base)
        known = self._store.bases.text
        return decide(request, before.data, lambda *asked: known(real, *asked))[0]

    def _keeping_private(
        self, real: VaultPath, edit: Edit, before: FileContent, base: str | None
    ) -> Edit:
        kept = edit_keeping_private(edit, before.data)
        if kept != edit and base not in {None, before.digest}:
            raise EditRefusedError(
                f"{printable(real)} has a private part and has changed meanwhile; read it again"
            )
        return kept

    def _refuse_watching(
        self, path: VaultPath, before: bytes, after: bytes, *, was: VaultPath | None = None
    ) -> None:
        """What a note watches, a curator reads and writes down in it."""
        beyond = watched_beyond(self._bounds.reads, path, before, after, was=was)
        if beyond is not None:
            raise ActRefusedError(
                f"{printable(path)} may not watch {printable(beyond)}: {self._bounds.who} may not "
                "read all of that"
            )

    def _as_seen(self, path: VaultPath, error: ConflictError) -> ConflictError:
        """The conflict with their own text, and the other one if they may read it."""
        is_known, theirs = error.is_known and self._bounds.may_read(path), error.theirs
        if is_known:
            self._watch.shown(path, theirs, digest_of(theirs))
        if not self._sees_private(path):
            theirs = without_private(theirs)
        return ConflictError(
            error.message,
            base=b"",
            ours=error.ours,
            theirs=theirs if is_known else b"",
            is_known=is_known,
        )


def _check_size(data: bytes) -> None:
    if len(data) > _LARGEST_WRITE:
        raise EditRefusedError(f"it is larger than {_LARGEST_WRITE >> 20} MB; nothing was written")


def encoded(text: str) -> bytes:
    """The bytes of a note. Raises TypeError or EditRefusedError for what can be none."""
    if not isinstance(text, str):
        raise TypeError(
            f"a note is written as text, not as {type(text).__name__}; write_bytes writes bytes"
        )
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EditRefusedError("the text is not valid Unicode") from error
    _check_size(data)
    return data
