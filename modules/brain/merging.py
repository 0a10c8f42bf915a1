"""Merging: two entities that are one, as changes of the notes concerned. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

from parachuted.modules import AppendSection, Note, NoteChange, NoteEdit, ReplaceSpan, SetKey

from .compose import texts_in, union
from .entity import OWN_KEYS, Entity, Json
from .entity_index import FORMER_IDS

_LISTED: Final = ("relationships", "facts")
_ROOT: Final = "Brain/"


def merged(keep: tuple[Entity, Note], other: tuple[Entity, Note]) -> list[NoteEdit]:
    """What the file of `keep` takes over: all that it does not say itself."""
    (kept, note), (gone, gone_note) = keep, other
    edits: list[NoteEdit] = [
        SetKey("aliases", union(kept.aliases, [one for one in gone.names if one != kept.name]))
    ]
    if set(gone.tags) - set(kept.tags):
        edits.append(SetKey("tags", union(kept.tags, gone.tags)))
    former = [*texts_in(kept.fields.get(FORMER_IDS)), *texts_in(gone.fields.get(FORMER_IDS))]
    if gone.para_id:
        former.append(gone.para_id)
    if former:
        edits.append(SetKey(FORMER_IDS, union(former)))
    rest = [_rest(gone_note, gone.name)]
    for key, value in _fields(gone):
        if not note.frontmatter.get(key):
            edits.append(SetKey(key, value))
        elif note.frontmatter[key] != value:
            rest.insert(0, f"- {key}: {value}")
    for name in _LISTED:
        section, mine = gone_note.section(name), note.section(name)
        held = set(mine.content(note).splitlines()) if mine else set()
        lines = section.content(gone_note).splitlines() if section else []
        if new := "\n".join(line for line in lines if line not in held).strip():
            edits.append(AppendSection(name.title(), new))
    if text := "\n\n".join(part for part in rest if part.strip()):
        end = len(note.text)
        gap = "\n" if note.text.endswith("\n") else "\n\n"
        edits.append(ReplaceSpan(end, end, f"{gap}## From {gone.name}\n\n{text}\n"))
    return edits


def relinked(note: Note, old: str, new: str, target: str) -> NoteChange | None:
    """The note with its links to `old` leading to `new`; `target` is how a wikilink names that."""
    edits = []
    for link in note.links:
        if link.path != old:
            continue
        text = target
        if link.kind == "markdown":
            near = posixpath.relpath(new, posixpath.dirname(note.path) or ".")
            text = quote(near)
        elif link.kind == "wiki" and link.label is None and not note.path.startswith(_ROOT):
            is_alone = note.text.startswith("]]", link.end)
            text = f"{target}|{link.target.rpartition('/')[2]}" if is_alone else target
        edits.append(ReplaceSpan(link.start, link.end, text))
    return NoteChange(note.path, edits, note.digest) if edits else None


def _fields(entity: Entity) -> Iterator[tuple[str, str | int | float | list[str]]]:
    held: Mapping[str, Json] = {
        **{key: getattr(entity, key) for key in ("status", "description")},
        **entity.fields,
    }
    for key, value in held.items():
        if key == FORMER_IDS or key in OWN_KEYS - {"status", "description"}:
            continue
        if isinstance(value, str | int | float) and value != "":
            yield key, value
        elif isinstance(value, list | tuple) and value and all(map(_is_text, value)):
            yield key, [str(one) for one in value]


def _rest(note: Note, name: str) -> str:
    cut: list[tuple[int, int]] = []
    for section in note.sections:
        if section.level == 1 and section.heading == name:
            cut.append((section.start, section.body))
        elif section.heading.casefold() in _LISTED and section == note.section(section.heading):
            cut.append((section.start, section.end))
    parts, at = [], note.body_start
    for start, end in sorted(cut):
        if start >= at:
            parts.append(note.text[at:start])
            at = end
    return "".join([*parts, note.text[at:]]).strip("\r\n")


def _is_text(value: Json) -> bool:
    return isinstance(value, str | int | float)
