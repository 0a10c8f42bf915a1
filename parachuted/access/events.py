"""Event filter: which events exist for a listener, and what of them.

One for the keys of the API, for modules and for hooks. Pure.

The kind of a field decides who gets it. Who may read some paths gets events of those alone:
a file that comes from elsewhere is new there, one that leaves is gone, and an event
that names any other path does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self, TypeAlias

from parachuted.access.paths import is_code, is_hidden
from parachuted.keys import NOWHERE, AccessGrant, Scope, granted
from parachuted.keys.scopes import VAULT

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


Data: TypeAlias = Mapping[str, object]

_CREATED, _MOVED, _DELETED = "file.created", "file.moved", "file.deleted"
_WORDS = frozenset({FieldKind.TEXT, FieldKind.TEXTS, FieldKind.FREE, FieldKind.MESSAGE})


class EventShape(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def scope(self) -> str:
        """The module that a key needs read access to."""
        ...

    @property
    def publisher(self) -> str | None:
        """The module that publishes it; None: the core."""
        ...

    @property
    def fields(self) -> Mapping[str, FieldKind]: ...

    @property
    def path_fields(self) -> Mapping[str, FieldKind]: ...


class EventValues:
    """What is the same for every listener of an event, computed lazily."""

    __slots__ = ("_data", "_is_plain", "_kind", "_paths")

    def __init__(self, kind: EventShape, data: Data) -> None:
        self._kind, self._data = kind, data
        self._paths: EventPaths | None = None
        self._is_plain: bool | None = None

    @property
    def paths(self) -> EventPaths:
        if self._paths is None:
            self._paths = EventPaths.of(self._kind, self._data)
        return self._paths

    @property
    def is_plain(self) -> bool:
        """Whether each value is of its declared kind, and none quotes notes."""
        if self._is_plain is None:
            fields = self._kind.fields
            self._is_plain = all(
                (one := fields.get(name)) is not None and one not in _WORDS and fits(one, value)
                for name, value in self._data.items()
            )
        return self._is_plain


class EventPaths(NamedTuple):
    """The paths that an event names; None where a path field holds something else."""

    named: list[str] | None
    has_hidden: bool
    has_code: bool

    @classmethod
    def of(cls, kind: EventShape, data: Data) -> Self:
        named = paths_named(kind, data)
        return cls(named, any(map(is_hidden, named or ())), any(map(is_code, named or ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """What one listener may hear; equal for listeners who hear the same."""

    scopes: tuple[Scope, ...] = ()
    module: str | None = None
    files: AccessGrant = NOWHERE
    is_everything: bool = False
    _grants: dict[str, AccessGrant | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of_key(cls, scopes: Iterable[Scope]) -> Self:
        """For a key with these scopes: `read` on the event's module, and on `vault` for quoted
        notes.
        """
        return cls(scopes=tuple(scopes))

    @classmethod
    def of_module(cls, name: str, files: AccessGrant) -> Self:
        """For a module that may read these files.

        It hears its own events unchanged, and others as a listener limited to some paths.
        """
        return cls(module=name, files=files)

    @classmethod
    def of_person(cls) -> Self:
        """For a program that a person installed: everything, unchanged."""
        return cls(is_everything=True)

    def heard(
        self, kind: EventShape, data: Data, values: EventValues | None = None
    ) -> tuple[str, Data] | None:
        """The name and the data of the event as the listener may see it, unchanged where nothing is
        left out; or None.

        `values`: the event's, where they are shared with other listeners.
        """
        if self.is_everything or (self.module is not None and kind.publisher == self.module):
            return kind.name, data
        grant = self.files if self.module is not None else self._granted(kind.scope)
        return (
            None
            if grant is None
            else self._within(grant, kind, data, values or EventValues(kind, data))
        )

    def _granted(self, scope: str) -> AccessGrant | None:
        try:
            return self._grants[scope]
        except KeyError:
            return self._grants.setdefault(scope, granted(self.scopes, scope, "read"))

    def _within(
        self, grant: AccessGrant, kind: EventShape, data: Data, values: EventValues
    ) -> tuple[str, Data] | None:
        reads = grant if self.module is not None else self._granted(VAULT) or NOWHERE
        sees_all = self.module is None and grant.alternatives is None
        reads_all = self.module is None and reads.alternatives is None
        named, has_hidden, has_code = values.paths
        if named is None:  # a path in disguise: who may hear of it cannot be said
            return (kind.name, data) if sees_all and reads_all else None
        all_exist = not has_hidden and not (self.module is not None and has_code)
        seen = (
            named
            if all_exist and sees_all
            else [path for path in named if (all_exist or self._exists(path)) and grant.sees(path)]
        )
        name, shown = kind.name, data
        if len(seen) < len(named):
            if kind.name != _MOVED or not seen:
                return None
            name, shown = _moved(data, seen[0])
        elif not named and not sees_all and not self._hears_of_no_path(kind):
            return None
        if (sees_all and reads_all) or values.is_plain:
            return name, shown
        text = reads_all or (bool(seen) and (reads == grant or all(map(reads.sees, seen))))
        may = {
            FieldKind.TEXT: text,
            FieldKind.TEXTS: text,
            FieldKind.FREE: reads_all,
            FieldKind.MESSAGE: sees_all,
        }
        visible = _visible_fields(kind, shown, may)
        return (name, visible) if visible is shown or named or any(visible.values()) else None

    def _exists(self, path: str) -> bool:
        return not is_hidden(path) and not (self.module is not None and is_code(path))

    def _hears_of_no_path(self, kind: EventShape) -> bool:
        """An event without paths may be about any note: a key limited to paths does not hear it,
        and a module only if it quotes no notes.
        """
        return self.module is not None and FieldKind.FREE not in kind.fields.values()


def paths_named(kind: EventShape, data: Data) -> list[str] | None:
    """Every path that the event names; None where a path field holds something else."""
    try:
        return [
            path
            for name, field in kind.path_fields.items()
            for path in paths_in(field, data.get(name))
        ]
    except ValueError:
        return None


def _visible_fields(kind: EventShape, data: Data, may: Mapping[FieldKind, bool]) -> Data:
    """The declared fields with valid values, without quotes that the listener may not read."""
    visible: dict[str, object] = {}
    for name, value in data.items():
        field = kind.fields.get(name)
        if field is None or not fits(field, value):
            continue
        if may.get(field, True):
            visible[name] = value
        elif field is FieldKind.TEXTS and isinstance(value, Mapping):
            visible[name] = {path: [] for path in value}
        else:
            visible[name] = without_words(value)
    return data if visible == data else visible


def _moved(data: Data, seen: str) -> tuple[str, Data]:
    """A move with one visible end: there the file is new, or gone."""
    rest = {name: value for name, value in data.items() if name != "from"}
    return (
        (_CREATED, rest)
        if data.get("path") == seen
        else (_DELETED, {**rest, "path": seen, "digest": None})
    )
