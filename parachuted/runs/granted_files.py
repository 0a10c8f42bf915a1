"""Granted files: one file of the vault at a time, read and written as far as one user's grant and
its present caller reach. Everything here blocks on the disk.

Where a path leads is resolved first, and both ends are checked. Then the file is opened by
descriptor without following links, so the kernel refuses a link swapped in meanwhile. Reading
untrusted text taints the caller; what is written after that is recorded as untrusted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from parachuted.access.authority import Authority, CallRecord, RunRestrictions
from parachuted.access.notes import Writer
from parachuted.access.origin import Origin
from parachuted.access.origins import Origins
from parachuted.access.private_text import edit_keeping_private, without_private
from parachuted.access.run_records import ProposedChange, RunWatch
from parachuted.audit.chain import AuditRecorder
from parachuted.bubbling import watched_beyond
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.history.acts import ActStep
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.note_values import FileChange, has_spans
from parachuted.runs.text_watch import TextWatch
from parachuted.tools import Mover, MoveResult, Writing
from parachuted.vault import (
    BRINGS_BACK,
    NOTE_SUFFIXES,
    Author,
    Edit,
    EditRequest,
    FileContent,
    IncomingFile,
    ReplaceAll,
    Store,
    VaultPath,
    WriteResult,
    digest_of,
    place_incoming,
    printable,
)
from parachuted.vault.edit_request import decide

_LARGEST_READ = 64 << 20
_REMEMBERED = 30_000
_FRONTMATTER = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultUser:
    """Who uses the vault: a module's code, a run of an agent, or a connected client.

    `authority` finds on whose behalf it acts now, and `author` whose a write is that belongs to
    the record of a call. `writing` is entered for each write, and gives what is called with its
    result, before the write can be noticed. `run` is the guard of a run or a client; for a module
    it is None, `module` its name, `origins` says whose texts are a stranger's, and `own` what the
    texts count as that it writes itself.
    """

    authority: Callable[[], Authority]
    author: Callable[[CallRecord | None], Author]
    writing: Writing
    run: RunWatch | None = None
    module: str = ""
    origins: Origins | None = None
    own: Origin = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why a run may not make a change now, and what it wanted."""

    run: RunWatch
    change: ProposedChange
    why: str


