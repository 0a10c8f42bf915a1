"""A page of sessions, of those that the caller may read: as if there were no others."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from parachuted.modules import VaultAccess

from .session import Session
from .session_index import SessionIndex, SessionQuery


async def find_readable(
    vault: VaultAccess, index: SessionIndex, wanted: SessionQuery
) -> list[Session]:
    """The newest of the wanted sessions. Of several files with one id, the first counts."""
    twins: dict[str, str] = {}
    for session_id, paths in (await asyncio.to_thread(index.duplicates)).items():
        twins[session_id] = next(iter(await vault.readable(paths)), "")
    found: list[Session] = []
    query = wanted
    while True:
        rows = await asyncio.to_thread(index.newest, query)
        readable = set(await vault.readable([row.path for row in rows]))
        for row in rows:
            if row.path in readable and twins.get(row.id, row.path) == row.path:
                found.append(row.session)
                if len(found) == wanted.limit:
                    return found
        if len(rows) < query.limit:
            return found
        query = replace(query, after=(rows[-1].updated, rows[-1].id))
