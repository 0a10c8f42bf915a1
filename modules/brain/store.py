"""The store: entities as files of the vault, read and written for the present caller.

What is in memory is derived and follows the files. It is never an answer by itself: a text goes to
a caller only after the vault has read it on that caller's behalf.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.modules import (
    AppendSection,
    Note,
    NoteChange,
    NoteEdit,
    RemoveKey,
    ReplaceSpan,
    SetKey,
    VaultAccess,
    reading,
    retry_on_conflict,
)

from .entity import Entity, Json
from .loader import Loader, View, has_private, read_note
from .type_file import EntityType
from .words import new_para_id, slug

ENTITIES: Final = "Brain/entities/"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRevision:
    """None takes a key out; `sections` are items at their ends."""

    keys: Mapping[str, Json] = field(default_factory=dict)
    name: str = ""
    body: str | None = None
    sections: Mapping[str, Sequence[str]] = field(default_factory=dict)


class EntityStore:
    def __init__(self, vault: VaultAccess, loader: Loader, view: View) -> None:
        self._vault, self.loader, self._view = vault, loader, view

    async def view(self) -> View:
        await self.loader.is_loaded.wait()
        return self._view

    async def find(self, spelling: str) -> Entity:
        """Raises NotFoundError."""
        found = (await self.view()).index.find(spelling)
        if found is None:
            raise NotFoundError("That entity was not found.")
        return found

    async def read(self, entity: Entity) -> Entity:
        """The entity as its file is now. NotFoundError: also where the caller may not read it."""
        with reading(entity.path, []):  # why, is not for a caller who may not read it
            return await self.entity_of(await self._vault.note(entity.path))
        raise NotFoundError("That entity was not found.")

    async def entity_of(self, note: Note) -> Entity:
        return read_note(note, (await self.view()).types)

    async def readable(self, entities: Iterable[Entity]) -> AsyncIterator[Entity]:
        for entity in entities:
            try:
                yield await self.read(entity)
            except NotFoundError:
                continue

    async def present(self, paths: Iterable[str]) -> set[str]:
        """Those that the caller may read: to be named in an answer counts as read."""

        async def is_readable(path: str) -> bool:
            with reading(path, []):  # it is a part of an answer, or is not
                await self._vault.read(path)
                return True
            return False

        wanted = list(dict.fromkeys(paths))
        found = await asyncio.gather(*map(is_readable, wanted))
        return {path for path, is_there in zip(wanted, found, strict=True) if is_there}

    async def text_of(self, path: str) -> str:
        try:
            return await self._vault.read(path)
        except NotFoundError:
            return ""

    async def note(self, path: str) -> Note:
        return await self._vault.note(path)

    def new_id(self) -> str:
        return new_para_id(self._view.index.has_id)

    async def add(self, kind: EntityType, name: str, text: str) -> tuple[str, str]:
        stem = slug(name) or slug(kind.name)
        for number in range(1, 1000):
            path = f"{ENTITIES}{kind.folder}/{stem}{'' if number == 1 else f'-{number}'}.md"
            try:
                run = await self._vault.edit_all(
                    [NoteChange(path, None, text=text)], reason=f"a new {kind.name}: {name[:80]}"
                )
            except ConflictError:
                continue
            await self.loader.look(path)
            return path, run
        raise EditRefusedError(f"There are too many entities called {name[:80]}.")

    async def change(self, path: str, decide: Callable[[Note], NoteRevision]) -> bool:
        """Whether anything changed. Upon others' edits meanwhile it is decided again."""

        async def write() -> bool:
            note = await self._vault.note(path)
            if edits := _edits(note, decide(note)):
                await self._vault.edit(path, edits, base=note.digest)
            return bool(edits)

        is_changed = await retry_on_conflict(write)
        await self.loader.look(path)
        return is_changed

    async def linking(self, path: str) -> list[Note]:
        rows = await self._vault.backlinks(path)
        paths = list(dict.fromkeys(row.path for row in rows if row.path is not None))
        return [note async for note in self._vault.read_notes(paths)]

    async def change_all(self, changes: Sequence[NoteChange], *, reason: str) -> str:
        run = await self._vault.edit_all(changes, reason=reason)
        for change in changes:
            await self.loader.look(change.path)
        return run

    async def rewrite(self, path: str, edit: Callable[[str], str]) -> None:
        async def write() -> None:
            try:
                base = await self._vault.digest(path)
                text = await self._vault.read(path)
            except NotFoundError:
                await self._vault.create(path, edit(""))
                return
            if (new := edit(text)) != text:
                await self._vault.write(path, new, base=base)

        await retry_on_conflict(write)
        await self.loader.look(path)

    async def delete(self, path: str) -> None:
        await self._vault.delete(path)
        await self.loader.look(path)


def _edits(note: Note, revision: NoteRevision) -> list[NoteEdit]:
    edits = list(_key_edits(note, revision.keys))
    if revision.name:
        edits.append(_name_edit(note, revision.name))
    if revision.body is not None:
        if has_private(note):
            raise EditRefusedError(f"{note.path} has a private part: edit its text in the file.")
        edits.append(_body_edit(note, revision.body))
    return edits + [
        AppendSection(section, "\n".join(items))
        for section, items in revision.sections.items()
        if items
    ]


def _key_edits(note: Note, keys: Mapping[str, Json]) -> Iterable[NoteEdit]:
    for key, value in keys.items():
        if value is None:
            if key in note.frontmatter:
                yield RemoveKey(key)
        elif isinstance(value, str | int | float):
            yield SetKey(key, value)
        elif isinstance(value, list | tuple) and all(
            isinstance(one, str | int | float) for one in value
        ):
            yield SetKey(key, [str(one) for one in value])
        else:
            raise EditRefusedError(
                f"the field {key[:80]} takes a text, a number, true or false, or a list of texts"
            )


def _name_edit(note: Note, name: str) -> NoteEdit:
    title = next((section for section in note.sections if section.level == 1), None)
    if "name" not in note.frontmatter and title is not None and title.heading:
        at = note.text.find(title.heading, title.start, title.body)
        if at >= 0 and "\n" not in name:
            return ReplaceSpan(at, at + len(title.heading), name)
    return SetKey("name", name)


def _body_edit(note: Note, body: str) -> NoteEdit:
    title = next((section for section in note.sections if section.level == 1), None)
    start = title.body if title is not None else note.body_start
    ending = "\r\n" if "\r\n" in note.text else "\n"
    return ReplaceSpan(start, len(note.text), f"{ending}{body.strip()}{ending}")
