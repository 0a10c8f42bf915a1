"""Document: YAML of the home as texts, lists and mappings that know their lines, and changes of it.

Only events are read, within fixed limits, so no object is built, no alias is followed, and `no`
stays a text. A change goes by ruamel.yaml's round trip: comments, order and quotes stay. The result
is read again and compared with what was meant, so a text that is written in an unusual way is
refused, not damaged.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from parachuted.errors import storage_errors
from parachuted.home_files.private import (
    UntrustedFileError,
    locked,
    mark_at,
    read_private,
    replace_private,
)
from parachuted.texts.yaml_events import MAX_BYTES, YamlRefusal, parse_events

PlainValue: TypeAlias = "str | list[PlainValue] | dict[str, PlainValue] | None"

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
BOM = "\ufeff"


class YamlRejectedError(ValueError):
    """The text is not YAML, or more of it than is read. `line` is from 1; None: no single one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlNode:
    """`line`, from 1, is that of its key, if any; `word` is a scalar as written without quotes."""

    line: int
    text: str | None = None
    word: str | None = None
    items: tuple[YamlNode, ...] | None = None
    entries: tuple[tuple[str, YamlNode], ...] | None = None

    @property
    def is_nothing(self) -> bool:
        return self.text is None and self.items is None and self.entries is None

    @property
    def children(self) -> Mapping[str | int, YamlNode]:
        """Its entries by key, the last of each, or its items by number."""
        return dict(self.entries or ()) if self.items is None else dict(enumerate(self.items))

    def plain(self) -> PlainValue:
        if self.entries is not None:
            return {key: node.plain() for key, node in self.entries}
        return [node.plain() for node in self.items] if self.items is not None else self.text


def read_document(text: str, *, limit: int = MAX_BYTES, is_strict: bool = False) -> YamlNode | None:
    """None when it says nothing. Raises YamlRejectedError. `is_strict` refuses repeated keys, and
    what may be cut off and so lack what narrows a right: the last line needs its end, and a text
    that begins with `---` needs `...`.
    """
    if is_strict and not text.endswith("\n"):
        raise YamlRejectedError("it is cut off: its last line has no end")
    if is_strict and text.startswith("---") and not text.rstrip().endswith("\n..."):
        raise YamlRejectedError("it is cut off: no `...` ends it")
    try:
        events = iter(parse_events(text.removeprefix(BOM), limit=limit, most=limit))
    except YamlRefusal as refusal:
        raise YamlRejectedError(f"it {refusal.reason}", refusal.line) from refusal
    first = next(events, None)
    return None if first is None else _node(first, events, is_strict=is_strict)


def _node(event: yaml.Event, events: Iterator[yaml.Event], *, is_strict: bool) -> YamlNode:
    """The value that begins with `event`. Recursion is safe: the depth is bounded already."""
    line = event.start_mark.line + 1 if event.start_mark else 1
    if isinstance(event, yaml.ScalarEvent):
        text = str(event.value)
        is_word = not event.style and event.tag is None
        return YamlNode(
            line=line,
            text=None if is_word and text in _NULLS else text,
            word=text if is_word else None,
        )
    inside = iter(lambda: next(events), None)
    if isinstance(event, yaml.SequenceStartEvent):
        items = [
            _node(item, events, is_strict=is_strict)
            for item in takewhile(lambda item: not isinstance(item, yaml.SequenceEndEvent), inside)
        ]
        return YamlNode(line=line, items=tuple(items))
    entries: list[tuple[str, YamlNode]] = []
    for key in takewhile(lambda key: not isinstance(key, yaml.MappingEndEvent), inside):
        name, key_line = _key(_node(key, events, is_strict=is_strict))
        if is_strict and name in dict(entries):
            raise YamlRejectedError(f"the key {name[:80]!r} is repeated", key_line)
        value = _node(next(events), events, is_strict=is_strict)
        entries.append((name, replace(value, line=key_line)))
    return YamlNode(line=line, entries=tuple(entries))


def _key(key: YamlNode) -> tuple[str, int]:
    name = key.word if key.text is None else key.text
    if name is None:
        raise YamlRejectedError("a key should be a word", key.line)
    if key.word == "<<":
        raise YamlRejectedError("it merges mappings with <<, which is not read", key.line)
    return name, key.line


Value: TypeAlias = "str | bool | int | float | list[Any] | Mapping[str, Any] | None"
Place: TypeAlias = "tuple[str | int, ...]"
Changes: TypeAlias = "Mapping[Place, Mapping[Any, Any]]"

