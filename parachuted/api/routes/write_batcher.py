"""Write batcher: writes what callers send, in one thread, and what waits for the same note as one
write.

Each caller is answered when its own edit is on the disk and noticed; a thread a caller would have
them wait for each other far longer. While hooks are asked before each write it is a thread a caller
all the same: a hook takes its time, and what it writes itself must not wait for the very write that
it is asked about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from parachuted.access.paths import is_approval, is_code
from parachuted.errors import EditRefusedError
from parachuted.events import PERSON
from parachuted.keys import Identity
from parachuted.vault import (
    Author,
    Caller,
    EditBatch,
    EditRequest,
    Store,
    VaultPath,
    WriteResult,
    new_id,
    printable,
)


def is_program(path: str) -> bool:
    """Whether it lies where code or approvals are kept, which nothing writes as notes are
    written.
    """
    return is_code(path) or is_approval(path)


def refuse_programs(path: VaultPath) -> None:
    """Raises EditRefusedError when a program, or what decides on one, would be changed."""
    if is_code(path):
        raise EditRefusedError(
            f"{printable(path)} belongs to a module, which is not written from here"
        )
    if is_approval(path):
        raise EditRefusedError(
            f"{printable(path)} is a suggestion's, which is not written from here; POST "
            "/api/suggestions decides on it"
        )


def refuse_programs_but_to_admins(path: VaultPath, identity: Identity) -> None:
    """The same, but for those who may change anything of the vault: 403 for others."""
    if is_program(path):
        grant = identity.grant("vault", "admin")
        if grant is None or grant.alternatives is not None:
            raise web.HTTPForbidden(
                text=f"{printable(path)} is a program's or a suggestion's; only an admin of the "
                "whole vault may write it"
            )


_GATHERING_S = 0.03
_AT_ONCE = 64


@dataclass(slots=True)
class _Waiting:
    find: Callable[[], VaultPath]
    request: EditRequest
    caller: Caller
    answer: asyncio.Future[WriteResult]


@dataclass(slots=True)
class _Batch:
    paths: set[str] = field(default_factory=set)
    is_told: bool = False


class WriteBatcher:
    """Writes for callers of the API.

    Each call is a person's act, with any key, and a cause of its own.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[_Waiting] = []
        self._is_open = False
        self._running: asyncio.Future[None] | None = None
        self._alone: set[asyncio.Future[None]] = set()
        self._batch = _Batch()
        self._noticing = asyncio.Lock()

    def author(self, *callers: Caller) -> Author:
        """The author of a write that these callers asked for, each with a cause of its own; they
        have the same limits.

        The audit names the caller where all calls are one caller's, and the request where there is
        one.
        """
        now, caller = self._store.clock(), callers[0]
        key = caller.limited_key
        if len(callers) > 1:
            caller = caller._replace(request_id="")
        is_shared = all(one[:2] == caller[:2] for one in callers)
        return Author(
            by=PERSON.by,
            causes=tuple(new_id("c", now) for _ in callers),
            key=key,
            caller=caller if is_shared else None,
        )

    async def edit(
        self, find: Callable[[], VaultPath], request: EditRequest, caller: Caller
    ) -> WriteResult:
        """Edit the note that `find` finds, in a thread. Raises what finding and editing raise."""
        loop = asyncio.get_running_loop()
        mine = _Waiting(find, request, caller, loop.create_future())
        if self._store.is_asked:
            alone = loop.run_in_executor(None, self._write, [mine], loop)
            self._alone.add(alone)
            alone.add_done_callback(self._alone.discard)
            return await mine.answer
        self._waiting.append(mine)
        if not self._is_open:
            self._is_open = True
            self._hand_over()
        return await mine.answer

    def _hand_over(self) -> None:
        """Give all that waits to the thread, and what has come by then after that, until nothing
        waits.
        """
        batch, self._waiting = self._waiting, []
        self._is_open = bool(batch)
        if batch:
            loop = asyncio.get_running_loop()
            self._running = loop.run_in_executor(None, self._write, batch, loop)
            self._running.add_done_callback(lambda _done: self._hand_over())

    async def close(self) -> None:
        """Wait until all is written that was handed in: no write may be left when the store
        closes.
        """
        while self._running is not None and self._is_open:
            await asyncio.wait([self._running])
            await asyncio.sleep(0)
        while self._alone:
            await asyncio.wait(tuple(self._alone))
            await asyncio.sleep(0)

    async def tell(self, paths: Iterable[str]) -> None:
        """Have these looked at, so that lists and events follow; many at a time.

        Returns when they were.
        """
        batch = self._batch
        batch.paths.update(paths)
        async with self._noticing:
            if batch.is_told:
                return
            if (
                self._is_open
            ):  # others are writing: one look for several of them leaves the disk to the writes
                await asyncio.sleep(_GATHERING_S)
            if self._batch is batch:
                self._batch = _Batch()
            await self._store.notice(batch.paths)
            batch.is_told = True

    def _write(self, batch: list[_Waiting], loop: asyncio.AbstractEventLoop) -> None:
        by_key: dict[str, dict[VaultPath, list[_Waiting]]] = {}
        for one in batch:
            try:
                notes = by_key.setdefault(one.caller.limited_key, {})
                notes.setdefault(one.find(), []).append(one)
            except Exception as error:  # noqa: BLE001  it is theirs who asked
                loop.call_soon_threadsafe(_answer, [one], [error])
        for notes in by_key.values():
            whole = list(notes.items())
            for start in range(0, len(whole), _AT_ONCE):
                piece = whole[start : start + _AT_ONCE]
                waiting = [one for _path, many in piece for one in many]
                loop.call_soon_threadsafe(_answer, waiting, self._written(piece))

    def _written(
        self, notes: Sequence[tuple[VaultPath, list[_Waiting]]]
    ) -> Sequence[WriteResult | Exception]:
        edits = [
            EditBatch(
                path=path,
                requests=[one.request for one in waiting],
                author=self.author(*(one.caller for one in waiting)),
            )
            for path, waiting in notes
        ]
        try:
            return [answer for answers in self._store.edit_many(edits) for answer in answers]
        except Exception as error:  # noqa: BLE001  it is theirs who asked
            return [error for _path, waiting in notes for _one in waiting]


def _answer(waiting: Sequence[_Waiting], answers: Sequence[WriteResult | Exception]) -> None:
    for one, answer in zip(waiting, answers, strict=True):
        if one.answer.done():  # the caller has gone
            continue
        if isinstance(answer, WriteResult):
            one.answer.set_result(answer)
        else:
            one.answer.set_exception(answer)
