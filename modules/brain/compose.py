"""Compose: the texts of entities and the edits that make two of them one. Pure."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from parachuted.errors import EditRefusedError
from parachuted.modules import AppendSection, Note, NoteChange, NoteEdit, ReplaceSpan, SetKey

from .entity import OWN_KEYS, Entity, Json
from .entity_index import FORMER_IDS

BODY: Final = "body"
RELATIONSHIPS: Final = "relationships"
_LONGEST = 10_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./ -]*[A-Za-z0-9]|[A-Za-z]")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def new_file(para_id: str, kind: str, name: str, data: Mapping[str, Json]) -> str:
    """`data` may have `body` and `relationships`. Raises EditRefusedError."""
    lines = ["---", f"para_id: {para_id}", f"type: {scalar(kind)}"]
    title = " ".join(_CONTROL.sub(" ", name).split())
    if title != name or name.startswith("#") or name.endswith("#"):
        lines.append(f"name: {scalar(name)}")
    for key, value in data.items():
        if key not in {BODY, RELATIONSHIPS} and value is not None:
            lines += key_lines(key, value)
    text = "\n".join([*lines, "---", "", f"# {title}", ""])
    body = data.get(BODY)
    if isinstance(body, str) and body.strip():
        text += f"\n{body.strip()}\n"
    if related := relationship_lines(data.get(RELATIONSHIPS)):
        text += "\n## Relationships\n\n" + "\n".join(related) + "\n"
    return text


def key_lines(key: str, value: Json) -> list[str]:
    if not key or "\n" in key or len(key) > _LONGEST:
        raise EditRefusedError(f"{key[:80]!r} is not a name of a field")
    if isinstance(value, Mapping):
        raise EditRefusedError(
            f"the field {key[:80]} takes a text, a number, true or false, or a list of texts"
        )
    if isinstance(value, list | tuple):
        if not all(isinstance(one, str | int | float) for one in value):
            raise EditRefusedError(f"the list {key[:80]} holds texts and numbers only")
        return [f"{scalar(key)}:", *(f"  - {scalar(one)}" for one in value)] if value else []
    return [f"{scalar(key)}: {scalar(value if isinstance(value, str | int | float) else '')}"]


def scalar(value: str | float) -> str:
    """One value as YAML on one line, which every reader takes for the same text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and "---" not in value:
        return value
    text = json.dumps(value, ensure_ascii=False)
    text = re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda match: f"\\u{ord(match[0]):04x}", text)
    return text.replace("---", "\\u002d--")  # readers of the app's end the frontmatter at it


def relationship_lines(relationships: Json) -> list[str]:
    """Items of `## Relationships`, from lines or mappings of `target` and `label`."""
    found: list[str] = []
    for relationship in relationships if isinstance(relationships, list | tuple) else ():
        if isinstance(relationship, str) and relationship.strip():
            line = " ".join(relationship.split()).removeprefix("- ")
            found.append(f"- {line}" if "[[" in line else f"- [[{line}]]")
        elif isinstance(relationship, Mapping) and isinstance(relationship.get("target"), str):
            label = relationship.get("label")
            found.append(
                link_line(str(relationship["target"]), label if isinstance(label, str) else "")
            )
    return found


def link_line(target: str, label: str = "") -> str:
    label = " ".join(label.split())
    return f"- [[{target}]] - {label}" if label else f"- [[{target}]]"


def without_title(body: str, name: str) -> str:
    first, _, rest = body.lstrip().partition("\n")
    return rest.lstrip("\n") if first.strip() == f"# {name}" else body


def union(first: Iterable[str], *others: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *(one for other in others for one in other)]))


def texts_in(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


_LISTED_SECTIONS: Final = ("relationships", "facts")
_ROOT: Final = "Brain/"


def merged(keep: tuple[Entity, Note], other: tuple[Entity, Note]) -> list[NoteEdit]:
    """What the file of `keep` takes over: all that it does not say itself."""
    (main, note), (gone, gone_note) = keep, other
    edits: list[NoteEdit] = [
        SetKey("aliases", union(main.aliases, [name for name in gone.names if name != main.name]))
    ]
    if set(gone.tags) - set(main.tags):
        edits.append(SetKey("tags", union(main.tags, gone.tags)))
    former = [*texts_in(main.fields.get(FORMER_IDS)), *texts_in(gone.fields.get(FORMER_IDS))]
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
    for name in _LISTED_SECTIONS:
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
        elif section.heading.casefold() in _LISTED_SECTIONS and section == note.section(
            section.heading
        ):
            cut.append((section.start, section.end))
    parts, at = [], note.body_start
    for start, end in sorted(cut):
        if start >= at:
            parts.append(note.text[at:start])
            at = end
    return "".join([*parts, note.text[at:]]).strip("\r\n")


def _is_text(value: Json) -> bool:
    return isinstance(value, str | int | float)
