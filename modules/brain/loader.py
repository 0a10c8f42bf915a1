"""Loader: reads the vault's notes into the view, and follows their changes."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.modules import (
    Finding,
    Note,
    VaultAccess,
    is_conflict_copy,
    reading,
    visible_to_agents,
)

from . import type_file
from .entity import Entity, read_entity, retyped, stem_of
from .entity_index import EntityIndex
from .graph import Graph
from .recall_index import RecallIndex
from .type_file import DEFAULTS, Types

ROOT: Final = "Brain/"
_NO_ENTITY = re.compile(r"(?:AGENTS|CLAUDE)\.md", re.IGNORECASE)
_SUFFIXES = (".md", ".markdown")
_PROPOSED = "Suggestions/"  # what no person has approved answers no question
_IS_SAID = re.compile(r"^(?!---|\.\.\.|#|\s*$)", re.MULTILINE)
_AT_ONCE = 500
_PAGE = 1_000
_PREVIEW = 300  # characters of a text that are kept in memory, for lists
_KEYS_OF_PRIVATE: Final = ("para_id", "type")  # of an entity that is private as a whole

Change = Literal["created", "updated", "deleted"]


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


@dataclass(slots=True)
class View:
    """`faults` are the files of entities that could not be read whole, by path."""

    recall: RecallIndex
    types: Types = DEFAULTS
    faults: dict[str, Finding] = field(default_factory=dict)
    index: EntityIndex = field(default_factory=EntityIndex)

    @property
    def graph(self) -> Graph:
        return Graph(self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    path: str
    title: str
    besides: Sequence[str]
    body: str
    digest: str
    is_entity: bool


class Loader:
    """`has_notes` is set when notes that are no entities are read, too."""

    def __init__(
        self, vault: VaultAccess, view: View, tell: Callable[[Change, Entity], None]
    ) -> None:
        """`tell` is called with each change of an entity's file but those that a load finds."""
        self._vault, self._view, self._tell = vault, view, tell
        self.is_loaded, self.has_notes = asyncio.Event(), asyncio.Event()
        self.has_new_texts = asyncio.Event()
        self._reading = asyncio.Lock()
        self._new_names: dict[str, set[str]] = {}

    async def load(self) -> None:
        """Read every entity and every type, for one who may read all of them."""
        view = self._view
        async with self._reading, _without_collection():
            view.types = await self._types() or DEFAULTS
            texts: list[_Text] = []
            notes = self._vault.read_notes(f"{ROOT}**/*.md")
            async for note in notes:
                if is_entity(note.path):
                    with self._as_fault(note.path):
                        texts.append(_text_of(self._put(note)))
                if len(texts) == _AT_ONCE:
                    await self._keep(texts)
                    texts = []
            await self._keep(texts)
            for path, said in notes.left_out.items():
                view.faults[path] = Finding(path=path, problem=said)
        self.is_loaded.set()

    async def load_notes(self) -> None:
        try:
            await self._load_notes()
        finally:
            self.has_notes.set()

    async def _load_notes(self) -> None:
        view = self._view
        held = await asyncio.to_thread(view.recall.digests)
        indexed = await self._indexed() if any(map(is_note, held)) else {}
        async with self._reading:
            wanted = {path: None for path in await self._vault.list() if is_note(path)}
            await self._keep(
                [], [path for path in held if path not in wanted and view.index.at(path) is None]
            )
        new = [path for path in wanted if path not in held or held[path] != indexed.get(path)]
        for first in range(0, len(new), _AT_ONCE):
            part = new[first : first + _AT_ONCE]
            async with self._reading:
                texts: list[_Text] = []
                async for note in self._vault.read_notes(part):
                    with reading(note.path, []):  # what cannot be read answers no question
                        texts += _texts_of_note(note)
                await self._keep(texts, part)
        await asyncio.to_thread(view.recall.optimize)

    async def look(self, path: str) -> None:
        if path == type_file.PATH:
            await self._retype()
        elif is_note(path) or is_entity(path):
            async with self._reading:
                before = self._view.index.at(path)
                await self._look(path)
            after = self._view.index.at(path)
            if after is not None and (
                new := set(after.names) - set(before.names if before else ())
            ):
                self._new_names.setdefault(path, set()).update(new)
            if after is None and before is not None:
                self._tell("deleted", before)
            elif after is not None and before is None:
                self._tell("created", after)
            elif after is not None and before is not None and after.digest != before.digest:
                self._tell("updated", after)

    def pop_new_names(self, path: str) -> set[str]:
        return self._new_names.pop(path, set())

    async def follow_move(self, source: str, path: str) -> None:
        before = self._view.index.at(source)
        if before is None or not is_entity(path):
            await self.look(source)
            await self.look(path)
            return
        async with self._reading:
            self._view.index.remove(source)
            self._view.faults.pop(source, None)
            await self._keep([], [source])
            await self._look(path)
        after = self._view.index.at(path)
        if after is None:
            self._tell("deleted", before)
        else:
            self._tell("updated", after)

    async def _indexed(self) -> dict[str, str]:
        """The digest that the vault's index has of each note; none while that is behind."""
        found: dict[str, str] = {}
        cursor = None
        while True:
            page = await self._vault.notes(limit=_PAGE, cursor=cursor)
            found |= {row.path: row.digest for row in page.notes}
            cursor = page.next
            if page.is_indexing:
                return {}
            if cursor is None:
                return found

    async def _types(self) -> Types | None:
        """None where the caller may not read them: one who may will say that they changed."""
        found: list[Finding] = []
        with reading(type_file.PATH, found), suppress(NotFoundError):
            try:
                return type_file.read_types(await self._vault.read(type_file.PATH))
            except ActRefusedError:
                return None
        return replace(DEFAULTS, problems=tuple(one.problem for one in found))

    async def _retype(self) -> None:
        """No entity's file is read: who changed the types may not see all of them."""
        view, types = self._view, await self._types()
        if types is None:
            return
        async with self._reading:
            view.types = types
            for file in view.index.files:
                other = retyped(file, types.by_folder)
                if other is not file:
                    view.index.put(other)

    async def _look(self, path: str) -> None:
        texts: list[_Text] = []
        # what of another note cannot be read answers no question
        reading_it = self._as_fault(path) if is_entity(path) else reading(path, [])
        with reading_it, suppress(NotFoundError):
            try:
                note = await self._vault.note(path)
            except ActRefusedError:  # it is there, and not for this caller
                return
            texts += [_text_of(self._put(note))] if is_entity(path) else _texts_of_note(note)
        if not texts:
            self._view.index.remove(path)
        await self._keep(texts, [path])

    @contextmanager
    def _as_fault(self, path: str) -> Iterator[None]:
        found: list[Finding] = []
        self._view.faults.pop(path, None)
        with reading(path, found):
            yield
        if found:
            self._view.faults[path] = found[0]

    def _put(self, note: Note) -> Entity:
        found = read_note(note, self._view.types)
        if said := _fault(note):
            self._view.faults[note.path] = Finding(path=note.path, problem=said)
        self._view.index.put(replace(found, body=found.body[:_PREVIEW], facts=()))
        return found

    async def _keep(self, texts: Sequence[_Text], paths: Iterable[str] = ()) -> None:
        gone = set(paths) - {text.path for text in texts}
        if texts or gone:
            await asyncio.to_thread(self._index_texts, texts, gone)
            self.has_new_texts.set()

    def _index_texts(self, texts: Iterable[_Text], gone: Iterable[str]) -> None:
        recall = self._view.recall
        with recall.batch():
            for path in gone:
                recall.remove(path)
            for text in texts:
                recall.put(
                    text.path,
                    text.title,
                    text.besides,
                    text.body,
                    text.digest,
                    is_entity=text.is_entity,
                )


@asynccontextmanager
async def _without_collection() -> AsyncIterator[None]:
    """Looking through objects that all stay, for garbage, takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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
        path.startswith(ROOT)
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


def _text_of(entity: Entity) -> _Text:
    return _Text(
        path=entity.path,
        title=entity.name,
        besides=[*entity.names[1:], *entity.tags, entity.description],
        body=entity.body,
        digest=entity.digest,
        is_entity=True,
    )


def _texts_of_note(note: Note) -> list[_Text]:
    visible = without_private(note)
    body = visible[note.body_start :]
    if visible != note.text and not body.strip():
        return []
    return [
        _Text(
            path=note.path,
            title=note.title if note.title in visible else stem_of(note.path),
            besides=note.tags if visible == note.text else (),
            body=body,
            digest=note.digest,
            is_entity=False,
        )
    ]


def _fault(note: Note) -> str:
    front = note.text[: note.body_start]
    if front and not note.frontmatter and _IS_SAID.search(front.removeprefix("\ufeff")):
        return "its frontmatter is not `key: value` lines of YAML"
    if not front and note.text.removeprefix("\ufeff").startswith(("---\n", "---\r\n")):
        return "it begins with a line --- but no second one closes the frontmatter"
    return ""
