"""The vault as a module or a run of its agent sees it, limited by its permissions at every call.

Over HTTP the caller's key decides whether a route is reached; what the handler then does is limited
by the module's permissions and by the caller's authority, including the key's paths.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace

from parachuted.access.authority import Authority, current
from parachuted.access.notes import NoteChange, Upload
from parachuted.access.origin import Origin
from parachuted.access.origins import Origins
from parachuted.access.run_records import ProposedChange, RunWatch
from parachuted.audit.chain import AuditRecorder
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    ParachuteError,
)
from parachuted.history.run_account import CallRun
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.vault_writing import VaultWriting
from parachuted.search import Search
from parachuted.tools import Mover, MoveResult, Writing, unwatched
from parachuted.vault import (
    NOTE_SUFFIXES,
    Author,
    Caller,
    IncomingFile,
    Store,
    VaultIndex,
    VaultPath,
    WriteResult,
    digest_of,
    place_incoming,
    printable,
)

_LARGEST_UPLOAD = 4 << 30
_FRONTMATTER = 1 << 20
_PATIENCE_S = 5.0
_LONGEST_REASON = 1_000


class BoundedVault(VaultWriting):
    """`VaultAccess` for one module, or for one run of its agent."""

    async def edit_all(self, changes: Sequence[NoteChange], *, reason: str) -> str:
        """Change several notes in one run of its own that can be undone whole, and return its id.
        It follows from the run of the module's call, where that has written.

        Each is a write of its own, in this order. The first that fails ends it, and is named in
        the error.
        """
        if not changes:
            raise EditRefusedError("there is nothing to change")
        authority, author = self._authority(), self._author()
        within = authority.call
        causes = within.causes if within is not None and within.run else authority.causes
        call = CallRun(self._store, "", replace(authority, runs=authority.led_by, causes=causes))
        part = copy(self)
        part._reason = reason[:_LONGEST_REASON]  # noqa: SLF001  a copy of this
        part._authority = lambda: replace(authority, call=call)  # noqa: SLF001
        part._author = lambda: replace(author, run=call.run, causes=call.causes)  # noqa: SLF001
        done = 0
        try:
            for change in changes:
                if change.text is not None:
                    await part.create(change.path, change.text)
                elif change.edits is None:
                    await part.delete(change.path)
                else:
                    await part.edit(change.path, change.edits, base=change.base)
                done += 1
            return str(call.run)
        except ParachuteError as error:
            if not done:
                raise
            raise EditRefusedError(
                f"{error}; {done} of {len(changes)} files were changed before that: "
                f"`parachute undo {call.run}` takes it back"
            ) from error
        finally:
            await run_uninterrupted(call.close)

    async def move(self, source: str, target: str) -> str:
        """Give the file another path, which must be free, and return its digest.

        Links that lead to it are rewritten in the notes that may be written.
        """
        old, new = VaultPath.parse(source), VaultPath.parse(target)
        moved = await run_uninterrupted(self._move, old, new, list(self._index.paths()))
        own = [written for written in moved.rewritten if written.path == moved.written.path]
        await self._store.notice(
            [old, moved.written.path, *(written.path for written in moved.rewritten)]
        )
        return str((own or [moved.written])[-1].after)

    async def upload(self, path: str, chunks: AsyncIterable[bytes]) -> Upload:
        """Make a new file of pieces, of at most 4 GB, on the disk before this returns.

        Nothing is there before all of it has arrived. Raises ConflictError where there is a file.
        """
        target = VaultPath.parse(path)
        await run_uninterrupted(self._may_write, target)
        with await run_uninterrupted(IncomingFile, self._store.objects) as incoming:
            async for piece in chunks:
                if incoming.size + len(piece) > _LARGEST_UPLOAD:
                    raise EditRefusedError(
                        f"{printable(target)} is larger than {_LARGEST_UPLOAD >> 30} GB; nothing "
                        "was written"
                    )
                await run_uninterrupted(incoming.write, piece)
            digest = await self._written(
                path, lambda real: self._placed(real, incoming), self._unplanned
            )
            return Upload(path=printable(target), digest=digest, size=incoming.size)

    def _move(self, source: VaultPath, target: VaultPath, files: Sequence[VaultPath]) -> MoveResult:
        """What is moved to where others may read it is read by the move."""
        bounds = self._bounds
        old, new = (self._may_write(path, is_named=True) for path in (source, target))
        bounds.check_read(source, old)
        for path in (old, new):
            if self._run is not None and self._run.objection(path) is not None:
                self._unplanned(path)
        with self._store.root.straight(), self._as_run(old):
            self._refuse_large(source, old)
            data = self._store.read(old).data
            before = data if old.endswith(NOTE_SUFFIXES) else b""
            self._refuse_watching(new, before, data, was=old)
            try:
                moved = Mover(self._store, self._linking).move(
                    old,
                    new,
                    self._author(),
                    base=digest_of(data),
                    files=filter(bounds.may_read, files),
                    may_write=lambda note: (
                        bounds.may_read(note)
                        and bounds.may_write(note)
                        and (self._run is None or self._run.objection(note) is None)
                    ),
                    are_all=False,
                    writing=self._around,
                )
            except ConflictError as error:
                raise self._as_seen(new, error) from None
        self._watch.moved(old, new, digest_of(data))
        for written in (moved.written, *moved.rewritten):
            self._remember(written.path, str(written.after))
        return moved

    def _linking(self, path: str) -> set[str]:
        """The readable notes that link to it, once search knows those that were just saved."""
        self._search.settle(_PATIENCE_S)
        return {row.source for row in self._search.catalogue.links_to(path, self._bounds.may_read)}

    @contextmanager
    def _around(self, path: VaultPath) -> Iterator[Callable[[WriteResult], None]]:
        """Around a write: what it follows from is known, and whose text it leaves."""
        with self._writing(path) as wrote, self._watch.writing(path) as recorded:

            def publish(written: WriteResult) -> None:
                recorded(written.after if written.changed else None)
                if written.changed:
                    wrote(written)

            yield publish

    def _unplanned(self, real: VaultPath) -> ProposedChange:
        """A move, or a file of many pieces, is not suggested."""
        raise ActRefusedError(self._run.objection(real) if self._run is not None else None)

    def _placed(self, real: VaultPath, incoming: IncomingFile) -> WriteResult:
        self._refuse_watching(real, b"", incoming.beginning(_FRONTMATTER))
        return place_incoming(self._store, real, incoming, self._author(), is_new=True)


class BoundedVaults:
    """Opens the vault for one module, or for one run of its agent."""

    def __init__(
        self,
        store: Store,
        index: VaultIndex,
        search: Search,
        audit: AuditRecorder | None = None,
    ) -> None:
        self.store, self._index, self._search, self._audit = store, index, search, audit

    def of_module(
        self,
        name: str,
        bounds: ModuleBounds,
        *,
        authority: Callable[[], Authority] = current,
        writing: Writing = unwatched,
        origins: Origins | None = None,
        own: Origin = "agent",
    ) -> BoundedVault:

        def author() -> Author:
            now = authority()
            return Author(
                by=f"module:{name}",
                run=now.call.run if now.call is not None else None,
                causes=(now.call.causes if now.call is not None else ())
                or now.causes_at(self.store.clock()),
                key=now.caller if now.is_limited else "",
                caller=Caller("module", name, now.request_id),
            )

        return BoundedVault(
            self.store,
            self._index,
            self._search,
            bounds,
            author,
            audit=self._audit,
            authority=authority,
            writing=writing,
            origins=origins,
            own=own,
        )

    def of_run(
        self,
        bounds: ModuleBounds,
        author: Author,
        *,
        run: RunWatch,
        authority: Callable[[], Authority],
        wrote: Callable[[WriteResult], None],
    ) -> BoundedVault:
        return BoundedVault(
            self.store,
            self._index,
            self._search,
            bounds,
            lambda: author,
            audit=self._audit,
            authority=authority,
            writing=lambda _path: nullcontext(wrote),
            run=run,
        )
