"""Granted files: one file at a time, as far as a grant and its present caller reach. All blocks on
the disk.

Both a path and where it leads are checked; then the file is opened by descriptor without following
links, so the kernel refuses a link swapped in meanwhile. Reading untrusted text taints the caller;
what is written after that is recorded as untrusted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace

from parachuted.access.caller import Caller, CallRecord, CurrentRun
from parachuted.access.notes import Writer
from parachuted.access.private_text import (
    added_to_whole,
    refuse_losing_private,
    without_private,
)
from parachuted.access.strangers import (
    MARK,
    ProposedChange,
    RunGuard,
    Strangers,
    Taint,
    marked,
    says_stranger,
)
from parachuted.audit.chain import AuditRecorder
from parachuted.bubbling import watched_beyond
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    StorageFailedError,
)
from parachuted.history.acts import Act, ActStep, recorded_act
from parachuted.history.run_account import CallRun
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.note_values import FileChange
from parachuted.tools.move import LinkScope, MoveResult, Writing, move_file
from parachuted.vault import (
    BRINGS_BACK,
    NOTE_SUFFIXES,
    Author,
    Edit,
    EditRequest,
    FileContent,
    IncomingFile,
    ReplaceAll,
    SeveralEdits,
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
    """Who uses the vault: a module's code (`module`), or a run of an agent or a client (`run`).

    `author` says whose a write is that belongs to the record of a call. `writing` is entered for
    each write, and gives what is called with its result before the write can be noticed.
    `is_strangers`: a stranger wrote the module.
    """

    caller: Callable[[], Caller]
    author: Callable[[CallRecord | None], Author]
    writing: Writing
    run: RunGuard | None = None
    module: str = ""
    strangers: Strangers = field(default_factory=Strangers)
    is_strangers: bool = False

    @property
    def taint(self) -> Taint:
        return self.caller().taint if self.run is None else self.run.taint


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why a run may not make a change now, and what it wanted."""

    run: RunGuard
    change: ProposedChange
    why: str


