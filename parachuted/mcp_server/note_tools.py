"""Note tools: reading, finding and changing notes, through the client's bounded vault."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from parachuted.errors import NotFoundError
from parachuted.mcp_server.tools import ServedTool, ToolCall, an_object
from parachuted.times import time_of
from parachuted.vault import parse_note

_MOST_LISTED = 500
_MOST_FOUND = 50
_LARGEST_TEXT = 256 << 10

_WRITTEN = an_object("path", "digest", path="string", digest="string", run="string")
_STRANGERS = (
    "notes of strangers are left out; read_note reads one, and from then on what you would write "
    "is suggested to a person"
)


class ServedNoteTools:
    """The tools over notes. What a client has read is what its edits are based on."""

    def tools(self) -> Sequence[ServedTool]:
        """The tools."""
        return self._tools

    def __init__(self) -> None:
        self._tools = (
            ServedTool(
                name="read_note",
                description="Read a note, or one section of it.",
                takes=an_object("path", path="string", section="string"),
                answers=an_object("path", "text", path="string", digest="string", text="string"),
                module="vault",
                capability="read",
                call=self._read,
            ),
            ServedTool(
                name="list_notes",
                description="List notes; order: path, title, modified or a key, - for descending.",
                takes=an_object(
                    folder="string",
                    tag="string",
                    where="object",
                    order="string",
                    limit="integer",
                    cursor="string",
                ),
                answers=an_object("notes", notes="array", next="string", note="string"),
                module="vault",
                capability="read",
                call=self._list,
            ),
            ServedTool(
                name="search_notes",
                description='Search by words, "phrases", begin*, tag:x, -without.',
                takes=an_object("query", query="string", limit="integer"),
                answers=an_object("hits", hits="array", note="string"),
                module="vault",
                capability="read",
                call=self._search,
            ),
            ServedTool(
                name="write_note",
                description="Create a note, or replace one that you have read.",
                takes=an_object("path", "text", path="string", text="string"),
                answers=_WRITTEN,
                module="vault",
                capability="write",
                call=self._write,
                is_destructive=True,
                is_idempotent=True,
            ),
            ServedTool(
                name="edit_section",
                description="Replace a section's text, or append to it; made if missing.",
                takes=an_object(
                    "path",
                    "section",
                    "text",
                    path="string",
                    section="string",
                    text="string",
                    append="boolean",
                ),
                answers=_WRITTEN,
                module="vault",
                capability="write",
                call=self._edit,
                is_destructive=True,
            ),
            ServedTool(
                name="set_key",
                description="Set a frontmatter key; null removes it.",
                takes=an_object("path", "key", "value", path="string", key="string", value={}),
                answers=_WRITTEN,
                module="vault",
                capability="write",
                call=self._set_key,
                is_destructive=True,
                is_idempotent=True,
            ),
            ServedTool(
                name="move_note",
                description="Move a note; links to it follow.",
                takes=an_object("path", "to", path="string", to="string"),
                answers=_WRITTEN,
                module="vault",
                capability="write",
                call=self._move,
            ),
        )

    async def _read(self, call: ToolCall) -> object:
        path, client = call.path(), call.client
        data, digest = await client.vault.read_with_digest(path)
        section = call.text("section")
        if section:
            note = parse_note(data)
            found = note.section(section)
            if found is None:
                titles = ", ".join(one.title for one in note.sections)
                raise NotFoundError(f"{path} has no section {section[:80]}; it has {titles}")
            data = data[found.start : found.stop]
        is_cut = len(data) > _LARGEST_TEXT
        client.saw(path, digest, is_whole=not (section or is_cut))
        text = data[:_LARGEST_TEXT].decode("utf-8", "replace")
        more = {"truncated": True} if is_cut else {}
        return {"path": path, "digest": digest, "text": text, **more}

    async def _list(self, call: ToolCall) -> object:
        vault, where = call.client.vault, call.given.get("where")
        page = await vault.notes(
            call.text("folder"),
            tag=call.text("tag") or None,
            where=where if isinstance(where, dict) else None,
            order=call.text("order") or "path",
            limit=call.number("limit", 100, _MOST_LISTED),
            cursor=call.text("cursor") or None,
        )
        left_out = vault.strangers_left_out
        return {
            "notes": [
                {"path": one.path, "title": one.title, "modified": time_of(one.modified)}
                for one in page.notes
            ],
            **({"next": page.next} if page.next else {}),
            **({"note": f"{left_out} {_STRANGERS}"} if left_out else {}),
        }

    async def _search(self, call: ToolCall) -> object:
        vault = call.client.vault
        hits = await vault.search(call.text("query"), call.number("limit", 20, _MOST_FOUND))
        left_out = vault.strangers_left_out
        return {
            "hits": [
                {"path": hit.path, "title": hit.title, "snippet": hit.snippet} for hit in hits
            ],
            **({"note": f"{left_out} {_STRANGERS}"} if left_out else {}),
        }

    async def _write(self, call: ToolCall) -> object:
        path, text, client = call.path(), call.text("text"), call.client
        base = client.base(path, is_whole=True)
        if base is None and await client.vault.exists(path):
            raise NotFoundError(
                f"{path} is there already, and you have not read it; read it, then decide what its "
                "whole text is to be"
            )
        return await self._written(
            call,
            "wrote",
            lambda: (
                client.vault.create(path, text)
                if base is None
                else client.vault.write(path, text, base=base)
            ),
        )

    async def _edit(self, call: ToolCall) -> object:
        path, section, text = (
            call.path(),
            call.text("section"),
            call.text("text"),
        )
        vault, base = call.client.vault, call.client.base(path)
        if call.given.get("append") is True:
            return await self._written(
                call, "added to", lambda: vault.append(path, section, text), is_seen=False
            )
        return await self._written(
            call, "edited", lambda: vault.replace_section(path, section, text, base=base)
        )

    async def _set_key(self, call: ToolCall) -> object:
        path, key = call.path(), call.text("key")
        vault = call.client.vault
        return await self._written(
            call,
            f"set {key[:80]} in",
            lambda: vault.set_key(path, key, call.given["value"]),
            is_seen=False,
        )

    async def _move(self, call: ToolCall) -> object:
        path, target, client = call.path(), call.path("to"), call.client
        async with client.writing("moved", path, call.api.id) as record:
            digest = await client.vault.move(path, target)
        client.forget(path)
        return {"path": target, "digest": digest, "run": record.run}

    async def _written(
        self, call: ToolCall, what: str, act: Callable[[], Awaitable[str]], *, is_seen: bool = True
    ) -> object:
        """`is_seen`: the client knows the whole text that it leaves."""
        path, client = call.text("path"), call.client
        async with client.writing(what, path, call.api.id) as record:
            digest = await act()
        if is_seen:
            client.saw(path, digest)
        else:
            client.forget(path)
        return {"path": path, "digest": digest, "run": record.run}
