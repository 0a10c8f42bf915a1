"""Ledger: modules.yaml in the home, which says what was approved.

What cannot be trusted lets nothing run, and says why.

People edit it too. So a change replaces the lines of the keys that it is about, all other bytes
stay, and the result is read again before it is written: where lines cannot be replaced alone, the
entry, and at worst the document, is spelled anew.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from parachuted.errors import NotFoundError, ParachuteError, StorageFailedError
from parachuted.private import UntrustedFileError, locked, mark_at, read_private, replace_private
from parachuted.vault.bounded_yaml import (
    YamlRefusedError,
    YamlValue,
    node_stop,
    read_events,
    read_value,
)

NAME = "modules.yaml"
_ROOT = "modules"
_LIMIT = 64 * 1024
_CONSTANTS: Mapping[str, bool | None] = {
    "true": True,
    "false": False,
    "null": None,
    "~": None,
    "": None,
}
_NUMBER = re.compile(
    r"[-+]?(?:0|[1-9][0-9]{0,300}|(?:0|[1-9][0-9]*)?\.[0-9]+|[0-9]+\.)(?:[eE][-+]?[0-9]{1,3})?"
)
_EMPTY = f"---\n{_ROOT}:\n...\n"

Held: TypeAlias = dict[str, dict[str, Any]]
Plain: TypeAlias = str | bool | list[str] | None


class ModuleRegistryError(ParachuteError):
    """modules.yaml cannot be trusted, so no module runs."""


class ModuleRegistry:
    """modules.yaml of one home. Calls read or write the disk, a few milliseconds at most."""

    def __init__(self, home: Path) -> None:
        self._home, self.path = home, home / NAME

    def mark(self) -> tuple[int, ...] | None:
        """What changes whenever the file does; None: there is none."""
        return mark_at(self.path)

    def load(self) -> Held:
        """The entries by name, all scalars as text but those of `config`; none when there is no
        file. Raises ModuleRegistryError.
        """
        text = self._text()
        return {} if text is None else _read(text)

    def change(self, name: str, values: Mapping[str, Plain]) -> None:
        """Set those keys of that entry, which is made if need be; None takes a key away.

        Raises ModuleRegistryError, StorageFailedError.
        """
        self._write(lambda text: _changed(text, name, values))

    def remove(self, name: str) -> None:
        """Take that entry away.

        Raises NotFoundError, ModuleRegistryError and StorageFailedError.
        """
        self._write(lambda text: _removed(text, name))

    def _text(self) -> str | None:
        try:
            return read_private(self.path, _LIMIT)
        except UntrustedFileError as error:
            raise ModuleRegistryError(f"no module runs: {error}") from error

    def _write(self, change: Callable[[str], str]) -> None:
        try:
            with locked(self._home, "modules.yaml.lock"):
                before = self._text()
                data = change(before or _EMPTY).encode()
                if before is not None and before.encode() == data:
                    return
                if len(data) > _LIMIT:
                    raise ModuleRegistryError(
                        f"{NAME} would be larger than {_LIMIT // 1024} KB; remove modules that "
                        "nobody needs"
                    )
                replace_private(self.path.resolve(), data)
        except OSError as error:
            raise StorageFailedError(
                f"{NAME} could not be written: {error.strerror}", errno=error.errno
            ) from error


def _read(text: str) -> Held:
    """Cut off in the right place, a text would lack what narrows a module.

    So one with the mark of a beginning needs that of an end.
    """
    if not text.endswith("\n"):
        raise _refused("it is cut off: its last line has no end")
    if text.startswith("---") and not text.rstrip().endswith("\n..."):
        raise _refused("it is cut off: no `...` ends it")
    try:
        value, problems = read_value(events) if (events := read_events(text)) else ({}, ())
    except YamlRefusedError as error:
        raise _refused(f"{error.says}{f' (line {error.line})' if error.line else ''}") from error
    if problems:
        raise _refused(problems[0].message.replace("in the frontmatter", "in it"))
    modules = value.get(_ROOT, {}) if isinstance(value, dict) else None
    if modules in ("", "~", "null"):
        return {}
    if not isinstance(modules, dict):
        raise _refused(f"it should hold `{_ROOT}:` with a name and an entry for each module")
    held = {name: {} if entry == "" else entry for name, entry in modules.items()}
    wrong = next((name for name, entry in held.items() if not isinstance(entry, dict)), None)
    if wrong is not None:
        raise _refused(f"the entry of {wrong[:80]!r} is no list of keys")
    return {
        name: _with_config(entry, events, name)
        for name, entry in held.items()
        if isinstance(entry, dict)
    }


def _with_config(
    entry: dict[str, YamlValue], events: list[yaml.Event], name: str
) -> dict[str, Any]:
    """The entry with the values of `config` of the kinds that JSON has.

    What is quoted, or a date, is a text.
    """
    place = _entries(events)[1].get(name)
    config = (
        _places(events, place.value).get("config")
        if place is not None and "config" in entry
        else None
    )
    return (
        entry
        if config is None
        else {
            **entry,
            "config": read_value(events[config.value : config.stop], convert=_plain_scalar)[0],
        }
    )


def _plain_scalar(word: str) -> object:
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if not _NUMBER.fullmatch(word):
        return word
    number = float(word)
    return (
        int(word)
        if re.fullmatch(r"[-+]?[0-9]+", word)
        else number
        if math.isfinite(number)
        else word
    )


def _refused(why: str) -> ModuleRegistryError:
    return ModuleRegistryError(f"no module runs: {NAME} cannot be understood: {why}")


def _changed(text: str, name: str, values: Mapping[str, Plain]) -> str:
    held = _read(text)
    entry = held.get(name, {})
    wanted = {
        key: value
        for key, value in {
            **entry,
            **{key: _as_read(value) for key, value in values.items()},
        }.items()
        if value is not None
    }
    expected: Held = {**held, name: wanted}
    said = {**entry, **values}
    whole = {key: value for key, value in said.items() if value is not None}
    attempts = (
        lambda: _with_keys(text, name, values),
        lambda: _with_entry(text, name, whole),
        lambda: _spelled({**held, name: whole}),
    )
    return _first_right(attempts, expected)


def _removed(text: str, name: str) -> str:
    held = _read(text)
    if name not in held:
        raise NotFoundError(f"{NAME} has no module {name[:80]!r}")
    rest = {other: entry for other, entry in held.items() if other != name}
    return _first_right((lambda: _with_entry(text, name, None), lambda: _spelled(rest)), rest)


def _first_right(attempts: tuple[Callable[[], str | None], ...], expected: Held) -> str:
    for attempt in attempts:
        made = attempt()
        with contextlib.suppress(ModuleRegistryError):
            if made is not None and _read(made) == expected:
                return made
    raise ModuleRegistryError(
        f"{NAME} could not be changed without changing its meaning; change it by hand"
    )


def _as_read(value: Plain) -> YamlValue | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return [*value] if isinstance(value, list) else value


def _inline(value: object) -> str:
    """JSON, which YAML reads the same."""
    return json.dumps(value, ensure_ascii=False)


def _entry_lines(name: str, entry: Mapping[str, object], indent: str) -> list[str]:
    lines = [f"{indent}  {_key(key)}: {_inline(value)}\n" for key, value in entry.items()]
    return [f"{indent}{_key(name)}:\n", *lines] if lines else [f"{indent}{_key(name)}: {{}}\n"]


def _key(key: str) -> str:
    return (
        key
        if re.fullmatch(r"[a-z][a-z0-9_-]*", key)
        and key not in {"null", "true", "false", "yes", "no", "on", "off"}
        else _inline(key)
    )


def _spelled(held: Mapping[str, Mapping[str, object]]) -> str:
    lines = [line for name, entry in held.items() for line in _entry_lines(name, entry, "  ")]
    return "".join(["---\n", f"{_ROOT}:\n", *lines, "...\n"])


class _Place:
    """One key of a mapping and its value: the lines, from the first to behind the last, the column,
    and where in the events.
    """

    def __init__(self, events: list[yaml.Event], at: int) -> None:
        self.value = at + 1
        self.stop = node_stop(events, at + 1)
        mark = events[at].start_mark
        self.first, self.column = (mark.line, mark.column) if mark else (0, 0)
        self.last = (
            max([self.first, *(_last_line(event) for event in events[at + 1 : self.stop])]) + 1
        )


def _last_line(event: yaml.Event) -> int:
    """A block's end is told where the next token is, which says nothing."""
    mark = event.end_mark
    if mark is None or (
        isinstance(event, yaml.CollectionEndEvent)
        and mark.index == (event.start_mark.index if event.start_mark else 0)
    ):
        return 0
    return mark.line if mark.column else mark.line - 1


