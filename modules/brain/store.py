"""The store: entities as files of the vault, read and written for the present caller.

What is in memory is derived and follows the files. It is never an answer by itself: a text goes to
a caller only after the vault has read it on that caller's behalf.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from parachuted.errors import ActRefusedError, ConflictError, EditRefusedError, NotFoundError
from parachuted.modules import (
    AppendSection,
    Finding,
    Note,
    NoteChange,
    NoteEdit,
    RemoveKey,
    ReplaceSpan,
    SetKey,
    VaultAccess,
    is_conflict_copy,
    reading,
    retry_on_conflict,
    visible_to_agents,
)

from . import type_file
from .entity import Entity, Json, read_entity, retyped, stem_of
from .entity_index import EntityIndex
from .graph import Graph
from .recall import NoteText, RecallIndex
from .type_file import DEFAULTS, EntityType, Types
from .words import new_para_id, slug

ENTITIES: Final = "Brain/entities/"
_ROOT: Final = "Brain/"
_NO_ENTITY = re.compile(r"(?:AGENTS|CLAUDE)\.md", re.IGNORECASE)
_SUFFIXES = (".md", ".markdown")
_PROPOSED = "Suggestions/"  # what no person has approved answers no question
_IS_SAID = re.compile(r"^(?!---|\.\.\.|#|\s*$)", re.MULTILINE)
_AT_ONCE = 500
_PAGE = 1_000
_PREVIEW = 300  # characters of a text that are kept in memory, for lists
_KEYS_OF_PRIVATE: Final = ("para_id", "type")  # of an entity that is private as a whole

Change = Literal["created", "updated", "deleted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRevision:
    """None takes a key out; `sections` are items at their ends."""

    keys: Mapping[str, Json] = field(default_factory=dict)
    name: str = ""
    body: str | None = None
    sections: Mapping[str, Sequence[str]] = field(default_factory=dict)


class EntityStore:
    """`faults` are the files of entities that could not be read whole, by path; `has_notes` is set
    when notes that are no entities are read, too.
    """

    def __init__(
        self, vault: VaultAccess, recall: RecallIndex, tell: Callable[[Change, Entity], None]
    ) -> None:
        """`tell` is called with each change of an entity's file but those that a load finds."""
        self.vault, self.recall, self._tell = vault, recall, tell
        self.types: Types = DEFAULTS
        self.faults: dict[str, Finding] = {}
        self.index = EntityIndex()
        self.is_loaded, self.has_notes = asyncio.Event(), asyncio.Event()
        self.has_new_texts = asyncio.Event()
        self._reading = asyncio.Lock()

    @property
    def graph(self) -> Graph:
        return Graph(self.index)

    async def ready(self) -> None:
        await self.is_loaded.wait()

    async def load(self) -> None:
        """Read every entity and every type, for one who may read all of them."""
        async with self._reading:
            self.types = await self._read_types() or DEFAULTS
            texts: list[NoteText] = []
            notes = self.vault.read_notes(f"{_ROOT}**/*.md")
            async for note in notes:
                if is_entity(note.path):
                    with self._as_fault(note.path):
                        texts.append(_text_of(self._put(note)))
                if len(texts) == _AT_ONCE:
                    await self._keep(texts)
                    texts = []
            await self._keep(texts)
            for path, said in notes.left_out.items():
                self.faults[path] = Finding(path=path, problem=said)
        self.is_loaded.set()

    async def load_notes(self) -> None:
        try:
            await self._load_notes()
        finally:
            self.has_notes.set()

    async def _load_notes(self) -> None:
        held = await asyncio.to_thread(self.recall.digests)
        indexed = await self._indexed() if any(map(is_note, held)) else {}
        async with self._reading:
            wanted = {path: None for path in await self.vault.list() if is_note(path)}
            gone = [path for path in held if path not in wanted and self.index.at(path) is None]
            await self._keep([], gone)
        new = [path for path in wanted if path not in held or held[path] != indexed.get(path)]
        for first in range(0, len(new), _AT_ONCE):
            part = new[first : first + _AT_ONCE]
            async with self._reading:
                texts: list[NoteText] = []
                async for note in self.vault.read_notes(part):
                    with reading(note.path, []):  # what cannot be read answers no question
                        texts += _texts_of_note(note)
                await self._keep(texts, part)
        await asyncio.to_thread(self.recall.optimize)

    async def _indexed(self) -> dict[str, str]:
        """The digest that the vault's index has of each note; none while that is behind."""
        found: dict[str, str] = {}
        cursor = None
        while True:
            page = await self.vault.notes(limit=_PAGE, cursor=cursor)
            found |= {row.path: row.digest for row in page.notes}
            cursor = page.next
            if page.is_indexing:
                return {}
            if cursor is None:
                return found

    async def look(self, path: str) -> None:
        if path == type_file.PATH:
            await self._retype()
        elif is_note(path) or is_entity(path):
            async with self._reading:
                before = self.index.at(path)
                await self._look(path)
            self._tell_of(before, path)

    async def follow_move(self, source: str, path: str) -> None:
        before = self.index.at(source)
        if before is None or not is_entity(path):
            await self.look(source)
            await self.look(path)
            return
        async with self._reading:
            self.index.remove(source)
            self.faults.pop(source, None)
            await self._keep([], [source])
            await self._look(path)
        self._tell_of(before, path)

    def _tell_of(self, before: Entity | None, path: str) -> None:
        after = self.index.at(path)
        if after is None and before is not None:
            self._tell("deleted", before)
        elif after is not None and before is None:
            self._tell("created", after)
        elif after and before and (after.path, after.digest) != (before.path, before.digest):
            self._tell("updated", after)

    async def _read_types(self) -> Types | None:
        """None where the caller may not read them: one who may will say that they changed."""
        findings: list[Finding] = []
        with reading(type_file.PATH, findings), suppress(NotFoundError):
            try:
                return type_file.read_types(await self.vault.read(type_file.PATH))
            except ActRefusedError:
                return None
        return replace(DEFAULTS, problems=tuple(finding.problem for finding in findings))

    async def _retype(self) -> None:
        """No entity's file is read: who changed the types may not see all of them."""
        types = await self._read_types()
        if types is None:
            return
        async with self._reading:
            self.types = types
            for file in self.index.files:
                other = retyped(file, types.by_folder)
                if other is not file:
                    self.index.put(other)

    async def _look(self, path: str) -> None:
        texts: list[NoteText] = []
        # what of another note cannot be read answers no question
        reading_it = self._as_fault(path) if is_entity(path) else reading(path, [])
        with reading_it, suppress(NotFoundError):
            try:
                note = await self.vault.note(path)
            except ActRefusedError:  # it is there, and not for this caller
                return
            texts += [_text_of(self._put(note))] if is_entity(path) else _texts_of_note(note)
        if not texts:
            self.index.remove(path)
        await self._keep(texts, [path])

    @contextmanager
    def _as_fault(self, path: str) -> Iterator[None]:
        findings: list[Finding] = []
        self.faults.pop(path, None)
        with reading(path, findings):
            yield
        if findings:
            self.faults[path] = findings[0]

    def _put(self, note: Note) -> Entity:
        entity = read_note(note, self.types)
        if said := _fault(note):
            self.faults[note.path] = Finding(path=note.path, problem=said)
        self.index.put(replace(entity, body=entity.body[:_PREVIEW], facts=()))
        return entity

    async def _keep(self, texts: Sequence[NoteText], paths: Iterable[str] = ()) -> None:
        gone = set(paths) - {text.path for text in texts}
        if texts or gone:
            await asyncio.to_thread(self.recall.update, texts, gone)
            self.has_new_texts.set()

    async def find(self, spelling: str) -> Entity:
        """Raises NotFoundError."""
        await self.ready()
        entity = self.index.find(spelling)
        if entity is None:
            raise NotFoundError("That entity was not found.")
        return entity

    async def read(self, entity: Entity) -> Entity:
        """The entity as its file is now. NotFoundError: also where the caller may not read it."""
        with reading(entity.path, []):  # why, is not for a caller who may not read it
            return read_note(await self.vault.note(entity.path), self.types)
        raise NotFoundError("That entity was not found.")

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
                await self.vault.read(path)
                return True
            return False

        wanted = list(dict.fromkeys(paths))
        found = await asyncio.gather(*map(is_readable, wanted))
        return {path for path, is_there in zip(wanted, found, strict=True) if is_there}

    def new_id(self) -> str:
        return new_para_id(self.index.has_id)

    async def add(self, kind: EntityType, name: str, text: str) -> tuple[str, str]:
        stem = slug(name) or slug(kind.name)
        for number in range(1, 1000):
            path = f"{ENTITIES}{kind.folder}/{stem}{'' if number == 1 else f'-{number}'}.md"
            try:
                run = await self.vault.edit_all(
                    [NoteChange(path, None, text=text)], reason=f"a new {kind.name}: {name[:80]}"
                )
            except ConflictError:
                continue
            await self.look(path)
            return path, run
        raise EditRefusedError(f"There are too many entities called {name[:80]}.")

    async def change(self, path: str, decide: Callable[[Note], NoteRevision]) -> bool:
        """Whether anything changed. Upon others' edits meanwhile it is decided again."""

        async def write() -> bool:
            note = await self.vault.note(path)
            if edits := _edits(note, decide(note)):
                await self.vault.edit(path, edits, base=note.digest)
            return bool(edits)

        is_changed = await retry_on_conflict(write)
        await self.look(path)
        return is_changed

    async def change_all(self, changes: Sequence[NoteChange], *, reason: str) -> str:
        run = await self.vault.edit_all(changes, reason=reason)
        for change in changes:
            await self.look(change.path)
        return run

    async def rewrite(self, path: str, edit: Callable[[str], str]) -> None:
        async def write() -> None:
            try:
                base = await self.vault.digest(path)
                text = await self.vault.read(path)
            except NotFoundError:
                await self.vault.create(path, edit(""))
                return
            if (new := edit(text)) != text:
                await self.vault.write(path, new, base=base)

        await retry_on_conflict(write)
        await self.look(path)

    async def delete(self, path: str) -> None:
        await self.vault.delete(path)
        await self.look(path)


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


