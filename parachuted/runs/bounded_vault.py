"""The vault as a module or a run of its agent sees it, limited by its permissions at every call.

Over HTTP the caller's key decides whether a route is reached; what the handler then does is limited
by the module's permissions and by the caller's authority, including the key's paths.
"""

from __future__ import annotations

import asyncio
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
from parachuted.history.acts import Act, ActFinisher, ActStep, begin_act, end_act
from parachuted.history.run_account import CallRun
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.bounded_notes import vault_edit
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.vault_writing import VaultWriting, encoded
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

        All are looked at first: what may not be done, or not any more, is refused before anything
        is. Then each is a write of its own, in this order; one that fails all the same ends it, and
        is named in the error. What a crash leaves is finished at the next start.
        """
        if not changes:
            raise EditRefusedError("there is nothing to change")
        if len({change.path for change in changes}) != len(changes):
            raise EditRefusedError("a file is named twice; put its edits into one change")
        authority, author = self._authority(), self._author()
        within = authority.call
        causes = within.causes if within is not None and within.run else authority.causes
        call = CallRun(self._store, "", replace(authority, runs=authority.led_by, causes=causes))
        part = copy(self)
        part._reason = reason[:_LONGEST_REASON]  # noqa: SLF001  a copy of this
        part._authority = lambda: replace(authority, call=call)  # noqa: SLF001
        part._author = lambda: replace(author, run=call.run, causes=call.causes)  # noqa: SLF001
        steps = await run_uninterrupted(part._steps, changes)  # noqa: SLF001
        return await part._change_all(changes, call, steps)  # noqa: SLF001

    async def _change_all(
        self, changes: Sequence[NoteChange], call: CallRun, steps: Sequence[ActStep]
    ) -> str:
        done, number = 0, None
        try:
            number = await run_uninterrupted(self._begin_act, call, steps)
            for change in changes:
                if change.text is not None:
                    await self.create(change.path, change.text)
                elif change.edits is None:
                    await self.delete(change.path)
                else:
                    await self.edit(change.path, change.edits, base=change.base)
                done += 1
        except asyncio.CancelledError:  # who asked has gone, and the act is done all the same
            await run_uninterrupted(self._finish_act, call, number)
            raise
        except Exception as error:
            run = call.run
            await run_uninterrupted(self._end_act, call, number)
            if not done or not isinstance(error, ParachuteError):
                raise
            raise EditRefusedError(
                f"{error}; {done} of {len(changes)} files were changed before that: "
                f"`parachute undo {run}` takes it back"
            ) from error
        run = str(call.run)
        await run_uninterrupted(self._end_act, call, number)
        return run

    def _steps(self, changes: Sequence[NoteChange]) -> list[ActStep]:
        """What the changes come to, their texts kept. Raises what making them would; an agent's run
        is asked about each by itself, so of that there is none.
        """
        steps: list[ActStep] = []
        watch = self._watching
        is_asked = watch is not None and (watch is self._run or watch.is_tainted)
        for change in () if is_asked else changes:
            path, is_new = VaultPath.parse(change.path), change.text is not None
            real = self._may_write(path, is_named=change.edits is None and not is_new)
            try:
                with self._store.root.straight():
                    steps += self._step(real, change)
            except ConflictError as error:
                raise self._as_seen(real, error) from None
        return steps

    def _step(self, real: VaultPath, change: NoteChange) -> list[ActStep]:
        if change.text is not None:
            text = encoded(change.text)
            planned = ProposedChange(path=str(real), action="create", base=None, data=text)
        elif change.edits is None:
            planned = self._gone(real)
        else:
            self._refuse_large(real, real)
            planned = self._planned(real, vault_edit(change.edits, change.base), change.base)
        objects, data = self._store.objects, planned.data
        if data is not None:
            before = b"" if planned.base is None else objects.get(planned.base) or b""
            self._refuse_watching(real, before, data)
        after = None if data is None else objects.put(data)
        if after == planned.base:
            return []
        return [ActStep(path=str(real), base=planned.base, after=after)]

    def _begin_act(self, call: CallRun, steps: Sequence[ActStep]) -> int | None:
        if not steps:
            return None
        by = self._author().by
        with call.writing(by, steps[0].path, self._reason):  # from here on the run has an id
            what = f"what {by} was doing ({self._reason})"
            origin = self._watch.origin
            return begin_act(
                self._store, Act(what=what, author=self._author(), steps=steps, origin=origin)
            )

    def _finish_act(self, call: CallRun, number: int | None) -> None:
        if number is not None:
            ActFinisher(self._store, self._watch.origins).finish(number)
        call.close()

    def _end_act(self, call: CallRun, number: int | None) -> None:
        if number is not None:
            end_act(self._store, number)
        call.close()

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
        bounds, watch = self._bounds, self._watching
        old, new = (self._may_write(path, is_named=True) for path in (source, target))
        bounds.check_read(source, old)
        for path in (old, new):
            if watch is not None and watch.objection(path) is not None:
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
                        and (watch is None or watch.objection(note) is None)
                    ),
                    are_all=False,
                    writing=self._around,
                    origin=self._watch.origin,
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
        watch = self._watching
        raise ActRefusedError(watch.objection(real) if watch is not None else None)

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
            module=name,
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
