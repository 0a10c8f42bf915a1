"""Types of entities, in `Brain/types.yaml`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Final, Literal

from parachuted.errors import EditRefusedError
from parachuted.modules import REMOVED, YamlRejectedError, edit_yaml, read_yaml

from .entity import Json
from .words import slug

PATH: Final = "Brain/types.yaml"
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
RESERVED: Final = frozenset({"by_id"})  # a route of that name comes before the type's
_LARGEST: Final = 256 * 1024
_COMMON: Final = frozenset({"aliases", "tags", "relationships", "status", "description"})

FieldKind = Literal[
    "string", "integer", "number", "boolean", "date", "datetime", "enum", "array", "link"
]
_KINDS: Mapping[str, FieldKind] = {
    "string": "string",
    "text": "string",
    "str": "string",
    "integer": "integer",
    "int": "integer",
    "number": "number",
    "float": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "date": "date",
    "datetime": "datetime",
    "enum": "enum",
    "array": "array",
    "list": "array",
    "link": "link",
    "entity": "link",
}
_USUAL: Mapping[str, FieldKind] = {
    "aliases": "array",
    "tags": "array",
    "relationships": "array",
    "attendees": "array",
    "date": "date",
}
"""What fields hold that a type names without saying it."""
_YES_NO = frozenset({"true", "false"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeField:
    name: str
    type: str = "string"
    required: bool = False
    values: tuple[str, ...] | None = None
    link_type: str | None = None
    items: str | None = None
    description: str | None = None

    def fault_of(self, value: Json) -> str:
        kind = _KINDS.get(self.type)
        if value is None or value == "":
            return f"`{self.name}` is required" if self.required else ""
        if isinstance(value, list | tuple):
            if kind not in {"array", "link"} and self.name not in _COMMON:
                return f"`{self.name}` should be {_named(kind)} and is a list"
            return ""
        if isinstance(value, Mapping):
            return f"`{self.name}` should be {_named(kind)} and is a mapping"
        if self.values and str(value) not in self.values:
            return f"`{self.name}` should be one of {', '.join(self.values)}, not {value}"
        is_list = kind == "array" and self.name in _COMMON  # a text with commas is one
        return (
            "" if is_list or _fits(kind, str(value)) else f"`{self.name}` should be {_named(kind)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityType:
    """A type: its entities are in the folder `Brain/entities/<folder>/`."""

    name: str
    folder: str
    icon: str = ""
    description: str | None = None
    key_strategy: str | None = None
    fields: tuple[TypeField, ...] = ()


@dataclass(frozen=True, slots=True)
class Types:
    """All types by name, and sentences about what could not be read."""

    by_name: Mapping[str, EntityType]
    problems: tuple[str, ...] = ()

    @property
    def by_folder(self) -> Mapping[str, str]:
        return {entity_type.folder: entity_type.name for entity_type in self.by_name.values()}


def _plain_field(name: str) -> TypeField:
    return TypeField(name=name, type=_USUAL.get(name, "string"))


def _default(name: str, folder: str, icon: str, *fields: str) -> EntityType:
    return EntityType(name=name, folder=folder, icon=icon, fields=tuple(map(_plain_field, fields)))


DEFAULTS: Final = Types(
    {
        one.name: one
        for one in (
            _default("person", "people", "\U0001f464", "aliases", "tags", "relationships"),
            _default(
                "project",
                "projects",
                "\U0001f4c1",
                "status",
                "work_path",
                "agents_path",
                "aliases",
                "tags",
                "relationships",
            ),
            _default("topic", "topics", "\U0001f4a1", "aliases", "tags"),
            _default("resource", "resources", "\U0001f4da", "url", "aliases", "tags"),
            _default(
                "organization",
                "organizations",
                "\U0001f3e2",
                "type",
                "aliases",
                "tags",
                "relationships",
            ),
            _default("event", "events", "\U0001f4c5", "date", "location", "attendees"),
        )
    }
)


def read_types(text: str) -> Types:
    """Faults are reported, what is right is kept; a file that cannot be read has the defaults."""
    try:
        node = read_yaml(text, limit=_LARGEST)
    except YamlRejectedError as error:
        said = f"{PATH}: {error}; the default types hold until that is put right"
        return Types(DEFAULTS.by_name, (said,))
    document = node.plain() if node else None
    types = document.get("types") if isinstance(document, Mapping) else None
    if not isinstance(types, Mapping):
        return Types(DEFAULTS.by_name, (f"{PATH} has no mapping `types:`",))
    problems: list[str] = []
    read: dict[str, EntityType] = {}
    folders: set[str] = set()
    for name, spec in types.items():
        if not NAME.fullmatch(name) or name in RESERVED:
            problems.append(f"{PATH}: {_shown(name)} is not a name of a type, such as recipe")
            continue
        entity_type = _type(name, spec if isinstance(spec, Mapping) else {}, problems)
        if entity_type.folder in folders:
            problems.append(f"{PATH}: two types have the folder {entity_type.folder}")
        folders.add(entity_type.folder)
        read[name] = entity_type
    return Types(read, tuple(problems))


def make_type(
    name: str,
    fields: Mapping[str, Json] | Iterable[Json],
    *,
    key_strategy: str | None = None,
    description: str | None = None,
    like: EntityType | None = None,
) -> EntityType:
    """A type as clients describe it; `like` gives its folder and icon. Raises EditRefusedError."""
    if not NAME.fullmatch(name) or name in RESERVED:
        raise EditRefusedError(
            f"{name[:80]!r} is not a name of a type: use small letters, digits, - and _"
        )
    problems: list[str] = []
    made = _fields(fields, name, problems)
    if problems:
        raise EditRefusedError("; ".join(problems))
    return EntityType(
        name=name,
        folder=like.folder if like else _folder(name),
        icon=like.icon if like else "",
        description=description if description is not None or like is None else like.description,
        key_strategy=key_strategy if key_strategy or like is None else like.key_strategy,
        fields=made,
    )


def default_text() -> str:
    """The file that says what holds where there is none."""
    return _edited("", {one.name: _written(one) for one in DEFAULTS.by_name.values()})


def with_type(text: str, new: EntityType) -> str:
    """EditRefusedError: the file is written in a way that allows no change by program."""
    return _edited(text or default_text(), {new.name: _written(new)})


def without_type(text: str, name: str) -> str:
    """Raises EditRefusedError."""
    return _edited(text or default_text(), {name: REMOVED})


def _edited(text: str, types: Mapping[str, object]) -> str:
    try:
        whole = edit_yaml(text, {("types",): types}, limit=_LARGEST)
        return whole if len(types) > 1 else _with_lines_of(text, whole, *types)
    except YamlRejectedError as error:
        raise EditRefusedError(f"{PATH} was not changed: {error}; put that right first") from error


def _with_lines_of(text: str, whole: str, name: str) -> str:
    """The text with the lines that `whole` has of that type; `whole` where that means another."""
    lines, (start, stop) = _lines_of(text, name)
    new, (begin, end) = _lines_of(whole, name)
    own = "".join([*lines[:start], *new[begin:end], *lines[stop:]])
    with suppress(YamlRejectedError):
        nodes = [read_yaml(one, limit=2 * _LARGEST) for one in (own, whole)]
        return own if nodes[0] and nodes[1] and nodes[0].plain() == nodes[1].plain() else whole
    return whole


def _lines_of(text: str, name: str) -> tuple[list[str], tuple[int, int]]:
    """All lines, and from which to which those of the type are: none behind the last type."""
    lines, root = text.splitlines(keepends=True), read_yaml(text, limit=2 * _LARGEST)
    tops = list(root.entries or ()) if root else []
    at = next((at for at, (key, _) in enumerate(tops) if key == "types"), len(tops))
    after = tops[at + 1][1].line - 1 if at + 1 < len(tops) else len(lines)
    types = [(key, node.line - 1) for key, node in (tops[at][1].entries or ())] if tops[at:] else []
    ends = [*(line for _, line in types[1:]), after]
    for (key, start), end in zip(types, ends, strict=False):
        while end > start + 1 and lines[end - 1].strip()[:1] in {"", "#"}:
            end -= 1  # noqa: PLW2901  what is written between two types is of neither
        after = end
        if key == name:
            return lines, (start, end)
    return lines, (after, after)


def _written(entity_type: EntityType) -> dict[str, object]:
    """The type as the file has it: names of fields alone, where no field says more."""
    keys = ("icon", "folder", "description", "key_strategy")
    said: dict[str, object] = {key: value for key in keys if (value := getattr(entity_type, key))}
    if all(field == _plain_field(field.name) for field in entity_type.fields):
        return {**said, "fields": [field.name for field in entity_type.fields]}
    return {**said, "fields": {field.name: _spec(field) for field in entity_type.fields}}


def _spec(field: TypeField) -> dict[str, object]:
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(field).items()
        if key != "name" and value
    }


def _type(name: str, spec: Mapping[str, Json], problems: list[str]) -> EntityType:
    folder = _word(spec.get("folder")) or _folder(name)
    if "/" in folder or folder.startswith("."):
        problems.append(f"{PATH}: the folder of {name} should be one name, without a slash")
        folder = _folder(name)
    fields = spec.get("fields") or ()
    if not isinstance(fields, list | tuple | Mapping):
        problems.append(f"{PATH}: `fields` of {name} should be a list or a mapping")
        fields = ()
    return EntityType(
        name=name,
        folder=folder,
        icon=_word(spec.get("icon")),
        description=_word(spec.get("description")) or None,
        key_strategy=_word(spec.get("key_strategy")) or None,
        fields=_fields(fields, name, problems),
    )


def _fields(
    fields: Mapping[str, Json] | Iterable[Json], of: str, problems: list[str]
) -> tuple[TypeField, ...]:
    found: list[TypeField] = []
    pairs: Iterable[tuple[object, Json]] = (
        fields.items()
        if isinstance(fields, Mapping)
        else (
            (field.get("name"), field) if isinstance(field, Mapping) else (field, None)
            for field in fields
        )
    )
    for name, spec in pairs:
        if not isinstance(name, str) or not name.strip() or "\n" in name:
            problems.append(f"{of}: {_shown(name)} is not a name of a field")
            continue
        said = {"type": spec} if isinstance(spec, str) and spec else spec
        found.append(_field(name.strip(), said if isinstance(said, Mapping) else {}, of, problems))
    return tuple(found)


def _field(name: str, spec: Mapping[str, Json], of: str, problems: list[str]) -> TypeField:
    values = spec.get("values") or spec.get("enum")
    kind = _word(spec.get("type")) or ("enum" if values else _USUAL.get(name, "string"))
    if kind not in _KINDS:
        problems.append(
            f"{of}: the type {kind[:80]!r} of the field {name} is none of {', '.join(_KINDS)}"
        )
        kind = "string"
    return TypeField(
        name=name,
        type=kind,
        required=str(spec.get("required", "")).lower() in {"true", "yes", "1"},
        values=tuple(str(value) for value in values if isinstance(value, str | int | float))
        if isinstance(values, list | tuple)
        else None,
        link_type=_word(spec.get("link_type")) or None,
        items=_word(spec.get("items")) or None,
        description=_word(spec.get("description")) or None,
    )


def _shown(value: object) -> str:
    """A value in a sentence: of a list or a mapping the kind alone, as aliases may make it huge."""
    return repr(value[:80]) if isinstance(value, str) else f"a {type(value).__name__}"


def _word(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _folder(name: str) -> str:
    return slug(name if name.endswith("s") else f"{name}s")


def _named(kind: FieldKind | None) -> str:
    return {"array": "a list", "integer": "an integer", "enum": "one of its values"}.get(
        kind or "", f"a {kind or 'text'}"
    )


def _fits(kind: FieldKind | None, text: str) -> bool:
    try:
        match kind:
            case "integer":
                int(text)
            case "number":
                float(text)
            case "boolean":
                return text.lower() in _YES_NO
            case "date":
                date.fromisoformat(text)
            case "datetime":
                datetime.fromisoformat(text)
            case "array":
                return False
            case _:
                return True
    except ValueError:
        return False
    return True