def without_private(note: Note) -> str:
    """Its body begins where the note's does, also where the note is private as a whole."""
    visible = visible_to_agents(note.text)
    front = note.text[: note.body_start]
    return visible if visible.startswith(front) else front


def visible_frontmatter(note: Note) -> Mapping[str, object]:
    if visible_to_agents(note.text).startswith(note.text[: note.body_start]):
        return note.frontmatter
    return {key: note.frontmatter[key] for key in _KEYS_OF_PRIVATE if key in note.frontmatter}


def has_private(note: Note) -> bool:
    return without_private(note) != note.text


def read_note(note: Note, types: Types, *, is_whole: bool = False) -> Entity:
    """What the note says; `is_whole`: with its private parts, for a write that is to lose none."""
    return read_entity(
        note.path,
        note.text if is_whole else without_private(note),
        note.frontmatter if is_whole else visible_frontmatter(note),
        body_at=note.body_start,
        digest=note.digest,
        types=types.by_folder,
    )


def is_entity(path: str) -> bool:
    return (
        path.startswith(_ROOT)
        and path.endswith(".md")
        and not is_conflict_copy(path)
        and not _NO_ENTITY.fullmatch(path.rpartition("/")[2])
    )


def is_note(path: str) -> bool:
    return (
        path.endswith(_SUFFIXES)
        and not path.startswith(_PROPOSED)
        and not is_entity(path)
        and not is_conflict_copy(path)
    )


def _text_of(entity: Entity) -> NoteText:
    return NoteText(
        path=entity.path,
        title=entity.name,
        aliases=[*entity.names[1:], *entity.tags, entity.description],
        body=entity.body,
        digest=entity.digest,
        is_entity=True,
    )


def _texts_of_note(note: Note) -> list[NoteText]:
    visible = without_private(note)
    body = visible[note.body_start :]
    if visible != note.text and not body.strip():
        return []
    return [
        NoteText(
            path=note.path,
            title=note.title if note.title in visible else stem_of(note.path),
            aliases=note.tags if visible == note.text else (),
            body=body,
            digest=note.digest,
        )
    ]


def _fault(note: Note) -> str:
    front = note.text[: note.body_start]
    if front and not note.frontmatter and _IS_SAID.search(front.removeprefix("\ufeff")):
        return "its frontmatter is not `key: value` lines of YAML"
    if not front and note.text.removeprefix("\ufeff").startswith(("---\n", "---\r\n")):
        return "it begins with a line --- but no second one closes the frontmatter"
    return ""