def _places(events: list[yaml.Event], start: int) -> dict[str, _Place]:
    """The keys of the mapping that begins there, if it is one."""
    found: dict[str, _Place] = {}
    if start >= len(events) or not isinstance(events[start], yaml.MappingStartEvent):
        return found
    at = start + 1
    while not isinstance(key := events[at], yaml.MappingEndEvent):
        place = _Place(events, at)
        if isinstance(key, yaml.ScalarEvent):
            found[str(key.value)] = place
        at = place.stop
    return found


def _entries(events: list[yaml.Event]) -> tuple[_Place | None, dict[str, _Place]]:
    root = _places(events, 0).get(_ROOT)
    return root, _places(events, root.value) if root else {}


def _with_keys(text: str, name: str, values: Mapping[str, Plain]) -> str | None:
    events = read_events(text)
    entry = _entries(events)[1].get(name)
    keys = _places(events, entry.value) if entry else {}
    if entry is None or not keys:
        return None
    lines = text.splitlines(keepends=True)
    column = next(iter(keys.values())).column
    new = [
        f"{' ' * column}{_key(key)}: {_inline(value)}\n"
        for key, value in values.items()
        if key not in keys and value is not None
    ]
    changes = [(entry.last, entry.last, new)]
    for key in values.keys() & keys.keys():
        line = (
            [] if values[key] is None else [f"{' ' * column}{_key(key)}: {_inline(values[key])}\n"]
        )
        changes.append((keys[key].first, keys[key].last, line))
    return _replaced(lines, changes)


def _with_entry(text: str, name: str, entry: Mapping[str, object] | None) -> str | None:
    events = read_events(text)
    root, entries = _entries(events)
    if root is None:
        return None
    lines = text.splitlines(keepends=True)
    column = next((place.column for place in entries.values()), root.column + 2)
    new = [] if entry is None else _entry_lines(name, entry, " " * column)
    place = entries.get(name)
    return _replaced(
        lines, [(place.first, place.last, new) if place else (root.last, root.last, new)]
    )


def _replaced(lines: list[str], changes: list[tuple[int, int, list[str]]]) -> str:
    for first, last, new in sorted(changes, key=lambda change: change[:2], reverse=True):
        lines[first:last] = new
    return "".join(lines)
