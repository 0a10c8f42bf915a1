"""File: config.yaml as keys with the text of their values, and a change to one of them that leaves
every other byte.

Nothing is read as anything but text here, so YAML's own ideas of `10:30`, `no` and `010` never
arise; settings have types of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from parachuted.errors import ConfigError, StorageFailedError
from parachuted.private import replace_private

NAME = "config.yaml"
_LIMIT = 256 * 1024
_DEPTH = 16
_PLAIN = re.compile(r"(?:~?/)?[A-Za-z0-9](?:[A-Za-z0-9_./@+:-]*[A-Za-z0-9_./@+-])?")
_Mark: TypeAlias = Any  # PyYAML hints two kinds, one of them private
_NULL = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A key, dotted where it is in a section, with its value's text (None: nothing, or a list) and
    its line, from 1.
    """

    key: str
    text: str | None
    line: int
    is_list: bool = False


def read_file(home: Path) -> str:
    """The text of `home`'s config.yaml, empty if there is none.

    Raises ConfigError if it cannot be read.
    """
    try:
        with (home / NAME).open("rb") as file:
            data = file.read(_LIMIT + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError([f"{NAME} cannot be read: {error.strerror}"]) from error
    if len(data) > _LIMIT:
        raise ConfigError([f"{NAME} is larger than {_LIMIT // 1024} KB"])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError([f"{NAME} is not UTF-8 text"]) from error


def write_file(home: Path, text: str) -> None:
    """Replace `home`'s config.yaml, or what it links to, at once and for its owner alone.

    Raises StorageFailedError.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
        replace_private((home / NAME).resolve(), text.encode())
    except OSError as error:
        raise StorageFailedError(
            f"{NAME} could not be written: {error.strerror}", errno=error.errno
        ) from error


def read_entries(text: str) -> list[ConfigEntry]:
    """The entries of the file in their order. Raises ConfigError if it holds none for a reason."""
    return [
        ConfigEntry(
            key=key,
            text=_text(value),
            line=at.line + 1,
            is_list=isinstance(value, yaml.SequenceNode),
        )
        for key, at, value in _walk(_root(text))
        if not isinstance(value, yaml.MappingNode)
    ]


def set_entry(text: str, key: str, value: str) -> str:
    """The file's text with `key` set to `value` (empty: to nothing, so that the default holds), and
    nothing else changed.

    Raises ConfigError if that cannot be done line by line.
    """
    changed = _changed(text, key, _scalar(value))
    empty = ConfigEntry(
        key=key.rpartition(".")[0], text=None, line=0
    )  # a section that had nothing in it is no entry any more
    before = {
        entry.key: entry.text for entry in read_entries(text) if replace(entry, line=0) != empty
    }
    try:
        if {entry.key: entry.text for entry in read_entries(changed)} == before | {
            key: value or None
        }:
            return changed
    except ConfigError:
        pass
    raise ConfigError(
        [f"{NAME} is written in a way that allows no change to one line; set {key} in it by hand"]
    )


def _root(text: str) -> yaml.Node | None:
    try:
        _check(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _refused(
            error.problem_mark, f"this is not YAML: {error.problem or error.context}"
        ) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise _refused(None, f"this is not YAML: {error}") from error
    if isinstance(root, yaml.MappingNode) or root is None or root.tag == _NULL:
        return root
    raise _refused(root.start_mark, "a file of settings has lines of the form `key: value`")


def _check(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _refused(event.start_mark, "settings may not use aliases")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        if depth > _DEPTH:
            raise _refused(event.start_mark, "this is nested too deep")


def _refused(mark: _Mark | None, why: str) -> ConfigError:
    return ConfigError([f"{NAME}{f' line {mark.line + 1}' if mark else ''}: {why}"])


def _walk(node: yaml.Node | None, prefix: str = "") -> Iterator[tuple[str, _Mark, yaml.Node]]:
    for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if not isinstance(name, yaml.ScalarNode):
            raise _refused(name.start_mark, "a key should be a word")
        yield f"{prefix}{name.value}", name.start_mark, value
        yield from _walk(value, f"{prefix}{name.value}.")


def _text(node: yaml.Node) -> str | None:
    return str(node.value) if isinstance(node, yaml.ScalarNode) and node.tag != _NULL else None


def _scalar(value: str) -> str:
    if not value:
        return "null"
    return (
        value
        if _PLAIN.fullmatch(value) and value.lower() != "null"
        else json.dumps(value, ensure_ascii=False)
    )


def _changed(text: str, key: str, scalar: str) -> str:
    places = {name: value for name, _, value in _walk(_root(text))}
    section, _, name = key.rpartition(".")
    if key in places:
        return _replaced(text, places[key], scalar)
    if section not in places:
        return _appended(
            text, [f"{section}:", f"  {name}: {scalar}"] if section else [f"{name}: {scalar}"]
        )
    holder = places[section]
    if not isinstance(holder, yaml.MappingNode):
        return _inserted(
            _replaced(text, holder, ""), holder.start_mark.index, f"  {name}: {scalar}"
        )
    if holder.flow_style:
        return _inserted_in_braces(text, holder, f"{name}: {scalar}")
    return _inserted(
        text,
        holder.value[-1][1].end_mark.index,
        f"{' ' * holder.start_mark.column}{name}: {scalar}",
    )


def _replaced(text: str, node: yaml.Node, scalar: str) -> str:
    start, stop = node.start_mark.index, node.end_mark.index
    space = " " if scalar and start == stop and text[start - 1 : start] == ":" else ""
    end = (
        _newline(text) if scalar and text[start:stop].endswith("\n") else ""
    )  # a block scalar ends with its line
    return f"{text[:start]}{space}{scalar}{end}{text[stop:]}"


def _inserted(text: str, after: int, line: str) -> str:
    """`line` as the line that follows the one that `after` is in, or that it has just ended."""
    if text[after - 1 : after] != "\n":
        end = text.find("\n", after)
        if end < 0:
            return _appended(text, [line])
        after = end + 1
    return f"{text[:after]}{line}{_newline(text)}{text[after:]}"


def _inserted_in_braces(text: str, holder: yaml.MappingNode, pair: str) -> str:
    at = holder.value[-1][1].end_mark.index if holder.value else holder.start_mark.index + 1
    return f"{text[:at]}{', ' if holder.value else ''}{pair}{text[at:]}"


def _appended(text: str, lines: list[str]) -> str:
    newline = _newline(text)
    begun = text if not text or text.endswith("\n") else f"{text}{newline}"
    return begun + "".join(f"{line}{newline}" for line in lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