class GrantedFiles:
    def __init__(
        self, store: Store, grant: ModuleBounds, user: VaultUser, audit: AuditRecorder
    ) -> None:
        self.store, self._grant, self.user, self._audit = store, grant, user, audit
        self._bases: OrderedDict[tuple[str, str], None] = OrderedDict()
        # digests of texts that a write was merged into and that were not read since
        self.unread = set[str]()

    @property
    def bounds(self) -> ModuleBounds:
        """Raises ActRefusedError when the caller's rights have ended."""
        caller = self.user.caller()
        caller.check()
        bounds = self._grant.limited(caller.grant)
        if self.user.run is not None or caller.chain.within is not None or caller.grant.is_limited:
            bounds = replace(bounds, hides=self.store.root.ignore.hides)
        return bounds

    def find(self, path: VaultPath, beyond: Sequence[str] = ()) -> VaultPath:
        """The readable file that the path leads to; `beyond`: those that a person just allowed."""
        real = self.store.root.resolve(path)
        self.bounds.with_files("read", beyond).check_read(path, real)
        return real

    def place(self, path: VaultPath, *, is_named: bool = False) -> VaultPath:
        """Where the path leads. `is_named`: a link of that name is meant itself."""
        return self.store.placed(path) if is_named else self.store.root.resolve(path)

    def existing(self, path: VaultPath) -> VaultPath:
        """The readable file that the path leads to. NotFoundError: there is none."""
        real = self.find(path)
        with self.store.root.straight():
            self.store.root.size(real)
        return real

    def read(
        self, path: VaultPath, *, keep: bool = False, see: bool = False, beyond: Sequence[str] = ()
    ) -> FileContent:
        """`keep`, or `see` while the machine goes on: the text may be the base of a later write."""
        real = self.find(path, beyond)
        content = self.peek(real, keep=keep)
        if see:
            with suppress(OSError):
                self.store.bases.see([(real, content.data)])
        return self.disclosed(real, content)

    def peek(self, real: VaultPath, *, keep: bool = False) -> FileContent:
        """A file that was found, before it is decided whether its text is handed out."""
        with self.store.root.straight():
            if self.store.root.size(real) > _LARGEST_READ:
                raise EditRefusedError(f"{printable(real)} is larger than {_LARGEST_READ >> 20} MB")
            return self.store.read(real, keep=keep)

    def disclosed(self, real: VaultPath, content: FileContent) -> FileContent:
        """What of a note is for this reader, who has read it then; the digest stays that of the
        whole.
        """
        self._record_text(real, content.data)
        self.remember(real, content.digest)
        self.unread.discard(content.digest)
        if self._sees_private(real):
            return content
        data = without_private(content.data)
        return content if data is content.data else replace(content, data=data)

    def remember(self, path: VaultPath, digest: str) -> None:
        """The text was read here, and may be the base of a write."""
        self._bases[path, digest] = None
        while len(self._bases) > _REMEMBERED:
            self._bases.popitem(last=False)

    def writer(self, path: VaultPath, digest: str) -> Writer:
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

    def write(
        self,
        change: FileChange,
        beyond: Sequence[str] = (),
        call: CallRecord | None = None,
        reason: str = "",
    ) -> WriteResult | Objection:
        """As part of that call or else of the present one; or say why the run may not."""
        call = call or self.user.caller().chain.call
        real = self.check_write(change.path, beyond=beyond, is_named=change.edit is None)
        run = self._guard
        if run is not None and (why := run.objection(real)) is not None:
            with self._acting(real):
                return Objection(run=run, change=self._plan(real, change), why=why)
        return self._written(real, call, lambda author: self._made(real, change, author), reason)

    def upload(self, path: VaultPath, incoming: IncomingFile) -> WriteResult:
        real = self.check_write(path)
        self._refuse_tainted()
        beginning = incoming.beginning(_FRONTMATTER)
        if self._needs_mark and marked(real, beginning) is not beginning:
            raise ActRefusedError("strangers' text led to that note; write it as a text")

        def placed(author: Author) -> WriteResult:
            self._refuse_watching(real, b"", beginning)
            return place_incoming(self.store, real, incoming, author, is_new=True)

        return self._written(real, self.user.caller().chain.call, placed)

    def write_all(
        self,
        changes: Sequence[FileChange],
        call: CallRun,
        reason: str,
        written: list[WriteResult],
    ) -> Objection | None:
        """All as one act of that call; what was done is added to `written`, also where one of them
        fails or a run may not make it.
        """
        steps, author = self._steps(changes), self.user.author
        with ExitStack() as stack:
            if steps:
                with call.writing(author(call).by, steps[0].path, reason):
                    pass  # from here on the run has an id
                what = f"what {author(call).by} was doing ({reason})"
                act = Act(what=what, author=author(call), steps=steps)
                stack.enter_context(recorded_act(self.store, act))
            for change in changes:
                done = self.write(change, call=call, reason=reason)
                if isinstance(done, Objection):
                    return done
                written.append(done)
        return None

    def _steps(self, changes: Sequence[FileChange]) -> list[ActStep]:
        """Their texts kept. None of a run, which is asked about each change by itself."""
        guard = self._guard
        if guard is not None and (guard is self.user.run or guard.taint):
            return []
        steps: list[ActStep] = []
        for change in changes:
            real = self.check_write(change.path, is_named=change.edit is None)
            with self._acting(real):
                planned = self._plan(real, change)
                data = planned.data
                after = None if data is None else self.store.objects.put(data)
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
        """Strangers' text that leaves its folder says from then on what it is."""
        bounds, guard = self.bounds, self._guard
        old, new = (self.check_write(path, is_named=True) for path in (source, target))
        bounds.check_read(source, old)
        self._refuse_tainted()
        call = self.user.caller().chain.call
        with self._acting(old, call, shown=new):
            data, author = self.peek(old).data, self.user.author(call)
            before = data if old.endswith(NOTE_SUFFIXES) else b""
            self._refuse_watching(new, before, data, was=old)
            base = digest_of(self._marked_to_move(old, new, data, author))
            links = LinkScope(
                files=filter(bounds.may_read, files),
                linking=linking,
                may_write=lambda note: (
                    bounds.may_read(note)
                    and bounds.may_write(note)
                    and (guard is None or guard.objection(note) is None)
                ),
                are_all=False,
            )
            writing = self.user.writing
            moved = move_file(self.store, old, new, author, links, base=base, writing=writing)
        for written in (moved.written, *moved.rewritten):
            self.remember(written.path, str(written.after))
        return moved

    def check_write(
        self, path: VaultPath, *, beyond: Sequence[str] = (), is_named: bool = False
    ) -> VaultPath:
        """The file that is meant. Raises when it may not be written now."""
        if self._audit.refusal is not None:
            raise StorageFailedError(self._audit.refusal)
        self.user.caller().check_circle(f"writing {printable(path)}")
        real, within, bounds = self.place(path, is_named=is_named), self._calling_run, self.bounds
        if within is not None and not within.may_write_by(self.user.module):
            raise ActRefusedError(f"{bounds.who} may not write for an agent that may not write")
        if within is not None and self._guard is within.watch:
            bounds = replace(self._grant.limited(within.asker.grant), hides=bounds.hides)
        bounds.with_files("write", beyond).check_write(path, real)
        return real

    @property
    def _calling_run(self) -> CurrentRun | None:
        """The run whose agent has called this module's tool, not one that an event came from."""
        caller = self.user.caller()
        within = caller.chain.within
        if within is None or within.watch is None:
            return None
        return within if within.asker.chain.events == caller.chain.events else None

    @property
    def _guard(self) -> RunGuard | None:
        """That of a run, also where its agent calls another module than its own."""
        within = self._calling_run
        if within is None or within.module == self.user.module:
            return self.user.run
        return within.watch

    def _sees_private(self, real: VaultPath) -> bool:
        """Private parts are for module code that may write there, outside an agent's run."""
        is_agents = self.user.run is not None or self.user.caller().chain.within is not None
        return not is_agents and self._grant.may_write(real)

    def _record_text(self, path: str, data: bytes) -> None:
        """Before a text is handed out."""
        if not self.user.taint and self.user.strangers.is_text(path, data):
            self.record_strangers(path)

    def record_strangers(self, path: str) -> None:
        """What a module reads is not named: its caller may not be allowed to read that."""
        self.user.taint.read("a note that a module read" if self.user.run is None else path)

    @property
    def _needs_mark(self) -> bool:
        return self.user.is_strangers or bool(self.user.taint)

    def _written(
        self,
        real: VaultPath,
        call: CallRecord | None,
        write: Callable[[Author], WriteResult],
        reason: str = "",
    ) -> WriteResult:
        with self._acting(real, call, reason), self.user.writing(real) as wrote:
            written = write(self.user.author(call))
            if written.changed:
                wrote(written)
        if written.after is not None:
            self.remember(written.path, written.after)
            if written.merged:
                self.unread.add(written.after)
        return written

    @contextmanager
    def _acting(
        self,
        path: VaultPath,
        call: CallRecord | None = None,
        reason: str = "",
        shown: VaultPath | None = None,
    ) -> Iterator[None]:
        """Inside, links are not followed, the call's record holds what is written, and a conflict
        about `shown` shows their own text, and the other one if they may read it.
        """
        place = shown or path
        try:
            with self.store.root.straight():
                if call is None:
                    yield
                else:
                    with call.writing(self.user.author(call).by, path, reason):
                        yield
        except ConflictError as error:
            is_known = error.is_known and self.bounds.may_read(place)
            ours, theirs = error.ours, error.theirs if is_known else b""
            if is_known:
                self._record_text(place, theirs)
            if not self._sees_private(place):
                ours, theirs = without_private(ours), without_private(theirs)
            raise ConflictError(
                error.message, base=b"", ours=ours, theirs=theirs, is_known=is_known
            ) from None

    def _refuse_tainted(self) -> None:
        """A move, or a file of many pieces, is not suggested."""
        guard = self._guard
        if guard is not None and guard.taint:
            raise ActRefusedError(f"{guard.taint.why()}, so it may not move or upload files")

    def _marked_to_move(self, old: VaultPath, new: VaultPath, data: bytes, author: Author) -> bytes:
        """The text that moves, marked first where nothing else would say whose it is."""
        is_place = self.user.strangers.is_place
        leaves = is_place(old) and not is_place(new)
        if not leaves and not self._needs_mark:
            return data
        if leaves and not old.endswith(NOTE_SUFFIXES):
            why = "holds strangers' text, and is no note that could say so; a person can move it"
            raise ActRefusedError(f"{printable(old)} {why}")
        after = marked(old, data)
        if after is not data:
            with self.user.writing(old) as wrote:
                wrote(self.store.replace(old, after, author, base=digest_of(data)))
        return after

    def _made(self, real: VaultPath, change: FileChange, author: Author) -> WriteResult:
        base = change.base
        if change.edit is None:
            return self.store.delete(real, author, base=base)
        if change.source is not None:
            source = self.check_write(change.source, is_named=True)
            before = self.store.objects.get(str(base)) or b""
            self._refuse_watching(real, before, _whole(change.edit) or b"", was=source)
            return self.store.move(source, real, author, base=base)
        planned, edit = self._decide(real, change, change.edit)
        if planned.action == "create":
            return self.store.create(real, planned.data or b"", author)
        return self.store.edit(real, edit, author, base=base)

    def _plan(self, real: VaultPath, change: FileChange) -> ProposedChange:
        """The texts that it names are kept."""
        if change.edit is not None:
            return self._decide(real, change, change.edit, keep=True)[0]
        base = self.store.read(real, keep=True).digest
        return ProposedChange(path=str(real), action="delete", base=base, data=None)

    def _decide(
        self, real: VaultPath, change: FileChange, edit: Edit, *, keep: bool = False
    ) -> tuple[ProposedChange, Edit]:
        """What the file becomes, and by which edit. A whole text was decided on its base; a part of
        one is put where it belongs now.
        """
        base, whole = change.base, _whole(edit)
        needs_mark = self._needs_mark and not change.is_persons
        present = None if change.is_new else self._present(real, base, keep=keep)
        if present is None:
            if not change.is_new and (base is not None or whole is None):
                raise NotFoundError(f"{printable(real)} is not in the vault")
            data = marked(real, whole or b"") if needs_mark else whole or b""
            self._refuse_watching(real, b"", data)
            return ProposedChange(path=str(real), action="create", base=None, data=data), edit
        before, sees_private = present.data, self._sees_private(real)
        edit = edit if sees_private else added_to_whole(edit, before)
        after = self._applied(real, edit, base, present)
        if not sees_private:
            refuse_losing_private(edit, before, after)
        if needs_mark or says_stranger(before):
            edit = _marking(real, edit, after)
            after = self._applied(real, edit, base, present)
        self._refuse_watching(real, before, after)
        on_base = base is not None and whole is not None
        return ProposedChange(
            path=str(real),
            action="update",
            base=base if on_base else present.digest,
            data=_whole(edit) if on_base else after,
        ), edit

    def _present(self, real: VaultPath, base: str | None, *, keep: bool) -> FileContent | None:
        """The file as it is, if there is one. Any kept text can be named by its digest, and a merge
        would reveal it, so the base is one that was read here.
        """
        try:
            present = self.peek(real, keep=keep)
        except NotFoundError:
            return None
        if base not in {None, present.digest} and (real, base) not in self._bases:
            why = "was decided on a text that is not one that was read here; read it again"
            raise NotFoundError(f"the edit of {printable(real)} {why}")
        return present

    def _applied(self, real: VaultPath, edit: Edit, base: str | None, before: FileContent) -> bytes:
        """Merged with what others wrote since its base."""
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
                f"{printable(path)} may not watch {printable(beyond)}: {bounds.who} may not read it"
            )


def _marking(path: VaultPath, edit: Edit, after: bytes) -> Edit:
    """The edit, with the mark of strangers' text where it would lead to a text without."""
    if not path.endswith(NOTE_SUFFIXES) or says_stranger(after):
        return edit
    if isinstance(edit, ReplaceAll):
        return ReplaceAll(data=marked(path, edit.data))
    return SeveralEdits(edits=(edit, MARK))


def _whole(edit: Edit) -> bytes | None:
    return edit.data if isinstance(edit, ReplaceAll) else None
