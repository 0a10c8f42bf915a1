"""Note tools: what agents and connected programs may do with notes, one function a tool.

Arguments come from a model that may have read anyone's text: what is wrong with them is answered as
text. The definitions are part of every prompt, so they are short.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from parachuted.access.notes import AppendSection, NoteEdit, RemoveKey, SetKey, SetSection
from parachuted.agents.job import Tool
from parachuted.errors import NotFoundError
from parachuted.runs.granted_vault import GrantedVault
from parachuted.texts.times import time_of
from parachuted.tools.definitions import agent_tools, plain, tool, tools_in
from parachuted.vault import parse_note

_MOST_LISTED, _MOST_FOUND = 500, 50
_LARGEST_TEXT = 256 << 10
_LEFT_OUT = (
    "notes of strangers are left out; list_notes with the cursor strangers names them, read_note "
    "reads one, and from then on what you would write is suggested to a person"
)


class SeenNotes:
    """What one client was shown: by path, the digest that its edits are based on."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self._whole: set[str] = set()

    def add(self, path: str, digest: str, *, is_whole: bool = True) -> None:
        self.forget(path)
        self.digests[path] = digest
        if is_whole:
            self._whole.add(path)

    def forget(self, path: str) -> None:
        self.digests.pop(path, None)
        self._whole.discard(path)

    def whole(self, path: str) -> str | None:
        """The digest of a note of which it saw all."""
        return self.digests.get(path) if path in self._whole else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteTools:
    """`writing` is entered around a call that may write, and gives the id of its run."""

    vault: GrantedVault
    writing: Callable[[str, str], AbstractAsyncContextManager[str | None]]
    seen: SeenNotes = field(default_factory=SeenNotes)

    def tools(self, *, may_write: bool) -> tuple[Tool, ...]:
        return agent_tools(
            self,
            (known for known in tools_in(NoteTools) if may_write or known.capability == "read"),
        )

    @tool("Read a note, or one section of it.", "vault", "read")
    async def read_note(self, path: str, section: str = "") -> Mapping[str, object]:
        data, digest = await self.vault.read_with_digest(path)
        if section:
            note = parse_note(data)
            found = note.section(section)
            if found is None:
                titles = ", ".join(known.title for known in note.sections)
                raise NotFoundError(f"{path} has no section {section[:80]}; it has {titles}")
            data = data[found.start : found.stop]
        is_cut = len(data) > _LARGEST_TEXT
        self.seen.add(path, digest, is_whole=not (section or is_cut))
        text = data[:_LARGEST_TEXT].decode("utf-8", "replace")
        more = {"truncated": True} if is_cut else {}
        return {"path": path, "digest": digest, "text": text, **more}

    @tool("List notes; order: a key, path, title or modified; - descends.", "vault", "read")
    async def list_notes(
        self,
        folder: str = "",
        tag: str = "",
        where: dict[str, Any] = {},  # noqa: B006  nothing changes it
        order: str = "path",
        limit: int = 100,
        cursor: str = "",
    ) -> Mapping[str, object]:
        page = await self.vault.notes(
            folder,
            tag=tag or None,
            where=where,
            order=order or "path",
            limit=min(limit, _MOST_LISTED),
            cursor=cursor or None,
        )
        return {
            "notes": [
                {"path": row.path, "title": row.title, "modified": time_of(row.modified)}
                for row in page.notes
            ],
            **({"next": page.next} if page.next else {}),
            **self._left_out(),
        }

    @tool('Search by words, "phrases", begin*, tag:x, -without.', "vault", "read")
    async def search_notes(self, query: str, limit: int = 20) -> Mapping[str, object]:
        hits = await self.vault.search(query, min(limit, _MOST_FOUND))
        found = [{"path": hit.path, "title": hit.title, "snippet": hit.snippet} for hit in hits]
        return {"hits": found, **self._left_out()}

    @tool("Create a note, or replace one that you have read.", "vault")
    async def write_note(self, path: str, text: str) -> Mapping[str, object]:
        base, text = self.seen.whole(path), plain(text)
        if base is None and await self.vault.exists(path):
            raise NotFoundError(f"{path} is there already, and you have not read it; read it first")
        write = (
            partial(self.vault.create, path, text)
            if base is None
            else partial(self.vault.write, path, text, base=base)
        )
        return await self._changed("wrote", path, write, is_whole=True)

    @tool("Replace a section, or append to it; made if missing.", "vault")
    async def edit_section(
        self,
        path: str,
        section: str,
        text: str,
        append: bool = False,  # noqa: FBT001, FBT002  by name
    ) -> Mapping[str, object]:
        edit = AppendSection if append else SetSection
        what = "added to" if append else "edited"
        return await self._edited(what, path, edit(section, plain(text)))

    @tool("Set a frontmatter key; null removes it.", "vault")
    async def set_key(self, path: str, key: str, value: Any) -> Mapping[str, object]:  # noqa: ANN401  any JSON
        edit = RemoveKey(key) if value is None else SetKey(key, value)
        return await self._edited(f"set {key[:80]} in", path, edit)

    @tool("Move a note; links to it follow.", "vault")
    async def move_note(self, path: str, to: str) -> Mapping[str, object]:
        moved = await self._changed("moved", path, partial(self.vault.move, path, to))
        return {**moved, "path": to}

    async def _edited(self, what: str, path: str, edit: NoteEdit) -> Mapping[str, object]:
        base, is_whole = self.seen.digests.get(path), self.seen.whole(path) is not None
        write = partial(self.vault.edit, path, [edit], base=base)
        return await self._changed(what, path, write, is_whole=is_whole)

    def _left_out(self) -> Mapping[str, object]:
        left_out = self.vault.strangers_left_out
        return {"note": f"{left_out} {_LEFT_OUT}"} if left_out else {}

    async def _changed(
        self,
        what: str,
        path: str,
        write: Callable[[], Awaitable[str]],
        *,
        is_whole: bool | None = None,
    ) -> Mapping[str, object]:
        """Write, and forget what was seen, unless all or a part of the new text is known. Where it
        was merged with what others wrote, the next edit is based on what was seen before.
        """
        async with self.writing(what, path) as run:
            digest = await write()
        is_merged = digest in self.vault.files.unread
        if not is_merged:
            self.seen.forget(path)
            if is_whole is not None:
                self.seen.add(path, digest, is_whole=is_whole)
        note = (
            {"note": "others wrote in it meanwhile; read it before you go on"} if is_merged else {}
        )
        return {"path": path, "digest": digest, **({"run": run} if run else {}), **note}
