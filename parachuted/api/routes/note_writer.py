"""Note writer: writes what callers of the API send, each call a person's act with a cause of its
own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from aiohttp import web

from parachuted.access.paths import is_approval, is_code
from parachuted.errors import EditRefusedError
from parachuted.events import PERSON
from parachuted.keys import Identity
from parachuted.vault import (
    Author,
    Caller,
    Edit,
    Store,
    VaultPath,
    WriteResult,
    new_id,
    printable,
)
from parachuted.vault.trail import PathPredicate


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


class NoteWriter:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._running: set[asyncio.Future[WriteResult]] = set()
        self._turn = asyncio.Lock()

    def author(self, caller: Caller) -> Author:
        return Author(
            by=PERSON.by,
            causes=(new_id("c", self._store.clock()),),
            key=caller.limited_key,
            caller=caller,
        )

    async def edit(
        self,
        find: Callable[[], VaultPath],
        edit: Edit,
        caller: Caller,
        *,
        base: str | None = None,
        sees: PathPredicate | None = None,
    ) -> WriteResult:
        """Edit the note that `find` finds, in a thread. Raises what finding and editing raise.

        A caller that goes away meanwhile does not stop the write. Writes wait for each other here,
        and not in threads that others need; but where hooks are asked, whose own writes must not
        wait for the one that they are asked about.
        """
        if self._store.is_asked:
            return await self._edit(find, edit, caller, base=base, sees=sees)
        async with self._turn:
            return await self._edit(find, edit, caller, base=base, sees=sees)

    async def _edit(
        self,
        find: Callable[[], VaultPath],
        edit: Edit,
        caller: Caller,
        *,
        base: str | None,
        sees: PathPredicate | None,
    ) -> WriteResult:
        running = asyncio.get_running_loop().run_in_executor(
            None, lambda: self._store.edit(find(), edit, self.author(caller), base=base, sees=sees)
        )
        self._running.add(running)
        running.add_done_callback(self._done)
        return await asyncio.shield(running)

    def _done(self, written: asyncio.Future[WriteResult]) -> None:
        self._running.discard(written)
        written.exception()  # the caller's, if it still waits

    async def close(self) -> None:
        """Wait for what is being written: no write may be left when the store closes."""
        while self._running:
            await asyncio.wait(tuple(self._running))

    async def tell(self, paths: Iterable[str]) -> None:
        """Have these looked at, so that lists and events follow; returns when they were."""
        await self._store.notice(set(paths))
