"""Types in `Brain/types.yaml`, of which an edit changes the lines of one type alone. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from itertools import accumulate
from typing import Final, Literal

import yaml

from parachuted.errors import EditRefusedError, NotFoundError

from .entity import Json
from .words import slug

PATH: Final = "Brain/types.yaml"
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
RESERVED: Final = frozenset({"by_id"})  # a route of that name comes before the type's
_LARGEST: Final = 256 * 1024
_DEEPEST: Final = 32
_BRACKETS = re.compile(r"[\[\]{}]")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./ -]*[A-Za-z0-9]|[A-Za-z]")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
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
        return {one.folder: one.name for one in self.by_name.values()}


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
    found = _load(text)
    if isinstance(found, str):
        return Types(DEFAULTS.by_name, (found,))
    types = found.get("types")
    if not isinstance(types, Mapping):
        return Types(DEFAULTS.by_name, (f"{PATH} has no mapping `types:`",))
    problems: list[str] = []
    read: dict[str, EntityType] = {}
    folders: set[str] = set()
    for name, spec in types.items():
        if not isinstance(name, str) or not NAME.fullmatch(name) or name in RESERVED:
            problems.append(f"{PATH}: {_shown(name)} is not a name of a type, such as recipe")
            continue
        one = _type(name, spec if isinstance(spec, Mapping) else {}, problems)
        if one.folder in folders:
            problems.append(f"{PATH}: two types have the folder {one.folder}")
        folders.add(one.folder)
        read[name] = one
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


def whole_file(types: Iterable[EntityType]) -> str:
    return "types:\n" + "".join(_block(type_, "  ", "\n") for type_ in types)


def with_type(text: str, new: EntityType) -> str:
    """EditRefusedError: the file is not written a type a block."""
    lines, place, indent = _found(text, new.name)
    ending = "\r\n" if "\r\n" in text else "\n"
    block = _block(new, indent, ending)
    if place is None:
        end = _types_end(lines)
        before = "".join(lines[:end])
        before += "" if before.endswith("\n") else ending
        return _checked(text, before + block + "".join(lines[end:]), new.name)
    return _checked(text, "".join(lines[: place[0]]) + block + "".join(lines[place[1] :]), new.name)


def without_type(text: str, name: str) -> str:
    """Raises NotFoundError, EditRefusedError."""
    lines, place, _ = _found(text, name)
    if place is None:
        raise NotFoundError(f"There is no type {name}.")
    return _checked(text, "".join([*lines[: place[0]], *lines[place[1] :]]), name)


def _load(text: str) -> Mapping[object, object] | str:
    if len(text) > _LARGEST:
        return f"{PATH} is larger than {_LARGEST >> 10} KB and was not read"
    depths = accumulate(1 if one in "[{" else -1 for one in _BRACKETS.findall(text))
    if max(depths, default=0) > _DEEPEST:  # of which PyYAML takes seconds
        return f"{PATH} is nested too deeply and was not read"
    try:
        found = yaml.load(text.removeprefix("\ufeff"), Loader=yaml.BaseLoader)  # noqa: S506  it makes texts only
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        return f"{PATH} is not YAML{where}; the default types hold until that is put right"
    if not isinstance(found, Mapping):
        return f"{PATH} has no mapping `types:`"
    return found


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


def _block(one: EntityType, indent: str, ending: str) -> str:
    lines = [f"{indent}{one.name}:"]
    for key in ("icon", "folder", "description", "key_strategy"):
        value = getattr(one, key)
        if value:
            lines.append(f"{indent * 2}{key}: {scalar(value)}")
    if all(field == _plain_field(field.name) for field in one.fields):
        names = ", ".join(scalar(field.name) for field in one.fields)
        lines.append(f"{indent * 2}fields: [{names}]")
    else:
        lines.append(f"{indent * 2}fields:")
        lines += [f"{indent * 3}{scalar(field.name)}: {_spec(field)}" for field in one.fields]
    return "".join(line + ending for line in lines)


def _spec(field: TypeField) -> str:
    found: dict[str, object] = {"type": field.type}
    if field.required:
        found["required"] = True
    for key in ("values", "link_type", "items", "description"):
        if value := getattr(field, key):
            found[key] = value
    return _escaped(json.dumps(found, ensure_ascii=False))


def scalar(value: str | float) -> str:
    """One value as YAML on one line, which every reader takes for the same text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and "---" not in value:
        return value
    return _escaped(json.dumps(value, ensure_ascii=False))


def _escaped(text: str) -> str:
    """JSON without what readers of YAML or of the app's take for something else."""
    text = re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.replace("---", "\\u002d--")


def _found(text: str, name: str) -> tuple[list[str], tuple[int, int] | None, str]:
    """The lines of the file, those of the type, and how deep types are indented."""
    lines = text.splitlines(keepends=True)
    start = _types_line(lines)
    indent = ""
    first: int | None = None
    for number in range(start + 1, len(lines)):
        bare = lines[number].rstrip("\r\n")
        if not bare.strip() or bare.lstrip().startswith("#"):
            continue
        depth = bare[: len(bare) - len(bare.lstrip(" "))]
        if not depth:
            return lines, None if first is None else (first, _end(lines, number)), indent or "  "
        indent = indent or depth
        if depth == indent:
            if first is not None:
                return lines, (first, _end(lines, number)), indent
            key = bare.strip().partition(":")[0].strip().strip("\"'")
            first = number if key == name else None
    return lines, None if first is None else (first, _end(lines, len(lines))), indent or "  "


def _end(lines: list[str], number: int) -> int:
    """Blank lines and comments before the next block belong to that."""
    while number and (not lines[number - 1].strip() or lines[number - 1].lstrip().startswith("#")):
        number -= 1
    return number


def _types_line(lines: list[str]) -> int:
    for number, line in enumerate(lines):
        if re.fullmatch(r"\ufeff?types[ \t]*:[ \t]*(?:#.*)?\r?\n?", line):
            return number
    raise EditRefusedError(
        f"{PATH} has no line `types:` with a block below it; put that right first"
    )


def _types_end(lines: list[str]) -> int:
    number = _types_line(lines) + 1
    while number < len(lines) and (lines[number][:1] in {" ", "#"} or not lines[number].strip()):
        number += 1
    return _end(lines, number)


def _checked(before: str, after: str, name: str) -> str:
    old, new = _load(before), _load(after)
    if isinstance(old, str) or isinstance(new, str):
        raise EditRefusedError(old if isinstance(old, str) else str(new))

    def others(found: Mapping[object, object]) -> list[object]:
        types = found.get("types") or {}
        rest = {key: value for key, value in found.items() if key != "types"}
        held = types.items() if isinstance(types, Mapping) else ()
        return [rest, *(pair for pair in held if pair[0] != name)]

    if others(old) != others(new):
        raise EditRefusedError(f"{PATH} is not written a type a block, so {name} cannot be changed")
    return after
