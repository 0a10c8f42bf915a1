"""Writing: entities, links and types that are made, changed and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final
from weakref import WeakValueDictionary

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import Note, NoteChange, SetKey, interface

from . import compose, type_file
from .compose import BODY, RELATIONSHIPS, link_line, merged, new_file, relinked, union
from .entity import OWN_KEYS, Entity, Json
from .rows import Linked, Merged, Upserted
from .store import EntityStore, NoteRevision, has_private, read_note
from .type_file import (
    DEFAULTS,
    EntityType,
    Types,
    make_type,
    read_types,
    with_type,
    without_type,
)
from .words import fold_name

_ID: Final = "para_id"
_LIMIT_S: Final = 10.0
_RELATIONSHIPS: Final = "Relationships"
_LISTS: Final = ("aliases", "tags")
_CONTROLLED: Final = frozenset({_ID, "type", "@id", "@type", "id", "path"})


class Writer:
    """`limit_s`: how long an entity that is to be made waits for another of its name and type."""

    def __init__(self, store: EntityStore) -> None:
        self.store, self.limit_s = store, _LIMIT_S
        self._being_made = WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    @interface("BrainInterface")
    async def upsert_entity(
        self, entity_type: str, data: Mapping[str, Json], commit_msg: str | None = None
    ) -> Upserted:
        """Write an entity: the one that `data` names by `para_id`, or by its name and type, or a
        new one. Aliases, tags and relationships are added to those that it has.
        """
        del commit_msg  # why a file changed is known by its cause
        text = (_body(data) or "").strip()
        await self.store.ready()
        kind = _kind(self.store.types, entity_type)
        name = _name(data)
        made = self._being_made.setdefault((kind.name, fold_name(name)), asyncio.Lock())
        try:
            async with asyncio.timeout(self.limit_s):
                await made.acquire()
        except TimeoutError as error:  # such as a hook on its making that would make it, too
            raise EditRefusedError(f"{name[:80]} is just being made; try again") from error
        try:
            known = await self._known(kind, name, data)
            if known is None:
                if not name:
                    raise EditRefusedError("an entity needs a name")
                return await self._create(kind, name, data)
        finally:
            made.release()
        if text not in known.body:
            raise EditRefusedError(
                f"{name or known.key} is there and keeps its text; give it another one by PUT "
                f"/api/brain/entities/{known.key}, or leave `body` out"
            )
        rest = {key: value for key, value in data.items() if key != "name"}

        def added(whole: Entity) -> Mapping[str, Json]:
            lists = {
                key: union(getattr(whole, key), _texts(data[key])) for key in _LISTS if key in data
            }
            named = {} if fold_name(name) in map(fold_name, whole.names) else {"name": name}
            return {**rest, **named, **lists}

        await self._update(known, added, is_whole=False)
        return Upserted(
            entity_id=await self.id_of(known.path), path=known.path, created=False, run=None
        )

    async def update_entity(self, entity: str, data: Mapping[str, Json]) -> Entity:
        known = await self.store.read(await self.store.find(entity))
        await self._update(known, lambda _whole: data, is_whole=True)
        return await self.store.read(await self.store.find(known.path))

    @interface("BrainInterface")
    async def delete_entity(self, entity_id: str) -> dict[str, str]:
        """Remove an entity's file. `parachute undo` brings it back."""
        known = await self.store.read(await self.store.find(entity_id))
        await self.store.delete(known.path)
        return {"entity_id": known.key, "path": known.path}

    @interface("BrainInterface")
    async def link(self, path: str, para_id: str, label: str | None = None) -> Linked:
        """Link to an entity: from another one, in its `## Relationships`; from any other note, in
        the `mentions` of its frontmatter. What is linked already stays as it is.
        """
        target = await self.store.read(await self.store.find(para_id))
        source = self.store.index.find(path)
        if source is None:
            return await self._mention(path, target)
        source = await self.store.read(source)
        says = (label or "").strip()
        if source.path == target.path:
            raise EditRefusedError("an entity is not linked to itself")
        line = link_line(await self._target(target), says)

        def related(note: Note) -> NoteRevision:
            is_linked = any(
                self._path_of(relationship.target) == target.path
                and relationship.text
                and says in {"", relationship.label}
                for relationship in read_note(note, self.store.types).relationships
            )
            return NoteRevision(sections={} if is_linked else {_RELATIONSHIPS: [line]})

        linked = await self.store.change(source.path, related)
        return Linked(path=source.path, para_id=target.key, linked=linked)

    async def merge_entities(self, keep: str, other: str) -> Merged:
        main = await self.store.read(await self.store.find(keep))
        gone = await self.store.read(await self.store.find(other))
        if main.path == gone.path:
            raise EditRefusedError("an entity is not merged with itself")
        target = await self._target(main)
        changes: list[NoteChange] = []
        rows = await self.store.vault.backlinks(gone.path)
        paths = list(dict.fromkeys(row.path for row in rows if row.path is not None))
        async for note in self.store.vault.read_notes(paths):
            change = relinked(note, gone.path, main.path, target)
            if change is not None and note.path not in {main.path, gone.path}:
                changes.append(change)
        vault = self.store.vault
        note, gone_note = await vault.note(main.path), await vault.note(gone.path)
        if has_private(note) or has_private(gone_note):
            raise EditRefusedError("One of the two has a private part: join the files by hand.")
        types = self.store.types
        main, gone = read_note(note, types), read_note(gone_note, types)
        own = relinked(note, gone.path, main.path, target)
        edits = merged((main, note), (gone, gone_note))
        if not main.para_id:
            edits.append(SetKey(_ID, self.store.new_id()))
        run = await self.store.change_all(
            [
                NoteChange(main.path, [*edits, *(own.edits or () if own else ())], note.digest),
                *changes,
                NoteChange(gone.path, None),
            ],
            reason=f"merged {gone.name} into {main.name}",
        )
        entity = await self.store.find(main.path)
        return Merged(
            entity_id=entity.key,
            path=entity.path,
            merged_id=gone.key,
            run=run,
            notes=[change.path for change in changes],
        )

    async def _mention(self, path: str, target: Entity) -> Linked:
        await self.store.vault.note(
            path
        )  # it is there, before the entity is given an id for its sake
        para_id = await self.id_of(target.path)

        def mentioning(note: Note) -> NoteRevision:
            mentions = _texts(note.frontmatter.get("mentions"))
            is_there = para_id in mentions
            return NoteRevision(keys={} if is_there else {"mentions": [*mentions, para_id]})

        linked = await self.store.change(path, mentioning)
        return Linked(path=path, para_id=para_id, linked=linked)

    async def set_type(
        self,
        name: str,
        fields: Mapping[str, Json] | list[Json],
        key_strategy: str | None,
        description: str | None,
        *,
        is_new: bool,
    ) -> None:
        said = {"key_strategy": key_strategy, "description": description}
        await self.store.rewrite(
            type_file.PATH, lambda text: _text_with(text, name, fields, **said, is_new=is_new)
        )

    async def types_with(
        self, name: str, fields: Mapping[str, Json] | list[Json], description: str | None
    ) -> tuple[str, str]:
        before = ""
        with suppress(NotFoundError):
            before = await self.store.vault.read(type_file.PATH)
        return before, _text_with(before, name, fields, description=description)

    async def delete_type(self, name: str) -> dict[str, str]:
        await self.store.ready()
        count = sum(entity.type == name for entity in self.store.index)

        def edit(text: str) -> str:
            types = read_types(text) if text else DEFAULTS
            if name not in types.by_name:
                raise NotFoundError(f"There is no type {name[:80]}.")
            if count:
                raise EditRefusedError(
                    f"{count} entities have the type {name}; give them another one first"
                )
            return without_type(text, name)

        await self.store.rewrite(type_file.PATH, edit)
        return {"name": name}

    async def id_of(self, path: str) -> str:
        """One that has none is given one: something is to refer to it."""
        known = await self.store.find(path)
        if known.para_id:
            return known.para_id

        def identified(note: Note) -> NoteRevision:
            return NoteRevision(
                keys={} if note.frontmatter.get(_ID) else {_ID: self.store.new_id()}
            )

        await self.store.change(path, identified)
        return (await self.store.find(path)).key

    async def _known(self, kind: EntityType, name: str, data: Mapping[str, Json]) -> Entity | None:
        said = next((data[key] for key in (_ID, "@id", "id") if data.get(key)), None)
        if isinstance(said, str):
            return await self.store.read(await self.store.find(said))
        same = [
            match.entity
            for match in self.store.index.resolve(name, kind.name)
            if fold_name(name) in map(fold_name, match.entity.names)
        ]
        if len(same) > 1:
            keys = ", ".join(entity.key for entity in same)
            raise EditRefusedError(f"Several are called {name[:80]}; say which by para_id: {keys}")
        return await self.store.read(same[0]) if same else None

    async def _create(self, kind: EntityType, name: str, data: Mapping[str, Json]) -> Upserted:
        para_id = self.store.new_id()
        held = {
            key: value
            for key, value in data.items()
            if key not in _CONTROLLED | {"name", "content"}
        }
        held[BODY] = _body(data)
        path, run = await self.store.add(kind, name, new_file(para_id, kind.name, name, held))
        return Upserted(entity_id=para_id, path=path, created=True, run=run)

    async def _update(
        self, known: Entity, data_of: Callable[[Entity], Mapping[str, Json]], *, is_whole: bool
    ) -> None:
        """Set what differs from the entity with what is private of it, as one write."""
        types = self.store.types

        def updated(note: Note) -> NoteRevision:
            whole = read_note(note, types, is_whole=True)
            data = data_of(whole)
            name = _name(data)
            relationships = {
                relationship.text for relationship in read_note(note, types).relationships
            }
            lines = compose.relationship_lines(data.get(RELATIONSHIPS))
            return NoteRevision(
                keys={
                    **({} if whole.para_id else {_ID: self.store.new_id()}),
                    **_differing(whole, data),
                },
                name=name if name != whole.name else "",
                body=_body(data) if is_whole else None,
                sections={
                    _RELATIONSHIPS: [
                        line for line in lines if line.removeprefix("- ") not in relationships
                    ]
                },
            )

        await self.store.change(known.path, updated)

    def _path_of(self, link: str) -> str:
        entity = self.store.index.linked(link)
        return entity.path if entity else ""

    async def _target(self, entity: Entity) -> str:
        bare = entity.path.removesuffix(".md")
        stem = bare.rpartition("/")[2]
        found = self.store.index.find(stem)
        return stem if found is not None and found.path == entity.path else bare


