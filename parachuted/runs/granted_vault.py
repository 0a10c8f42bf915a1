"""The vault as one caller may use it: a module, a run of an agent, or a connected client."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from parachuted.access.caller import Caller, CallRecord, current
from parachuted.access.notes import (
    AppendSection,
    Hits,
    Links,
    Note,
    NoteBatch,
    NoteChange,
    NoteEdit,
    NotePage,
    NoteStream,
    Paths,
    RemoveKey,
    SetKey,
    Upload,
    Writer,
)
from parachuted.access.strangers import RunGuard, Strangers, says_stranger
from parachuted.audit.chain import AuditRecorder, NullAuditRecorder
from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
)
from parachuted.history.run_account import CallRun
from parachuted.keys import PathGlob
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_files import GrantedFiles, Objection, VaultUser
from parachuted.runs.granted_index import BATCH, GrantedIndex
from parachuted.runs.note_values import (
    FileChange,
    checked,
    decoded,
    encoded,
    file_change,
    key_filters,
    vault_edit,
)
from parachuted.search import NoteQuery, QueryError, Search, parse_query
from parachuted.tools.move import Writing, unwatched
from parachuted.vault import (
    NOTE_SUFFIXES,
    Author,
    Edit,
    FileContent,
    FileNames,
    IncomingFile,
    ReplaceAll,
    Requester,
    SetFrontmatterKey,
    Store,
    VaultIndex,
    VaultPath,
    WriteResult,
    apply_edit,
    printable,
)

_MOST_FOUND, _MOST_ROWS = 100, 1_000
_LARGEST_UPLOAD = 4 << 30
_LONGEST_REASON = 1_000
_STRANGERS = "strangers"  # a cursor, since another argument of a tool would be in every prompt


class GrantedVault:
    """The vault, as far as one grant and its present caller reach.

    A path is relative to the vault: `Daily/entries/today.md`.

    PathRefusedError: no such path can be. ActRefusedError: the permissions, or a hook, say no.
    NotFoundError: no such file. ConflictError: somebody changed the file since `base`, in the same
    place. A digest names what is in a file at one time.

    A run of an agent sees no untrusted text unasked: lists and searches leave it out, and count it
    in `strangers_left_out`, until the run has read some.
    """

    def __init__(self, vaults: GrantedVaults, grant: ModuleBounds, user: VaultUser) -> None:
        self._store, self._index, self._search = vaults.store, vaults.index, vaults.search
        self.files = GrantedFiles(vaults.store, grant, user, vaults.audit)
        self._user = user
        self._known = GrantedIndex(vaults.search, self.files)

    @property
    def strangers_left_out(self) -> int:
        """How many notes of strangers the last list or search has left out."""
        return self._known.strangers_left_out

    async def read(self, path: str) -> str:
        """The text of a note."""
        return decoded(path, await self.read_bytes(path))

    async def read_bytes(self, path: str) -> bytes:
        """The content of a binary file."""
        return (await self._content(path)).data

    async def exists(self, path: str) -> bool:
        """Whether there is such a file, and it may be read."""
        try:
            await run_uninterrupted(self.files.existing, VaultPath.parse(path))
        except (NotFoundError, ActRefusedError, PathRefusedError):
            return False
        return True

    async def list(self, pattern: str = "**", *, looks: bool = False) -> Paths:
        """The paths of all files that match and that may be read, sorted. `looks`: also those that
        were copied there a moment ago, where the pattern begins with a folder.

        An agent's run gets names that strangers gave only of a folder that the pattern begins with.
        """
        wanted = _glob(pattern)
        if looks and wanted.folder:
            await self._store.notice([f"{VaultPath.parse(wanted.folder)}/"])
        paths = self._paths(wanted.folder)
        found = await run_uninterrupted(self._known.listed, wanted, paths)
        return [printable(path) for path in found]

    async def search(self, query: str, limit: int = 20) -> Hits:
        """The best notes for these words, among those that may be read."""
        try:
            parsed = parse_query(query)
        except QueryError as error:
            raise ActRefusedError(str(error)) from error
        return await run_uninterrupted(self._known.search, parsed, max(1, min(limit, _MOST_FOUND)))

    async def write(self, path: str, text: str, *, base: str | None = None) -> str:
        """Make the note this text, and return its digest.

        With the digest of what was read as `base`, others' edits since are kept.
        """
        return await self.write_bytes(path, encoded(text), base=base)

    async def write_bytes(self, path: str, data: bytes, *, base: str | None = None) -> str:
        """The same for a binary file."""
        return await self._write(path, ReplaceAll(data=checked(data)), base=base)

    async def create(self, path: str, text: str) -> str:
        """Make a new note. ConflictError: there is one already."""
        return await self._write(path, ReplaceAll(data=encoded(text)), is_new=True)

    async def import_note(
        self, path: str, text: str, *, base: str | None = None, is_own: bool = False
    ) -> str:
        """Make a new note of what another program held, or, with a `base`, give one this text.

        It is a stranger's text: its frontmatter says `origin: imported`. `is_own`: all that is
        added is what the person wrote, who asks for it and claims it; it counts as theirs then.
        ConflictError: there is one already.
        """
        data, is_persons = encoded(text), is_own and self._is_persons()
        if not is_persons and not says_stranger(data):
            data = apply_edit(SetFrontmatterKey(key="origin", value="imported"), data)
        edit, is_new = ReplaceAll(data=data), base is None
        return await self._write(path, edit, base=base, is_new=is_new, is_persons=is_persons)

    def _is_persons(self) -> bool:
        """At their own request, to which nothing but a trusted module of theirs answers."""
        caller = self._user.caller()
        chain = caller.chain
        is_asked = caller.request.by == "person" and chain.within is None and not chain.run
        return is_asked and self._user.run is None and not self._user.is_strangers

    async def append(self, path: str, section: str, text: str) -> str:
        """Put text at the end of a section, which is made if need be."""
        return await self.edit(path, [AppendSection(section, text)])

    async def set_key(self, path: str, key: str, value: object) -> str:
        """Set one key of the frontmatter, and leave all else byte for byte; None takes it out."""
        return await self.edit(
            path, [RemoveKey(key) if value is None else SetKey(key, cast("str", value))]
        )

    async def note(self, path: str) -> Note:
        """The note: its text, frontmatter, sections and links from one read.

        EditRefusedError: the file is not UTF-8 text.
        """
        target = VaultPath.parse(path)
        beyond = await self._beyond("read", target)
        return await run_uninterrupted(self._known.note, target, beyond)

    async def notes(
        self,
        folder: str = "",
        *,
        tag: str | None = None,
        where: Mapping[str, object] | None = None,
        order: str = "path",
        limit: int = 100,
        cursor: str | None = None,
    ) -> NotePage:
        """A page of the notes that may be read, from the index, which follows a write within
        moments.

        `folder` takes what is below it too, `tag` those below it. `where`: what keys of the
        frontmatter hold; a list means one of these, None that the key is not there. `order`: path,
        title, modified, size or a key, with a `-` before it for descending. At most 1,000 at once;
        `cursor` is the `next` of the page before; an agent's run that begins with `strangers` asks
        for untrusted ones too. ActRefusedError: the cursor is none.
        """
        query = NoteQuery(
            filters=key_filters(where or {}),
            folder=VaultPath.parse(folder.rstrip("/")) if folder.rstrip("/") else None,
            tag=tag,
            sort=order,
            limit=max(1, min(limit, _MOST_ROWS)),
            after=None if cursor == _STRANGERS else cursor,
        )
        return await run_uninterrupted(self._known.page, query, is_asked=cursor == _STRANGERS)

    async def backlinks(self, path: str) -> Links:
        """The links to a file, by the notes that they stand in, from the index."""
        return await run_uninterrupted(self._known.backlinks, VaultPath.parse(path))

    def read_notes(self, pattern: str | Sequence[str] = "**") -> NoteStream:
        """The notes that match and that may be read, or those at the paths of a list, for
        `async for`: many at once, with their texts.

        What could not be read (gone since, no text, more than 10 MB) is in the stream's `left_out`.
        Their texts are not kept: an edit with `base=note.digest` is a ConflictError when the note
        changed since.
        """
        return NoteStream(self._batches(pattern))

    async def edit(self, path: str, edits: Sequence[NoteEdit], *, base: str | None = None) -> str:
        """Make all of the changes, or none, as one write, and return the note's digest.

        All else stays byte for byte. With the digest of what was read as `base`, others' edits
        since are kept; a `ReplaceSpan` needs it. NotFoundError: a key to be removed is not there.
        EditRefusedError: more than the named places would change.
        """
        return await self._write(path, vault_edit(edits, base), base=base)

    async def edit_all(self, changes: Sequence[NoteChange], *, reason: str) -> str:
        """Change several notes as one run of its own, which `parachute undo` takes back whole and
        with nothing else, and return the run's id. It follows from the run of the present call,
        where that has written.

        Each file is named once. What may not be done is refused before anything is; then each is a
        write of its own, in this order. One that fails all the same ends it; what was written
        before is the run's, which the error then names. What a kill cuts short is finished at the
        next start.
        """
        if not changes:
            raise EditRefusedError("there is nothing to change")
        if len({change.path for change in changes}) != len(changes):
            raise EditRefusedError("a file is named twice; put its edits into one change")
        caller, reason = self._user.caller(), reason[:_LONGEST_REASON]
        parent = caller.chain.call
        causes = parent.causes if parent is not None and parent.run else caller.causes
        chain = replace(caller.chain, run=caller.chain.led_by)
        call = CallRun(self._store, "", replace(caller, chain=chain, causes=causes))
        wanted, written = list(map(file_change, changes)), list[WriteResult]()
        write_all = self.files.write_all
        try:
            objection = await run_uninterrupted(write_all, wanted, call, reason, written)
            if objection is not None:
                raise ActRefusedError(await objection.run.instead(objection.change, objection.why))
        except ParachuteError as error:
            if not written:
                raise
            raise EditRefusedError(
                f"{error}; {len(written)} of {len(changes)} files were changed before that: "
                f"`parachute undo {call.run}` takes it back"
            ) from error
        else:
            return str(call.run)
        finally:
            await run_uninterrupted(call.close)
            await self._store.notice([done.path for done in written if done.changed])

    async def delete(self, path: str) -> None:
        """Remove a file; it can be undone. A link is not removed, nor what it leads to."""
        await self._write(path, None)

    async def move(self, source: str, target: str) -> str:
        """Give a file another path, and return its digest.

        Links that lead to it follow, in the notes that may be written. ConflictError: there is a
        file.
        """
        old, new = VaultPath.parse(source), VaultPath.parse(target)
        files, linking = list(self._index.paths()), self._known.linking
        moved = await run_uninterrupted(self.files.move, old, new, files, linking)
        await self._store.notice(
            [old, moved.written.path, *(written.path for written in moved.rewritten)]
        )
        return moved.digest

    async def upload(self, path: str, chunks: AsyncIterable[bytes]) -> Upload:
        """Make a new file of pieces, of at most 4 GB; it is on the disk when this returns.

        Before all of it has come there is nothing. ConflictError: there is a file.
        """
        target = VaultPath.parse(path)
        await run_uninterrupted(self.files.check_write, target)
        with await run_uninterrupted(IncomingFile, self._store.objects) as incoming:
            async for piece in chunks:
                if incoming.size + len(piece) > _LARGEST_UPLOAD:
                    largest = f"{_LARGEST_UPLOAD >> 30} GB"
                    raise EditRefusedError(f"{printable(target)} is larger than {largest}")
                await run_uninterrupted(incoming.write, piece)
            written = await run_uninterrupted(self.files.upload, target, incoming)
            await self._store.notice([written.path])
            return Upload(path=printable(target), digest=str(written.after), size=incoming.size)

    async def digest(self, path: str) -> str:
        """What names the file's content now: the `base` of a later write."""
        return (await self._content(path, keep=True)).digest

    async def read_with_digest(self, path: str) -> tuple[bytes, str]:
        """The content of a file and its digest, from one read."""
        content = await self._content(path, keep=True)
        return content.data, content.digest

    async def written_by(self, path: str) -> Writer:
        """Who wrote the file's present content: `person` (in an editor, or with an API key that
        may read and write everything), `key` (an API key that may do less), `agent` or `module`.
        """
        content = await self._content(path)
        return await run_uninterrupted(self.files.writer, VaultPath.parse(path), content.digest)

    async def _content(self, path: str, *, keep: bool = False) -> FileContent:
        target = VaultPath.parse(path)
        beyond = await self._beyond("read", target)
        return await run_uninterrupted(self.files.read, target, keep=keep, beyond=beyond)

    async def _write(
        self,
        path: str,
        edit: Edit | None,
        *,
        base: str | None = None,
        is_new: bool = False,
        is_persons: bool = False,
    ) -> str:
        place = VaultPath.parse(path)
        change = FileChange(place, edit, base=base, is_new=is_new, is_persons=is_persons)
        beyond = await self._beyond("write", change.path, is_named=change.edit is None)
        written = await run_uninterrupted(self.files.write, change, beyond)
        if isinstance(written, Objection):
            raise ActRefusedError(await written.run.instead(written.change, written.why))
        if written.changed:
            await self._store.notice([written.path])
        return written.after or ""

    async def _beyond(
        self, what: Literal["read", "write"], path: VaultPath, *, is_named: bool = False
    ) -> Sequence[str]:
        """Ask a person about files outside the grant; never programs', nor beyond the key."""
        run, grant = self._user.run, self._user.caller().grant
        if run is None:
            return ()
        real = await run_uninterrupted(self.files.place, path, is_named=is_named)
        bounds = self.files.bounds
        most = replace(bounds, reads=grant.reads, writes=grant.writes)
        may, could = bounds.may_read, most.may_read
        if what == "write":
            may, could = bounds.may_write, most.may_write
        files = [file for file in dict.fromkeys((path, real)) if not may(file)]
        if not all(map(could, files)):
            return ()
        for file in files:
            if not await run.beyond(what, file):
                return ()
        return files

    def _paths(self, folder: str = "") -> Paths:
        """Those of all files below it, from the index, which belongs to the loop's thread."""
        folders, files = self._index.below(folder), self._index.files
        return [f"{at}/{name}" if at else name for at in folders for name in files(at)]

    async def _batches(self, pattern: str | Sequence[str]) -> AsyncIterator[NoteBatch]:
        names: FileNames | None = None
        if isinstance(pattern, str):
            every = self._paths()
            listed = await run_uninterrupted(self._known.listed, _glob(pattern), every)
            paths = [VaultPath(path) for path in listed if path.endswith(NOTE_SUFFIXES)]
            names = await run_uninterrupted(self._known.names, every)
        else:
            paths = list(map(VaultPath.parse, pattern))
        for first in range(0, len(paths), BATCH):
            yield await run_uninterrupted(self._known.batch, paths[first : first + BATCH], names)


