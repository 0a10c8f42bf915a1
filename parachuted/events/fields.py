"""Fields: what the fields of an event's `data` hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

_LONGEST_ID = 200
_LONGEST_PATH = 4096
_MOST_IDS = 10_000
_NO_NAMES = frozenset({"", ".", ".."})


class FieldKind(StrEnum):
    """What a field holds; null is allowed for any kind."""

    PATH = "path"
    PATHS = "paths"
    TEXT = "text"
    TEXTS = "texts"
    ID = "id"
    IDS = "ids"
    NUMBER = "number"
    FLAG = "flag"

    @classmethod
    def _missing_(cls, value: object) -> FieldKind | None:
        return cls.TEXT if value in {"free", "message"} else None  # as older manifests have it


HOLDS: Mapping[FieldKind, str] = MappingProxyType(
    {
        FieldKind.PATH: "a path of the vault, such as Daily/today.md",
        FieldKind.PATHS: "a list of paths of the vault",
        FieldKind.TEXT: "words, as any JSON",
        FieldKind.TEXTS: "a mapping of paths to lists of words from these notes",
        FieldKind.ID: "a word without blanks and slashes, of at most 200 characters",
        FieldKind.IDS: "a list of words without blanks and slashes",
        FieldKind.NUMBER: "a number",
        FieldKind.FLAG: "true or false",
    }
)
_TYPES: Mapping[FieldKind, Mapping[str, object]] = MappingProxyType(
    {
        FieldKind.PATH: {"type": ["string", "null"]},
        FieldKind.PATHS: {"type": ["array", "null"], "items": {"type": "string"}},
        FieldKind.TEXT: {},
        FieldKind.TEXTS: {
            "type": ["object", "null"],
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
        FieldKind.ID: {"type": ["string", "null"], "maxLength": _LONGEST_ID},
        FieldKind.IDS: {
            "type": ["array", "null"],
            "items": {"type": "string", "maxLength": _LONGEST_ID},
            "maxItems": _MOST_IDS,
        },
        FieldKind.NUMBER: {"type": ["number", "null"]},
        FieldKind.FLAG: {"type": ["boolean", "null"]},
    }
)


def schema_of(kind: FieldKind) -> dict[str, object]:
    return {"description": f"{kind}: {HOLDS[kind]}", **_TYPES[kind]}


def fits(kind: FieldKind, value: object) -> bool:
    return value is None or _FITS[kind](value)


def _is_path(value: object) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_PATH:
        return False
    return _NO_NAMES.isdisjoint(value.replace("\\", "/").split("/")) and "\0" not in value


def _is_id(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _LONGEST_ID
        and value.isprintable()
        and not {" ", "/", "\\"} & set(value)
    )


def _is_list(value: object, is_item: Callable[[object], bool], most: int | None = None) -> bool:
    return (
        isinstance(value, list | tuple)
        and all(map(is_item, value[:most]))
        and (most is None or len(value) <= most)
    )


def _are_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _is_path(path) and _is_list(words, lambda word: isinstance(word, str))
        for path, words in value.items()
    )


_FITS: Mapping[FieldKind, Callable[[object], bool]] = MappingProxyType(
    {
        FieldKind.PATH: _is_path,
        FieldKind.PATHS: lambda value: _is_list(value, _is_path),
        FieldKind.TEXT: lambda _value: True,
        FieldKind.TEXTS: _are_texts,
        FieldKind.ID: _is_id,
        FieldKind.IDS: lambda value: _is_list(value, _is_id, _MOST_IDS),
        FieldKind.NUMBER: lambda value: (
            isinstance(value, int | float) and not isinstance(value, bool)
        ),
        FieldKind.FLAG: lambda value: isinstance(value, bool),
    }
)
