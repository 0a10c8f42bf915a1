"""Fields: the kind of each value in an event's data, which decides who may see it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

_LONGEST_ID = 200
_LONGEST_PATH = 4096
_MOST_IDS = 10_000
_WORD_END = re.compile(r"[ /\\]")
_NO_NAMES = frozenset({"", ".", ".."})


class FieldKind(StrEnum):
    """What a field of an event holds; null is allowed for any kind."""

    __hash__ = (
        str.__hash__
    )  # that of Enum is Python code, and kinds are looked up for each field of each event

    PATH = "path"
    """A path of the vault. The event exists only for those for whom the file does."""
    PATHS = "paths"
    """A list of paths. The same holds for each."""
    TEXT = "text"
    """Words from the notes that the event's paths name, as any JSON: for those who may read all of
    these notes.
    """
    TEXTS = "texts"
    """Paths, as with `paths`, and the words from each of these notes: a mapping of lists of
    strings.
    """
    FREE = "free"
    """Words that may quote any note, as any JSON: for those who may read the whole vault."""
    MESSAGE = "message"
    """Words of the event's own module, as any JSON, which may name any note: for those who see all
    that this module tells.
    """
    ID = "id"
    """One word that names something: no blanks, no slashes, at most 200 characters."""
    IDS = "ids"
    """A list of such words."""
    NUMBER = "number"
    FLAG = "flag"
    """True or false."""


PATH_KINDS = frozenset({FieldKind.PATH, FieldKind.PATHS, FieldKind.TEXTS})


HOLDS: Mapping[FieldKind, str] = MappingProxyType(
    {
        FieldKind.PATH: "a path of the vault, such as Daily/today.md",
        FieldKind.PATHS: "a list of paths of the vault",
        FieldKind.TEXT: "words from the notes that the event's paths name",
        FieldKind.TEXTS: "a mapping of paths to lists of words from these notes",
        FieldKind.FREE: "words that may quote any note",
        FieldKind.MESSAGE: "words of the module's own, which quote no note",
        FieldKind.ID: "a word without blanks and slashes, of at most 200 characters",
        FieldKind.IDS: "a list of words without blanks and slashes",
        FieldKind.NUMBER: "a number",
        FieldKind.FLAG: "true or false",
    }
)


_TEXT: Mapping[str, object] = MappingProxyType({"type": "string"})
_TYPES: Mapping[FieldKind, Mapping[str, object]] = MappingProxyType(
    {
        FieldKind.PATH: _TEXT,
        FieldKind.PATHS: {"type": "array", "items": _TEXT},
        FieldKind.TEXT: {},
        FieldKind.TEXTS: {
            "type": "object",
            "additionalProperties": {"type": "array", "items": _TEXT},
        },
        FieldKind.FREE: {},
        FieldKind.MESSAGE: {},
        FieldKind.ID: {**_TEXT, "maxLength": _LONGEST_ID},
        FieldKind.IDS: {"type": "array", "items": _TEXT, "maxItems": _MOST_IDS},
        FieldKind.NUMBER: {"type": "number"},
        FieldKind.FLAG: {"type": "boolean"},
    }
)


def schema_of(kind: FieldKind) -> dict[str, object]:
    """The JSON schema of such a value, which may always be null."""
    found = _TYPES[kind]
    type_ = {"type": [found["type"], "null"]} if found else {}
    return {"description": f"{kind}: {HOLDS[kind]}", **_thawed(found), **type_}


def _thawed(value: Mapping[str, object]) -> dict[str, object]:
    return {name: _thawed(one) if isinstance(one, Mapping) else one for name, one in value.items()}


def fits(kind: FieldKind, value: object) -> bool:
    """Whether the value is of that kind and hides nothing else."""
    return value is None or _FITS[kind](value)


def paths_in(kind: FieldKind, value: object) -> list[str]:
    """The paths that a value of that kind names. ValueError where it is not of that kind."""
    if kind not in PATH_KINDS or value is None:
        return []
    if not _FITS[kind](value):
        raise ValueError(f"it is not what the kind {kind} holds")
    return [value] if isinstance(value, str) else list(value)  # type: ignore[call-overload]  # as `fits` says


def without_words(value: object) -> object:
    """A replacement for quotes that are left out, of the same type, so that readers do
    not break.
    """
    if isinstance(value, str):
        return ""
    if isinstance(value, Mapping):
        return {}
    return [] if isinstance(value, list | tuple) else None


def _is_path(value: object) -> bool:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_PATH:
        return False
    if "\\" in value:
        value = value.replace("\\", "/")
    return _NO_NAMES.isdisjoint(value.split("/")) and "\0" not in value


def _is_id(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _LONGEST_ID
        and value.isprintable()
        and _WORD_END.search(value) is None
    )


def _is_list(value: object, is_one: Callable[[object], bool]) -> bool:
    return isinstance(value, list | tuple) and all(map(is_one, value))


def _are_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        _is_path(path) and _is_list(words, lambda one: isinstance(one, str))
        for path, words in value.items()
    )


_FITS: Mapping[FieldKind, Callable[[object], bool]] = MappingProxyType(
    {
        FieldKind.PATH: _is_path,
        FieldKind.PATHS: lambda value: _is_list(value, _is_path),
        FieldKind.TEXT: lambda _value: True,
        FieldKind.TEXTS: _are_texts,
        FieldKind.FREE: lambda _value: True,
        FieldKind.MESSAGE: lambda _value: True,
        FieldKind.ID: _is_id,
        FieldKind.IDS: lambda value: _is_list(value, _is_id) and len(value) <= _MOST_IDS,  # type: ignore[arg-type]  # it is a list
        FieldKind.NUMBER: lambda value: (
            isinstance(value, int | float) and not isinstance(value, bool)
        ),
        FieldKind.FLAG: lambda value: isinstance(value, bool),
    }
)
