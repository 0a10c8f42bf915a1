"""The store: entities as files of the vault. It alone reads and writes them.

What is in memory is derived and follows the files. It is never an answer by itself: a text goes to
a caller only after the vault has read it on that caller's behalf.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    PathRefusedError,
)
from parachuted.modules import (
    AppendSection,
    Note,
    NoteChange,
    NoteEdit,
    RemoveKey,
    ReplaceSpan,
    SetKey,
    VaultAccess,
)

from . import type_file
from .derived import Derived
from .entity import Entity, Json, read_entity
from .entity_index import EntityIndex
from .names import slug
from .para_ids import new_para_id
from .private import has_private, without_private
from .recall_index import RecallIndex
from .type_file import DEFAULTS, EntityType, Types

ROOT: Final = "Brain/"
ENTITIES: Final = "Brain/entities/"
UNREADABLE: Final = (NotFoundError, ActRefusedError, PathRefusedError, EditRefusedError)
_NO_ENTITY = re.compile(r"(?:AGENTS|CLAUDE)\.md", re.IGNORECASE)
_IS_SAID = re.compile(r"^(?!---|\.\.\.|#|\s*$)", re.MULTILINE)
_AT_ONCE = 500
_ATTEMPTS = 8
_KEPT = 400  # characters of a text that are kept in memory, for lists

Change = Literal["created", "updated", "deleted"]


class EntityStore:
    """All entities and types of the vault."""

    def __init__(
        self, vault: VaultAccess, recall: RecallIndex, tell: Callable[[Change, Entity], None]
    ) -> None:
        """`recall` is what answers questions. `tell` is called with each change of an entity's
        file, however it was made, but for those that a load finds.
        """
        self._vault, self.recall, self._tell = vault, recall, tell
        self.derived = Derived()
        self.index = self.derived.index
        self.types: Types = DEFAULTS
        self.faults: dict[str, str] = {}
        self.is_loaded, self.has_new_texts = asyncio.Event(), asyncio.Event()
        self._reading = asyncio.Lock()

    async def load(self) -> None:
        """Read every file below Brain/."""
        async with self._reading:
            await self._load_types()
            self.derived.begin_load()
            held = await asyncio.to_thread(self.recall.digests)
            new: dict[str, Entity | None] = {}
            left = {one.path for one in self.index.files}
            notes = self._vault.read_notes(f"{ROOT}**/*.md")
            async for note in notes:
                if not is_entity(note.path):
                    continue
                found = self._put(note)
                left.discard(note.path)
                if held.pop(note.path, "") != found.digest:
                    new[note.path] = found
                if len(new) == _AT_ONCE:
                    await self._keep_texts(new)
                    new = {}
            await self._keep_texts(new | dict.fromkeys(held))
            for path in left:
                self.index.remove(path)
                self.faults.pop(path, None)
            self.faults.update(notes.left_out)
            self.derived.end_load()
        self.is_loaded.set()

    async def look(self, path: str) -> None:
        """Read one file again."""
        if path == type_file.PATH:
            await self.load()
        elif is_entity(path):
            async with self._reading:
                before = self.index.at(path)
                await self._look(path)
            after = self.index.at(path)
            if after is None and before is not None:
                self._tell("deleted", before)
            elif after is not None and before is None:
                self._tell("created", after)
            elif after is not None and before is not None and after.digest != before.digest:
                self._tell("updated", after)

    async def follow_move(self, source: str, path: str) -> None:
        """A file has another name."""
        if type_file.PATH in {source, path}:
            await self.load()
            return
        before = self.index.at(source)
        if before is None or not is_entity(path):
            await self.look(source)
            await self.look(path)
            return
        async with self._reading:
            self.index.remove(source)
            await self._keep_texts({source: None})
            await self._look(path)
        after = self.index.at(path)
        if after is None:
            self._tell("deleted", before)
        else:
            self._tell("updated", after)

    async def _load_types(self) -> None:
        try:
            self.types = type_file.read_types(await self._vault.read(type_file.PATH))
        except NotFoundError:
            self.types = DEFAULTS
        except EditRefusedError as error:
            self.types = replace(DEFAULTS, problems=(str(error),))

    async def _look(self, path: str) -> None:
        self.faults.pop(path, None)
        found = None
        try:
            found = self._put(await self._vault.note(path))
        except UNREADABLE as error:
            self.index.remove(path)
            if isinstance(error, EditRefusedError):
                self.faults[path] = str(error)
        await self._keep_texts({path: found})

    def _put(self, note: Note) -> Entity:
        """Take up what the file says now."""
        found = self.entity_of(note)
        self.faults.pop(note.path, None)
        if said := _fault(note):
            self.faults[note.path] = said
        self.index.put(replace(found, body=found.body[:_KEPT]))
        return found

    async def _keep_texts(self, found: Mapping[str, Entity | None]) -> None:
        if found:
            await asyncio.to_thread(self._index_texts, found)
            self.has_new_texts.set()

    def _index_texts(self, found: Mapping[str, Entity | None]) -> None:
        """Let questions find these texts; in a thread, for it waits for the disk."""
        with self.recall.batch():
            for path, one in found.items():
                if one is None:
                    self.recall.remove(path)
                else:
                    besides = [*one.names[1:], *one.tags, one.description]
                    self.recall.put(path, one.name, besides, one.body, path, one.digest)

    def entity_of(self, note: Note) -> Entity:
        """What the note says."""
        return read_entity(
            note.path,
            without_private(note),
            note.frontmatter,
            body_at=note.body_start,
            digest=note.digest,
            types=self.types.by_folder,
        )

    async def loaded(self) -> EntityIndex:
        """The index, once every file is in it."""
        await self.is_loaded.wait()
        return self.index

    async def find(self, spelling: str) -> Entity:
        """The entity of that id, path or file name. Raises NotFoundError."""
        found = (await self.loaded()).find(spelling)
        if found is None:
            raise NotFoundError("There is no such entity.")
        return found

    async def read(self, entity: Entity) -> Entity:
        """The entity as the file is now, read for the caller.

        Raises NotFoundError, also where the caller may not read it.
        """
        try:
            return self.entity_of(await self._vault.note(entity.path))
        except UNREADABLE as error:
            raise NotFoundError("There is no such entity.") from error

    async def readable(self, entities: Iterable[Entity]) -> AsyncIterator[Entity]:
        """Those that the caller may read, as their files are now."""
        for entity in entities:
            try:
                yield await self.read(entity)
            except NotFoundError:
                continue

    async def text_of(self, path: str) -> str:
        """The text of any file, "" where there is none."""
        try:
            return await self._vault.read(path)
        except NotFoundError:
            return ""

    async def note(self, path: str) -> Note:
        """Any note."""
        return await self._vault.note(path)

    def new_id(self) -> str:
        """An id that no file has."""
        return new_para_id(self.index.has_id)

    async def add(self, kind: EntityType, name: str, text: str) -> str:
        """Write a new file for an entity of that name, and return its path."""
        stem = slug(name) or slug(kind.name)
        for number in range(1, 1000):
            path = f"{ENTITIES}{kind.folder}/{stem}{'' if number == 1 else f'-{number}'}.md"
            try:
                await self._vault.create(path, text)
            except ConflictError:
                continue
            await self.look(path)
            return path
        raise EditRefusedError(f"There are too many entities called {name[:80]}.")

    async def change(
        self,
        path: str,
        keys: Mapping[str, Json],
        *,
        name: str = "",
        body: str | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Change any note as one write: keys of its frontmatter (None takes one out), its name, its
        text below the title, and items at the end of sections.
        """
        note = await self._vault.note(path)
        edits: list[NoteEdit] = list(_key_edits(note, keys))
        if name:
            edits.append(_name_edit(note, name))
        if body is not None:
            if has_private(note):
                raise EditRefusedError(f"{path} has a private part: edit its text in the file.")
            edits.append(_body_edit(note, body))
        for section, items in (sections or {}).items():
            if items:
                edits.append(AppendSection(section, "\n".join(items)))
        if edits:
            await self._vault.edit(path, edits, base=note.digest)
            await self.look(path)

    async def linking(self, path: str) -> list[Note]:
        """The notes with links to that file, as far as the caller may read them."""
        rows = await self._vault.backlinks(path)
        paths = list(dict.fromkeys(row.path for row in rows if row.path is not None))
        return [note async for note in self._vault.read_notes(paths)]

    async def change_all(self, changes: Sequence[NoteChange], *, reason: str) -> str:
        """Change several notes as one run, and return its id."""
        run = await self._vault.edit_all(changes, reason=reason)
        for change in changes:
            await self.look(change.path)
        return run

    async def rewrite(self, path: str, edit: Callable[[str], str]) -> None:
        """Make a file what `edit` makes of its text; others' edits meanwhile are kept."""
        for attempt in range(_ATTEMPTS):
            try:
                base: str | None = await self._vault.digest(path)
                text = await self._vault.read(path)
            except NotFoundError:
                base, text = None, ""
            new = edit(text)
            try:
                if base is None:
                    await self._vault.create(path, new)
                elif new != text:
                    await self._vault.write(path, new, base=base)
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                await self.look(path)
                return

    async def delete(self, path: str) -> None:
        """Remove a file."""
        await self._vault.delete(path)
        await self.look(path)