@dataclass(frozen=True, slots=True)
class GrantedVaults:
    store: Store
    index: VaultIndex
    search: Search
    audit: AuditRecorder = NullAuditRecorder()  # noqa: RUF009  it holds nothing
    strangers: Strangers = field(default_factory=Strangers)

    def of_module(
        self,
        name: str,
        grant: ModuleBounds,
        *,
        caller: Callable[[], Caller] = current,
        writing: Writing = unwatched,
        is_strangers: bool = False,
    ) -> GrantedVault:
        def author(call: CallRecord | None) -> Author:
            present = caller()
            return Author(
                by=f"module:{name}",
                run=None if call is None else call.run,
                causes=(() if call is None else call.causes)
                or present.causes_at(self.store.clock()),
                key=present.request.key if present.grant.is_limited else "",
                requester=Requester("module", name, present.request.id),
            )

        user = VaultUser(
            caller=caller,
            author=author,
            writing=writing,
            module=name,
            strangers=self.strangers,
            is_strangers=is_strangers,
        )
        return GrantedVault(self, grant, user)

    def of_run(
        self,
        grant: ModuleBounds,
        author: Author,
        *,
        run: RunGuard,
        caller: Callable[[], Caller],
        wrote: Callable[[WriteResult], None],
    ) -> GrantedVault:
        user = VaultUser(
            caller=caller,
            author=lambda _call: author,
            writing=lambda _path: nullcontext(wrote),
            run=run,
            strangers=self.strangers,
        )
        return GrantedVault(self, grant, user)


def _glob(pattern: str) -> PathGlob:
    try:
        return PathGlob(f"{pattern}**" if pattern.endswith("/") else pattern)
    except ValueError as error:
        raise PathRefusedError(str(error)) from error