REMOVED: Final = object()
_NULL = "tag:yaml.org,2002:null"
_NULL_TAGS = [(_NULL, re.compile("^(?:~|null|Null|NULL|)$"))]
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_UNDER_KEY = re.compile(
    r"^( *)[^\s#-][^\n]*:[ \t]*(?:#.*)?\n(?:\s*#.*\n)*( *)(- )?\S", re.MULTILINE
)


def edit_document(text: str, changes: Changes, *, limit: int) -> str:
    """The text with those values set, or `REMOVED`, by the place of their mapping or list, which is
    made if missing; a number past the end of a list appends. Raises YamlRejectedError, also where
    the text is written in a way that allows no such change by program.
    """
    root = read_document(text, limit=limit)
    expected = _changed(_as_read(root.plain() if root is not None else None), changes)
    plain_text = text.removeprefix(BOM).replace("\r\n", "\n")
    try:
        if root is None:
            end = "" if plain_text.endswith("\n") or not plain_text else "\n"
            edited = f"{plain_text}{end}{_dump(expected)}"
        else:
            edited = _edit(plain_text, changes)
        result = read_document(edited, limit=2 * limit + len(edited))
    except ValueError as error:
        raise YamlRejectedError(str(error).partition("\n")[0]) from error
    if (result.plain() if result is not None else None) != expected:
        raise YamlRejectedError("it would mean something else")
    edited = edited.replace("\n", "\r\n") if "\r\n" in text else edited
    return f"{BOM if text.startswith(BOM) else ''}{edited}"


def new_document(value: Mapping[str, Value]) -> str:
    """The text of a new file, between the marks of its beginning and its end."""
    return _dump(_as_read(value), has_start=True, has_end=True)


def _edit(text: str, changes: Changes) -> str:
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415  loaded where a file is changed

    try:
        edited = _dump(
            _changed(_round_trip().load(text), changes),
            like=text,
            has_start=re.search("^---", text, re.MULTILINE) is not None,
            has_end=re.search("^\\.\\.\\.", text, re.MULTILINE) is not None,
        )
    except YAMLError as error:
        raise ValueError(str(error)) from error
    # ruamel.yaml drops the comments below an entry along with it
    lost = Counter(_comments(text)) - Counter(_comments(edited))
    return edited + "".join(f"{comment}\n" for comment in lost.elements())


def _comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.lstrip().startswith("#")]


def _dump(
    document: object, *, like: str = "", has_start: bool = False, has_end: bool = False
) -> str:
    yaml, text = _round_trip(), StringIO()
    yaml.explicit_start, yaml.explicit_end = has_start, has_end
    steps = [(len(match[2]) - len(match[1]), bool(match[3])) for match in _UNDER_KEY.finditer(like)]
    mapping = next((step for step, is_item in steps if step > 0 and not is_item), 2)
    offset = next((step for step, is_item in steps if step >= 0 and is_item), 0)
    yaml.indent(mapping=mapping, sequence=offset + 2, offset=offset)
    yaml.dump(document, text)
    return text.getvalue()


def _round_trip() -> Any:  # noqa: ANN401  ruamel.yaml's own hints say no more
    from ruamel.yaml import YAML  # noqa: PLC0415  loaded where a file is changed
    from ruamel.yaml.resolver import VersionedResolver  # noqa: PLC0415

    class Resolver(VersionedResolver):
        @property
        def versioned_resolver(self) -> dict[str, Any]:
            return dict.fromkeys(("~", "n", "N", ""), _NULL_TAGS)

    yaml = YAML(typ="rt")
    yaml.Resolver = Resolver
    yaml.preserve_quotes, yaml.width = True, sys.maxsize
    return yaml


def _changed(document: Any, changes: Changes) -> Any:  # noqa: ANN401
    holder = _as_read({"root": document})
    for place, values in changes.items():
        target = holder
        for key in ("root", *place):
            if key not in _keys(target, key) or target[key] is None:
                _set(target, key, _as_read({}))
            target = target[key]
            if not isinstance(target, list | dict):
                raise YamlRejectedError("another value is in its place")
        for key, value in values.items():
            if value is not REMOVED:
                _set(target, key, _as_read(value))
        for key in sorted((key for key in values if values[key] is REMOVED), reverse=True):
            _remove(target, key)
    return holder["root"]


def _set(target: Any, key: str | int, value: object) -> None:  # noqa: ANN401
    keys = _keys(target, key)
    last = key if key in keys else keys[-1] if keys else None
    below = "" if last is None else _take_comment_below(target, last)
    if isinstance(target, list) and key not in keys:
        target.append(value)
        key = len(keys)
    else:
        target[key] = value
    _put_comment_below(target, key, below)