def is_entity(path: str) -> bool:
    """Whether the file at that path is an entity's."""
    return (
        path.startswith(ROOT)
        and path.endswith(".md")
        and not _NO_ENTITY.fullmatch(path.rpartition("/")[2])
    )


def _fault(note: Note) -> str:
    """Why the frontmatter was not read; "" where it was, or where there is none."""
    front = note.text[: note.body_start]
    if front and not note.frontmatter and _IS_SAID.search(front.removeprefix("\ufeff")):
        return "its frontmatter is not `key: value` lines of YAML"
    if not front and note.text.removeprefix("\ufeff").startswith(("---\n", "---\r\n")):
        return "it begins with a line --- but no second one closes the frontmatter"
    return ""


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
    """The key `name`, or the heading, whichever says the name now."""
    title = next((one for one in note.sections if one.level == 1), None)
    if "name" not in note.frontmatter and title is not None and title.heading:
        at = note.text.find(title.heading, title.start, title.body)
        if at >= 0 and "\n" not in name:
            return ReplaceSpan(at, at + len(title.heading), name)
    return SetKey("name", name)


def _body_edit(note: Note, body: str) -> NoteEdit:
    title = next((one for one in note.sections if one.level == 1), None)
    start = title.body if title is not None else note.body_start
    ending = "\r\n" if "\r\n" in note.text else "\n"
    return ReplaceSpan(start, len(note.text), f"{ending}{body.strip()}{ending}")
