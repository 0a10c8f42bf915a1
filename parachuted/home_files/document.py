"""Document: YAML as texts, lists and mappings that know their lines, within fixed limits. Only
events are read, so no object is built, no alias is followed, and `no` stays a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TypeAlias

import yaml

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
