"""A page of sessions, and how many there are, of those that the caller may read: as if there were
no others.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from parachuted.modules import VaultAccess

from .session import Session
from .session_index import SessionIndex, SessionQuery


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """`sessions` counts the archived ones too, and `messages` those of all sessions."""

    sessions: int
    archived: int
    messages: int


async def count_readable(vault: VaultAccess, index: SessionIndex) -> SessionCounts:
    """Of several files with one id, the first counts."""
    twins = await _twins(vault, index)
    rows = await asyncio.to_thread(index.counted)
    readable = set(await vault.readable([path for path, *_ in rows]))
    found = [
        (archived, messages)
        for path, session_id, archived, messages in rows
        if path in readable and twins.get(session_id, path) == path
    ]
    return SessionCounts(
        sessions=len(found),
        archived=sum(archived for archived, _ in found),
        messages=sum(messages for _, messages in found),
    )


async def find_readable(
    vault: VaultAccess, index: SessionIndex, wanted: SessionQuery
) -> list[Session]:
    """The newest of the wanted sessions. Of several files with one id, the first counts."""
    twins = await _twins(vault, index)
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


async def _twins(vault: VaultAccess, index: SessionIndex) -> dict[str, str]:
    """The file that counts, by an id that several files have."""
    duplicates = await asyncio.to_thread(index.duplicates)
    return {
        session_id: next(iter(await vault.readable(paths)), "")
        for session_id, paths in duplicates.items()
    }
