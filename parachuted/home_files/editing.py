"""Editing: a change of some values in a YAML text or a home file, with every other byte
as it was.

Comments, order, quotes and line ends stay. The result is read again and compared with what was
meant, so a text that is written in an unusual way is refused, not damaged. No kept library does
this: ruamel.yaml respells spaces, indentation and line ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from parachuted.errors import StorageFailedError
from parachuted.home_files.document import PlainValue, YamlNode, YamlRejectedError, read_document
from parachuted.home_files.private import (
    UntrustedFileError,
    locked,
    mark_at,
    read_private,
    replace_private,
)

Value: TypeAlias = "str | bool | int | float | list[Any] | Mapping[str, Any] | None"
Place: TypeAlias = "tuple[str | int, ...]"
Changes: TypeAlias = "Mapping[Place, Mapping[Any, Any]]"
_Splice: TypeAlias = "tuple[int, int, str]"

REMOVED: Final = object()
_PLAIN = re.compile(r"(?:~?/)?[A-Za-z0-9](?:[A-Za-z0-9_./@+:-]*[A-Za-z0-9_./@+-])?")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class CannotEditError(ValueError):
    """The text is written in a way that allows no such change by program."""


def edit_document(text: str, changes: Changes, *, limit: int) -> str:
    """The text with those values set, or `REMOVED`, by the place of the mapping or list they are
    in; a number past the end of a list appends. What is missing on the way to a place is made.

    Raises CannotEditError, and YamlRejectedError for a text that cannot be read.
    """
    root = read_document(text, limit=limit)
    splices: list[_Splice] = []
    expected = root.plain() if root is not None else None
    for place, values in changes.items():
        parent, found, wanted = root, place, dict(values)
        while (parent := _find(root, found)) is None and found:
            found, wanted = found[:-1], {found[-1]: wanted}
        splices += _splices(text, parent, wanted)
        expected = _with(expected, found, wanted)
    newline = "\r\n" if "\r\n" in text else "\n"
    made, last = text, len(text)
    for start, stop, new in sorted(splices, key=lambda splice: splice[:2], reverse=True):
        if stop > last:
            raise CannotEditError("two changes meet")
        made, last = f"{made[:start]}{new.replace(chr(10), newline)}{made[stop:]}", start
    try:
        result = read_document(made, limit=2 * limit + len(made))
    except YamlRejectedError as error:
        raise CannotEditError(str(error)) from error
    if (result.plain() if result is not None else None) != expected:
        raise CannotEditError("it would mean something else")
    return made


def new_document(value: Mapping[str, Value]) -> str:
    """The text of a new file, between the marks of its beginning and its end."""
    return "\n".join(["---", *_mapping_lines(value, 0), "...", ""])


def spell_text(text: str, *, in_flow: bool = False) -> str:
    """A text on one line of YAML, in quotes where it needs them."""
    if _PLAIN.fullmatch(text) and text.lower() != "null" and not (in_flow and ":" in text):
        return text
    return _UNPRINTABLE.sub(
        lambda sign: f"\\u{ord(sign[0]):04x}", json.dumps(text, ensure_ascii=False)
    )


def _find(root: YamlNode | None, place: Place) -> YamlNode | None:
    node = root
    for key in place:
        node = node.children.get(key) if node is not None else None
    return node


def _splices(
    text: str, parent: YamlNode | None, values: Mapping[str | int, Any]
) -> Iterator[_Splice]:
    if parent is None:
        yield len(text), len(text), _lines_at_end(text, values)
        return
    if parent.text is not None or any(
        isinstance(key, int) == (parent.items is None) for key in values
    ):
        raise CannotEditError("another value is in its place")
    children = parent.children
    removed = {key for key, value in values.items() if value is REMOVED and key in children}
    added = {
        key: value for key, value in values.items() if value is not REMOVED and key not in children
    }
    if removed and (parent.is_flow or (removed == children.keys() and not added)):
        yield _replaced(text, parent, _respelled(text, parent, values, added))
        return
    for key in removed:
        yield _removed(text, children[key], dash="-" if isinstance(key, int) else "")
    for key in children.keys() & values.keys() - removed:
        yield _changed(text, children[key], values[key])
    if added:
        yield from _inserted(text, parent, added)


def _respelled(
    text: str, parent: YamlNode, values: Mapping[Any, Any], added: Mapping[Any, Any]
) -> str:
    """What is in brackets or braces, with those values; the others keep their spelling."""
    is_list = parent.items is not None
    parts = [
        text[node.begin : node.stop]
        if key not in values
        else _flow_inner({key: values[key]}, is_list=is_list)
        for key, node in parent.children.items()
        if values.get(key) is not REMOVED
    ]
    parts += [_flow_inner(added, is_list=is_list)] if added else []
    return f"[{', '.join(parts)}]" if is_list else f"{{{', '.join(parts)}}}"


def _replaced(text: str, node: YamlNode, new: str) -> _Splice:
    """The node's value replaced; one that begins on a line of its own comes up to its key."""
    if node.key_stop is None or "\n" not in text[node.key_stop : node.start]:
        return node.start, node.stop, new
    return _colon(text, node), node.stop, f" {new}"