class GrantedFiles:
    def __init__(
        self, store: Store, grant: ModuleBounds, user: VaultUser, audit: AuditRecorder
    ) -> None:
        self.store, self._grant, self._user, self._audit = store, grant, user, audit
        self.watch = TextWatch(user.run, user.authority, user.origins, user.own, self._hit)
        self._bases: OrderedDict[tuple[str, str], None] = OrderedDict()

    @property
    def bounds(self) -> ModuleBounds:
        """What may be read and written now. Raises ActRefusedError when the caller's rights have
        ended.
        """
        caller = self._user.authority()
        caller.check()
        bounds = self._grant.limited(caller.reads, caller.writes)
        if self._user.run is not None or caller.within is not None or caller.is_limited:
            bounds = replace(bounds, hides=self.store.root.ignore.hides)
        return bounds

    def find(self, path: VaultPath, beyond: Sequence[str] = ()) -> VaultPath:
        """The readable file that the path leads to; `beyond`: those that a person just allowed."""
        real = self.store.root.resolve(path)
        self.bounds.with_files("read", beyond).check_read(path, real)
        return real

    def place(self, path: VaultPath, *, is_named: bool = False) -> VaultPath:
        """Where the path leads. `is_named`: the name itself is meant, so a link that has it is not
        followed.
        """
        root = self.store.root
        if not is_named:
            return root.resolve(path)
        return root.resolve(path.folder) / path.name if path.folder else path

    def read(
        self, path: VaultPath, *, keep: bool = False, see: bool = False, beyond: Sequence[str] = ()
    ) -> FileContent:
        """`keep`, or `see` while the machine goes on: the text may be the base of a later write."""
        real = self.find(path, beyond)
        with self.store.root.straight():
            self.refuse_large(path, real)
            content = self.store.read(real, keep=keep)
        if see:
            with suppress(OSError):
                self.store.bases.see([(real, content.data)])
        if keep or see:
            self.remember(real, content.digest)
        self.watch.read(real, content.data, content.digest)
        return self.visible(real, content)

    def remember(self, path: VaultPath, digest: str) -> None:
        """The text was read here, and may be the base of a write."""
        self._bases[path, digest] = None
        while len(self._bases) > _REMEMBERED:
            self._bases.popitem(last=False)

    def count_as_read(self, path: VaultPath, content: FileContent) -> None:
        """A text that was read by its path counts as `read` does."""
        self.watch.read(path, content.data, content.digest)
        self.remember(path, content.digest)

    def visible(self, real: VaultPath, content: FileContent) -> FileContent:
        """What of a note is for this reader; the digest stays that of the whole."""
        if self._sees_private(real):
            return content
        data = without_private(content.data)
        return content if data is content.data else replace(content, data=data)

    def size(self, path: VaultPath) -> int:
        real = self.find(path)
        with self.store.root.straight():
            return self.store.root.size(real)

    def writer(self, path: VaultPath, digest: str) -> Writer:
        """Who wrote that content of the file."""
        writes = self.store.history.writes_of(self.find(path))[::-1]
        if not writes or writes[0].after != digest:
            return "person"
        author = writes[0].author
        if author.by in BRINGS_BACK and not author.key:  # the text is whose it was before
            wrote = (write.author for write in writes if write.after == digest)
            author = next((author for author in wrote if author.by not in BRINGS_BACK), author)
        if author.key:
            return "key"
        if author.by == "person" or author.by in BRINGS_BACK:
            return "person"
        return "module" if author.by.startswith("module:") and "/" not in author.by else "agent"

    def refuse_large(self, path: VaultPath, real: VaultPath) -> None:
        if self.store.root.size(real) > _LARGEST_READ:
            raise EditRefusedError(
                f"{printable(path)} is larger than {_LARGEST_READ >> 20} MB, which is not read at "
                "once"
            )

    def write(
        self,
        change: FileChange,
        beyond: Sequence[str] = (),
        call: CallRecord | None = None,
        reason: str = "",
    ) -> WriteResult | Objection:
        """Make the change, as part of that call or else of the present one; or say why the run may
        not.
        """
        call = call or self._user.authority().call
        real = self.check_write(change.path, beyond=beyond, is_named=change.edit is None)
        run = self._guard
        if run is not None and (why := run.objection(real)) is not None:
            with self.store.root.straight():
                return Objection(run=run, change=self._plan(real, change), why=why)
        author = self._user.author
        with self._written(real, call, reason) as wrote:
            if change.edit is None:
                written = self.store.delete(real, author(call), base=change.base)
            else:
                with self.watch.writing(real, change.origin) as record:
                    written = self._made(real, change, change.edit, lambda: author(call))
                    record(written.after if written.changed else None)
            wrote(written)
        return written

    def upload(self, path: VaultPath, incoming: IncomingFile) -> WriteResult:
        """Put a file of pieces there."""
        real = self.check_write(path)
        self._refuse_tainted(real)
        call = self._user.authority().call
        with self._written(real, call) as wrote, self.watch.writing(real) as record:
            self._refuse_watching(real, b"", incoming.beginning(_FRONTMATTER))
            author = self._user.author(call)
            written = place_incoming(self.store, real, incoming, author, is_new=True)
            record(written.after)
            wrote(written)
        return written

    def steps(self, changes: Sequence[FileChange]) -> list[ActStep]:
        """What the changes come to, their texts kept. Raises what making them would; an agent's run
        is asked about each by itself, so of that there is none.
        """
        guard = self._guard
        if guard is not None and (guard is self._user.run or guard.is_tainted):
            return []
        steps: list[ActStep] = []
        for change in changes:
            real = self.check_write(change.path, is_named=change.edit is None)
            with self.store.root.straight(), self._conflicts_as_seen(real):
                if not change.is_new and change.edit is not None:
                    self.refuse_large(real, real)
                planned, objects = self._plan(real, change), self.store.objects
                if planned.data is not None:
                    before = b"" if planned.base is None else objects.get(planned.base) or b""
                    self._refuse_watching(real, before, planned.data)
                after = None if planned.data is None else objects.put(planned.data)
                if after != planned.base:
                    steps.append(ActStep(path=str(real), base=planned.base, after=after))
        return steps

    def move(
        self,
        source: VaultPath,
        target: VaultPath,
        files: Sequence[VaultPath],
        linking: Callable[[str], set[str]],
    ) -> MoveResult:
        """What is moved to where others may read it is read by the move. `linking` finds the notes
        with links to a file.
        """
        bounds, guard = self.bounds, self._guard
        old, new = (self.check_write(path, is_named=True) for path in (source, target))
        bounds.check_read(source, old)
        for path in (old, new):
            self._refuse_tainted(path)
        call = self._user.authority().call
        with self.store.root.straight(), self._in_call(old, call), self._conflicts_as_seen(new):
            self.refuse_large(source, old)
            data = self.store.read(old).data
            before = data if old.endswith(NOTE_SUFFIXES) else b""
            self._refuse_watching(new, before, data, was=old)
            moved = Mover(self.store, linking).move(
                old,
                new,
                self._user.author(call),
                base=digest_of(data),
                files=filter(bounds.may_read, files),
                may_write=lambda note: (
                    bounds.may_read(note)
                    and bounds.may_write(note)
                    and (guard is None or guard.objection(note) is None)
                ),
                are_all=False,
                writing=self._recorded,
                origin=self.watch.origin,
            )
        self.watch.moved(old, new, digest_of(data))
        for written in (moved.written, *moved.rewritten):
            self.remember(written.path, str(written.after))
        return moved

    def check_write(
        self, path: VaultPath, *, beyond: Sequence[str] = (), is_named: bool = False
    ) -> VaultPath:
        """The file that is meant. Raises when it may not be written now."""
        if self._audit.refusal is not None:
            raise StorageFailedError(self._audit.refusal)
        self._user.authority().check_circle(f"writing {printable(path)}")
        real, within, bounds = self.place(path, is_named=is_named), self._calling_run, self.bounds
        if within is not None and not within.may_write_by(self._user.module):
            raise ActRefusedError(
                f"{bounds.who} may not write {printable(path)} for an agent that may not write "
                "notes itself"
            )
        if within is not None and self._guard is within.watch:
            bounds = self._grant.limited(within.asker.reads, within.asker.writes)
        bounds.with_files("write", beyond).check_write(path, real)
        return real

    @property
    def _calling_run(self) -> RunRestrictions | None:
        """The run of an agent that has called one of this module's tools; what an event of that
        leads to is the module's own.
        """
        caller = self._user.authority()
        within = caller.within
        if within is None or within.watch is None or within.asker.events != caller.events:
            return None
        return within

    @property
    def _guard(self) -> RunWatch | None:
        """What says whether a write is suggested instead: that of a run, also where its agent calls
        another module than its own.
        """
        within = self._calling_run
        if within is None or within.module == self._user.module:
            return self._user.run
        return within.watch

    def _sees_private(self, real: VaultPath) -> bool:
        """Whether its private parts are for this reader: a module's own code that may write it,
        outside an agent's run.
        """
        is_agents = self._user.run is not None or self._user.authority().within is not None
        return not is_agents and self._grant.may_write(real)

    def _hit(self, path: str) -> FileContent | None:
        """The note that a search found; None: it is gone, too large, or a link by now."""
        with suppress(ParachuteError), self.store.root.straight():
            self.refuse_large(VaultPath(path), VaultPath(path))
            return self.store.read(VaultPath(path))
        return None

    @contextmanager
    def _written(
        self, real: VaultPath, call: CallRecord | None, reason: str = ""
    ) -> Iterator[Callable[[WriteResult], None]]:
        """Around a write: links are not followed, the call's record holds it, and its outcome
        is remembered.
        """
        results: list[WriteResult] = []
        with (
            self.store.root.straight(),
            self._in_call(real, call, reason),
            self._user.writing(real) as wrote,
            self._conflicts_as_seen(real),
        ):
            yield results.append
            if results[0].changed:
                wrote(results[0])
        if results[0].after is not None:
            self.remember(results[0].path, results[0].after)

    @contextmanager
    def _recorded(self, path: VaultPath) -> Iterator[Callable[[WriteResult], None]]:
        """Around one write of a move."""
        with self._user.writing(path) as wrote, self.watch.writing(path) as record:

            def publish(written: WriteResult) -> None:
                record(written.after if written.changed else None)
                if written.changed:
                    wrote(written)

            yield publish

    def _in_call(
        self, path: str, call: CallRecord | None, reason: str = ""
    ) -> AbstractContextManager[None]:
        if call is None:
            return nullcontext()
        return call.writing(self._user.author(call).by, path, reason)

    def _refuse_tainted(self, real: VaultPath) -> None:
        """A move, or a file of many pieces, is not suggested."""
        guard = self._guard
        if guard is not None and (why := guard.objection(real)) is not None:
            raise ActRefusedError(why)

    def _made(
        self, real: VaultPath, change: FileChange, edit: Edit, author: Callable[[], Author]
    ) -> WriteResult:
        data = edit.data if isinstance(edit, ReplaceAll) else b""
        if change.source is not None:
            source = self.check_write(change.source, is_named=True)
            before = self.store.objects.get(str(change.base)) or b""
            self._refuse_watching(real, before, data, was=source)
            return self.store.move(source, real, author(), base=change.base)
        if not change.is_new:
            try:
                return self._edited(real, edit, change.base, author())
            except NotFoundError:
                if change.base is not None or not isinstance(edit, ReplaceAll):
                    raise
        self._refuse_watching(real, b"", data)
        return self.store.create(real, data, author())

    def _edited(self, real: VaultPath, edit: Edit, base: str | None, author: Author) -> WriteResult:
        self.refuse_large(real, real)
        before, edit = self._present(real, edit, base)
        if base not in {None, before.digest} and self.store.bases.text(real, str(base)) is None:
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
        return self.store.edit(real, edit, author, base=base)

    def _plan(self, real: VaultPath, change: FileChange) -> ProposedChange:
        """What the change would do. A whole text was decided on its base; a part of one is put
        where it belongs now.
        """
        path, edit, base = str(real), change.edit, change.base
        whole = edit.data if isinstance(edit, ReplaceAll) else None
        new = ProposedChange(path=path, action="create", base=None, data=whole)
        if change.is_new:
            return new
        if edit is None:
            gone = self.store.read(real, keep=True).digest
            return ProposedChange(path=path, action="delete", base=gone, data=None)
        try:
            before, edit = self._present(real, edit, base, keep=True)
        except NotFoundError:
            if base is not None or whole is None:
                raise
            return new
        if base is not None and isinstance(edit, ReplaceAll):
            return ProposedChange(path=path, action="update", base=base, data=edit.data)
        data = self._applied(real, edit, base if has_spans(edit) else None, before)
        return ProposedChange(path=path, action="update", base=before.digest, data=data)

    def _present(
        self, real: VaultPath, edit: Edit, base: str | None, *, keep: bool = False
    ) -> tuple[FileContent, Edit]:
        """The file as it is, and the edit with the private parts that its author does not see.

        Any kept text can be named by its digest, and a merge with it would reveal it, so the base
        is one that was read here.
        """
        before = self.store.read(real, keep=keep)
        has_moved = base not in {None, before.digest}
        if has_moved and (real, base) not in self._bases:
            raise NotFoundError(
                f"the text this was decided on ({str(base)[:12]}) is not one that was read here; "
                f"read {printable(real)} again"
            )
        if self._sees_private(real):
            return before, edit
        whole = edit_keeping_private(edit, before.data)
        if whole != edit and has_moved:
            raise EditRefusedError(
                f"{printable(real)} has a private part and has changed meanwhile; read it again"
            )
        return before, whole

    def _applied(self, real: VaultPath, edit: Edit, base: str | None, before: FileContent) -> bytes:
        """The text with the edit in it, merged with what others wrote since its base."""
        request = EditRequest(edit=edit, base=base)
        known = self.store.bases.text
        return decide(request, before.data, lambda *asked: known(real, *asked))[0]

    def _refuse_watching(
        self, path: VaultPath, before: bytes, after: bytes, *, was: VaultPath | None = None
    ) -> None:
        """What a note watches, a curator reads and writes down in it."""
        bounds = self.bounds
        beyond = watched_beyond(bounds.reads, path, before, after, was=was)
        if beyond is not None:
            raise ActRefusedError(
                f"{printable(path)} may not watch {printable(beyond)}: {bounds.who} may not "
                "read all of that"
            )

    @contextmanager
    def _conflicts_as_seen(self, path: VaultPath) -> Iterator[None]:
        """A conflict shows their own text, and the other one if they may read it."""
        try:
            yield
        except ConflictError as error:
            is_known, theirs = error.is_known and self.bounds.may_read(path), error.theirs
            if is_known:
                self.watch.read(path, theirs, digest_of(theirs))
            if not self._sees_private(path):
                theirs = without_private(theirs)
            raise ConflictError(
                error.message,
                base=b"",
                ours=error.ours,
                theirs=theirs if is_known else b"",
                is_known=is_known,
            ) from None
