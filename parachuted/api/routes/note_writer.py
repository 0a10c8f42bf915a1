"""Note writer: writes what callers of the API send, each call a person's act with its own cause."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from aiohttp import web

from parachuted.access.paths import is_approval, is_code
from parachuted.api.http.route import ApiCall, refuse_watching_beyond
from parachuted.errors import EditRefusedError, StorageFailedError
from parachuted.events import PERSON
from parachuted.sync import PutResult, put_whole
from parachuted.vault import Author, Store, VaultPath, new_id, printable

log = logging.getLogger(__name__)


def is_program(path: str) -> bool:
    """Whether code or approvals are kept there, which nothing writes as notes are written."""
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


def writable(call: ApiCall, path: VaultPath) -> VaultPath:
    """Where the file is, links followed. Blocks. Raises NotFoundError and, for programs, 403."""
    real = call.files.find(path)
    admin = call.identity.grant("vault", "admin")
    if admin is not None and admin.alternatives is None:
        return real
    for place in (path, real):
        if is_program(place):
            raise web.HTTPForbidden(
                text=f"{printable(place)} is a program's or a suggestion's; only an admin of the "
                "whole vault may write it"
            )
    return real


def keep_bases(store: Store, texts: Iterable[tuple[str, bytes]]) -> None:
    """Keep texts that were read as bases that a write may name; without one it may conflict."""
    for path, data in texts:
        try:
            store.bases.keep(path, data)
        except StorageFailedError as error:
            more = {"error": error.message}
            log.warning("a text that was read could not be kept as a base", extra=more)


def author_of(store: Store, call: ApiCall) -> Author:
    causes = (new_id("c", store.clock()),)
    key = call.requester.limited_key
    return Author(by=PERSON.by, causes=causes, key=key, requester=call.requester)


def put_file(
    store: Store, call: ApiCall, author: Author, path: VaultPath, data: bytes, base: str | None
) -> PutResult:
    """Write a whole file, found before; `base` as `put_whole` has it. Blocks on the disk."""
    refuse_watching_beyond(call.reading, store, path, lambda _before: data)
    return put_whole(store, path, data, author, base=base, sees=call.reading.sees)