def _colon(text: str, node: YamlNode) -> int:
    colon = text.find(":", node.key_stop)
    if node.key_stop is None or colon < 0 or text[node.key_stop : colon].strip():
        raise CannotEditError("a key is not followed by its colon")
    return colon + 1


def _changed(text: str, node: YamlNode, value: Value) -> _Splice:
    new = _flow(value, in_flow=node.in_flow)
    if node.in_flow or not (value and isinstance(value, list | Mapping)):
        start, stop, new = _replaced(text, node, new)
        space = " " if start == stop and text[start - 1 : start] in {":", "-"} else ""
        end = "\n" if text[start:stop].endswith("\n") else ""  # a block text ends with its line
        return start, stop, f"{space}{new}{end}"
    end = "\n" if text[node.start : node.stop].endswith("\n") else ""
    return _colon(text, node), node.stop, f"{_after_key(value, _key_column(text, node))}{end}"


def _key_column(text: str, node: YamlNode) -> int:
    return (
        node.begin - text.rfind("\n", 0, node.begin) - 1 - text.startswith("\ufeff", 0, node.begin)
    )


def _removed(text: str, node: YamlNode, *, dash: str) -> _Splice:
    start = text.rfind("\n", 0, node.begin) + 1
    if text[start : node.begin].strip() != dash:
        raise CannotEditError("it does not begin its line")
    return start, _line_stop(text, node.stop), ""


def _line_stop(text: str, at: int) -> int:
    """Where the line ends that `at` is in, or has just ended."""
    if text[at - 1 : at] == "\n":
        return at
    return text.find("\n", at) + 1 or len(text)


def _inserted(text: str, parent: YamlNode, added: Mapping[str | int, Any]) -> Iterator[_Splice]:
    children = list(parent.children.values())
    if parent.is_flow and (children or parent.in_flow or parent.key_stop is None):
        inner = _flow_inner(added, is_list=parent.items is not None)
        at = children[-1].stop if children else parent.start + 1
        yield at, at, f"{', ' if children else ''}{inner}"
        return
    if children:
        at, column = parent.stop, parent.column
    else:
        if parent.key_stop is None:
            raise CannotEditError("it has no key")
        at = parent.stop
        column = _key_column(text, parent) + (2 if parent.items is None else 0)
        if parent.stop > parent.start:
            yield _colon(text, parent), parent.stop, ""
    at = _line_stop(text, at)
    lines = (
        _mapping_lines(added, column)
        if parent.items is None
        else [f"{' ' * column}-{_after_dash(value, column)}" for value in added.values()]
    )
    yield (
        at,
        at,
        "".join([*([] if _is_line_start(text, at) else ["\n"]), *(f"{one}\n" for one in lines)]),
    )


def _is_line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"


def _lines_at_end(text: str, values: Mapping[Any, Any]) -> str:
    start = "" if _is_line_start(text, len(text)) else "\n"
    return start + "".join(f"{line}\n" for line in _mapping_lines(values, 0))