def _differing(whole: Entity, data: Mapping[str, Json]) -> dict[str, Json]:
    held: dict[str, Json] = dict(whole.fields) | {
        key: getattr(whole, key) for key in OWN_KEYS - {_ID, "type", "name"}
    }
    keys: dict[str, Json] = {}
    for key, value in data.items():
        if key in _CONTROLLED | {"name", BODY, "content", RELATIONSHIPS}:
            continue
        if value is None or value == []:
            keys |= {key: None} if held.get(key) else {}
        elif _plain(held.get(key)) != _plain(value):
            keys[key] = value
    return keys


def _body(data: Mapping[str, Json]) -> str | None:
    text = data.get(BODY, data.get("content"))
    if text is None or isinstance(text, str):
        return text
    raise EditRefusedError("`body` is a text")


def _text_with(
    text: str,
    name: str,
    fields: Mapping[str, Json] | list[Json],
    *,
    key_strategy: str | None = None,
    description: str | None = None,
    is_new: bool | None = None,
) -> str:
    """The file of the types with that type, which `is_new`, or is not; None: either."""
    types = read_types(text) if text else DEFAULTS
    like = types.by_name.get(name)
    if is_new and like is not None:
        raise EditRefusedError(f"There is a type {name} already.")
    if is_new is False and like is None:
        raise NotFoundError(f"There is no type {name[:80]}.")
    made = make_type(name, fields, key_strategy=key_strategy, description=description, like=like)
    if like is None and made.folder in types.by_folder:
        raise EditRefusedError(f"The folder {made.folder} is another type's.")
    return with_type(text, made)


def _kind(types: Types, name: str) -> EntityType:
    kind = types.by_name.get(name)
    if kind is None:
        known = ", ".join(types.by_name)
        raise EditRefusedError(f"There is no type {name[:80]!r}; there are {known}.")
    return kind


def _name(data: Mapping[str, Json]) -> str:
    name = data.get("name") or data.get("title") or ""
    return name.strip() if isinstance(name, str) else ""


def _texts(value: Json) -> list[str]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    found = value if isinstance(value, list | tuple) else ()
    return [str(one) for one in found if isinstance(one, str | int | float)]


def _plain(value: Json) -> Json:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return "" if value is None else str(value) if isinstance(value, int | float) else value
