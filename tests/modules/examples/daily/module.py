"""Daily: a journal in miniature."""

# ruff: noqa: RUF012, RUF013  as the people who write modules do
from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from parachuted.errors import ConflictError, NotFoundError
from parachuted.modules import Module, Response, event, mcp_tool, route

FOLDER = "Daily/entries"
SURE = 0.8


class DailyModule(Module):
    """Daily journaling."""

    name = "daily"
    version = "1.0.0"
    description = "A journal, with what it mentions linked where a Brain is there"

    permissions = {
        "read": ["Daily/**", "parachute/memory.md"],
        "write": ["Daily/**"],
        "bash": False,
        "mcp": ["daily-journal"],
    }

    @route("GET", "/entries")
    async def list_entries(self, date: str = None, limit: int = 50):
        """The entries, newest first, or those of one day."""
        found = [
            path
            for path in await self.vault.list(f"{FOLDER}/*.md")
            if date is None or _name(path).startswith(date)
        ]
        return {
            "entries": [
                {"id": _name(path), "path": path} for path in sorted(found, reverse=True)[:limit]
            ],
            "count": len(found),
        }

    @route("GET", "/entries/{entry_id}")
    async def read_entry(self, entry_id: str):
        """One entry."""
        return {"id": entry_id, "content": await self.vault.read(f"{FOLDER}/{entry_id}.md")}

    @route("POST", "/entries")
    async def create_entry(self, content: str, entry_id: str = None):
        """Keep a new entry, under its time unless it has a name, and tell everyone."""
        name = entry_id or f"{datetime.now(UTC):%Y-%m-%d-%H%M%S-%f}"
        path = f"{FOLDER}/{name}.md"
        try:
            await self.vault.create(path, f"---\nentry_id: {name}\n---\n{content}\n")
        except ConflictError:
            return Response(status=409, body={"error": "There is an entry of that name."})
        self.publish("daily.entry.created", entry_id=name, content=content, entry_path=path)
        return Response(status=201, body={"id": name, "path": path})

    @route("POST", "/query")
    async def query_streaming(self, message: str) -> AsyncIterator[dict[str, object]]:
        """Answer with the entries that hold those words, one event each."""
        found = 0
        for path in await self.vault.list(f"{FOLDER}/*.md"):
            if message.lower() in (await self.vault.read(path)).lower():
                found += 1
                yield {"type": "entry", "id": _name(path)}
        yield {"type": "done", "count": found}

    @mcp_tool("daily-journal")
    async def search_journals(self, query: str, date_from: str = None):
        """Search journal entries by content."""
        paths = [
            path
            for path in await self.vault.list(f"{FOLDER}/*.md")
            if date_from is None or _name(path) >= date_from
        ]
        return [path for path in paths if query.lower() in (await self.vault.read(path)).lower()]

    @event("daily.entry.created")
    async def on_entry_created(self, entry_id: str, content: str):
        """Link what the entry mentions.

        Without a Brain there is nothing to link, and all else works.
        """
        brain = self.get_interface("BrainInterface")
        if brain is None:
            return
        sure = [
            mention["para_id"]
            for mention in await brain.suggest(content)
            if mention["confidence"] > SURE
        ]
        for para_id in sure:
            await brain.link(entry_id, para_id)
        if sure:
            await self._note_mentions(entry_id, sure)

    async def _note_mentions(self, entry_id: str, mentions: list[str]):
        try:
            await self.vault.set_key(f"{FOLDER}/{entry_id}.md", "mentions", mentions)
        except NotFoundError:
            self.log.info("the entry is gone again")


def _name(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")