def _mapping_lines(values: Mapping[Any, Any], column: int) -> list[str]:
    return [
        f"{' ' * column}{spell_text(key)}:{_after_key(value, column)}"
        for key, value in values.items()
        if value is not REMOVED
    ]


def _after_key(value: Value, column: int) -> str:
    if value and isinstance(value, Mapping):
        return "".join(f"\n{line}" for line in _mapping_lines(value, column + 2))
    if value and isinstance(value, list):
        return "".join(f"\n{' ' * column}-{_after_dash(one, column)}" for one in value)
    return f" {_flow(value)}"


def _after_dash(value: Value, column: int) -> str:
    if value and isinstance(value, Mapping):
        return f" {chr(10).join(_mapping_lines(value, column + 2)).lstrip(' ')}"
    return f" {_flow(value)}"


def _flow(value: Value, *, in_flow: bool = False) -> str:
    if isinstance(value, str):
        return spell_text(value, in_flow=in_flow)
    if isinstance(value, Mapping):
        return f"{{{_flow_inner(value, is_list=False)}}}"
    if isinstance(value, list):
        return f"[{_flow_inner(dict(enumerate(value)), is_list=True)}]"
    return json.dumps(value)


def _flow_inner(values: Mapping[Any, Any], *, is_list: bool) -> str:
    return ", ".join(
        _flow(value, in_flow=True)
        if is_list
        else f"{spell_text(key, in_flow=True)}: {_flow(value, in_flow=True)}"
        for key, value in values.items()
        if value is not REMOVED
    )


def _with(whole: PlainValue, place: Place, values: Mapping[str | int, Any]) -> PlainValue:
    if place:
        return _with(whole, (), {place[0]: _with(_child(whole, place[0]), place[1:], values)})
    pairs: dict[Any, PlainValue] = (
        dict(enumerate(whole))
        if isinstance(whole, list)
        else dict(whole)
        if isinstance(whole, dict)
        else {}
    )
    for key, value in values.items():
        if value is REMOVED:
            pairs.pop(key, None)
        else:
            pairs[key] = _as_read(value)
    return list(pairs.values()) if isinstance(whole, list) else pairs


def _child(whole: PlainValue, key: str | int) -> PlainValue:
    if isinstance(whole, list) and isinstance(key, int):
        return whole[key]
    return whole[key] if isinstance(whole, dict) and isinstance(key, str) else None


def _as_read(value: Any) -> PlainValue:  # noqa: ANN401  a value of any shape
    if isinstance(value, Mapping):
        return {key: _as_read(one) for key, one in value.items() if one is not REMOVED}
    if isinstance(value, list):
        return [_as_read(one) for one in value]
    return json.dumps(value) if isinstance(value, bool | int | float) else value


class HomeFile:
    """One file of a home. Calls read or write the disk, a few milliseconds at most."""

    def __init__(self, home: Path, name: str, *, limit: int, is_secret: bool = False) -> None:
        self.path, self.limit = home / name, limit
        self._home, self._is_secret = home, is_secret

    def mark(self) -> tuple[int, ...] | None:
        return mark_at(self.path)

    def read(self) -> str | None:
        """Its text; None: there is none.

        Raises UntrustedFileError where others could have changed it or, where it is secret, read
        it.
        """
        return read_private(self.path, self.limit, is_secret=self._is_secret)

    def change(self, edit: Callable[[str | None], str]) -> None:
        """Replace its text, in one step, by what `edit` makes of it; nothing when that is the same.

        Raises UntrustedFileError, also when it would be too large, StorageFailedError, and what
        `edit` raises, having changed nothing.
        """
        try:
            with locked(self._home, f"{self.path.name}.lock"):
                before = self.read()
                text = edit(before)
                if text == before:
                    return
                if len(text.encode()) > self.limit:
                    raise UntrustedFileError(
                        f"{self.path.name} would be larger than {self.limit // 1024} KB; remove "
                        "entries that are no longer needed"
                    )
                replace_private(self.path.resolve(), text.encode())
        except OSError as error:
            raise StorageFailedError(
                f"{self.path.name} could not be written: {error.strerror}", errno=error.errno
            ) from error