def _remove(target: Any, key: str | int) -> None:  # noqa: ANN401
    keys = _keys(target, key)
    if key not in keys:
        return
    below, at = _take_comment_below(target, key), keys.index(key)
    del target[key]
    if at > 0:
        _put_comment_below(target, keys[at - 1], below)


def _keys(target: Any, key: str | int) -> list[Any]:  # noqa: ANN401
    if isinstance(key, int) != isinstance(target, list):
        raise YamlRejectedError("another value is in its place")
    return [*range(len(target))] if isinstance(target, list) else [*target]


def _take_comment_below(target: Any, key: str | int) -> str:  # noqa: ANN401
    """The comments below an entry, which are rather about the next one, taken from it."""
    holder, key, at = _last_line(target, key)
    tokens = holder.ca.items.get(key)
    if not tokens or tokens[at] is None:
        return ""
    beside, _, below = ("\n" * _is_block(holder[key]) + tokens[at].value).partition("\n")
    if beside:
        tokens[at].value = f"{beside}\n"
    else:
        tokens[at] = None
    return str(below)


def _put_comment_below(target: Any, key: str | int, below: str) -> None:  # noqa: ANN401
    from ruamel.yaml.error import CommentMark  # noqa: PLC0415
    from ruamel.yaml.tokens import CommentToken  # noqa: PLC0415

    holder, key, at = _last_line(target, key)
    if below:
        tokens = holder.ca.items.setdefault(key, [None] * 4)
        if tokens[at] is None:
            beside = "" if _is_block(holder[key]) else "\n"
            tokens[at] = CommentToken(beside, CommentMark(0), None)
        tokens[at].value += below


def _is_block(value: object) -> bool:
    return getattr(value, "style", None) in {"|", ">"}


def _last_line(target: Any, key: str | int) -> tuple[Any, str | int, int]:  # noqa: ANN401
    """Where ruamel.yaml keeps the comment after an entry: holder, key, and which token."""
    while isinstance(target[key], list | dict) and target[key] and not target[key].fa.flow_style():
        target = target[key]
        key = len(target) - 1 if isinstance(target, list) else next(reversed(target))
    return target, key, 0 if isinstance(target, list) else 2


def _as_read(value: Any) -> Any:  # noqa: ANN401  a value of any shape
    from ruamel.yaml.comments import CommentedMap, CommentedSeq  # noqa: PLC0415
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, PlainScalarString  # noqa: PLC0415

    if isinstance(value, CommentedMap | CommentedSeq):
        return value
    if isinstance(value, Mapping):
        pairs = value.items()
        return CommentedMap((_as_read(k), _as_read(v)) for k, v in pairs if v is not REMOVED)
    if isinstance(value, list):
        return CommentedSeq(_as_read(item) for item in value)
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str):
        return value
    is_quoted = value == "<<" or _UNPRINTABLE.search(value)
    return (DoubleQuotedScalarString if is_quoted else PlainScalarString)(value)


class HomeFile:
    """One file of a home. Calls read or write the disk, a few milliseconds at most."""

    def __init__(
        self,
        home: Path,
        name: str,
        *,
        limit: int,
        is_secret: bool = False,
        may_be_shared: bool = False,
    ) -> None:
        """Others may not read it where it `is_secret`, nor change it, unless it `may_be_shared`."""
        self.path, self.limit = home / name, limit
        self._home = home
        self._read = partial(read_private, is_secret=is_secret, may_be_shared=may_be_shared)

    def mark(self) -> tuple[int, ...] | None:
        return mark_at(self.path)

    def read(self) -> str | None:
        """None: there is none. UntrustedFileError where others could have changed or read it."""
        return self._read(self.path, self.limit)

    def change(self, edit: Callable[[str | None], str]) -> None:
        """Replace its text, in one step, by what `edit` makes of it. Raises UntrustedFileError,
        also when it would be too large, StorageFailedError, and what `edit` raises, having changed
        nothing.
        """
        name = self.path.name
        with storage_errors(f"{name} could not be written"), locked(self._home, f"{name}.lock"):
            before = self.read()
            text = edit(before)
            if text == before:
                return
            if len(text.encode()) > self.limit:
                raise UntrustedFileError(
                    f"{name} is larger than {self.limit // 1024} KB; remove entries"
                )
            self._home.chmod(0o700)
            replace_private(self.path.resolve(), text.encode())
