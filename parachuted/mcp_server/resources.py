"""Resources: the notes that a client may read, by their addresses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from parachuted.access.filter import AccessFilter
from parachuted.access.origin import UNTRUSTED
from parachuted.access.origins import Origins
from parachuted.errors import NotFoundError
from parachuted.mcp_server.changes import address_of, path_at
from parachuted.mcp_server.clients import McpClient
from parachuted.search import NoteQuery, Search
from parachuted.vault import VaultRoot, printable

_A_PAGE = 200
_MOST_SUBSCRIBED = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteResource:
    """One note, as a list of resources has it; `size` in bytes."""

    address: str
    name: str
    title: str
    size: int


class NoteResources:
    """The notes as resources. Reading one is as reading it with a tool."""

    def __init__(self, root: VaultRoot, search: Search, origins: Origins) -> None:
        self._root, self._search, self._origins = root, search, origins

    async def page(
        self, client: McpClient, cursor: str | None
    ) -> tuple[list[NoteResource], str | None]:
        """Some notes by path, without strangers' unless the client has read one, and the cursor of
        those that follow. Raises ValueError for a cursor that is none.
        """
        query = NoteQuery(limit=_A_PAGE, after=cursor)
        sees = AccessFilter(self._root, client.authority.reads).sees
        client.authority.check()
        page = await asyncio.to_thread(self._search.catalogue.notes, query, sees)
        found = [
            NoteResource(
                address=address_of(printable(row.path)),
                name=printable(row.path),
                title=row.title,
                size=row.size,
            )
            for row in page.rows
            if client.taint or self._origins.of(row.path, row.digest) not in UNTRUSTED
        ]
        return found, page.next

    async def read(self, client: McpClient, address: str) -> str:
        """The text of the note at that address. Raises NotFoundError and what reading raises."""
        path = path_at(address)
        if not path:
            raise NotFoundError(f"{address[:200]} is no note's address; those begin note:///")
        data, digest = await client.vault.read_with_digest(path)
        client.saw(path, digest)
        return data.decode("utf-8", "replace")

    def subscribe(self, client: McpClient, address: str) -> None:
        """Tell the client of changes there from now on, as far as it may read it."""
        if len(client.subscribed) < _MOST_SUBSCRIBED:
            client.subscribed.add(address)
