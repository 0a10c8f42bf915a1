"""A page of sessions, of those that the caller may read: as if there were no others."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

from parachuted.modules import VaultAccess

from .session import FOLDER, Session
from .session_index import SessionIndex, SessionQuery


async def find_readable(
    vault: VaultAccess, index: SessionIndex, wanted: SessionQuery
) -> list[Session]:
    """The newest of the wanted sessions. Of several files with one id, the first counts."""
    readable = set(await vault.list(f"{FOLDER}**"))
    return await asyncio.to_thread(_find, index, wanted, readable)


def _find(index: SessionIndex, wanted: SessionQuery, readable: Collection[str]) -> list[Session]:
    twins = {
        session_id: next((path for path in paths if path in readable), "")
        for session_id, paths in index.duplicates().items()
    }
    found: list[Session] = []
    query = wanted
    while True:
        rows = index.newest(query)
        for row in rows:
            if row.path in readable and twins.get(row.id, row.path) == row.path:
                found.append(row.session)
                if len(found) == wanted.limit:
                    return found
        if len(rows) < query.limit:
            return found
        query = replace(query, after=(rows[-1].updated, rows[-1].id))
