"""Document: hooks.yaml as texts, lists and mappings that know their lines, within the limits of the
bounded reader.

YAML's own ideas of `on:` and `no` never arise: every scalar is the text it was. JSON is read too,
as a person pastes it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import yaml

from parachuted.vault.bounded_yaml import YamlRefusedError, plain_text, read_events

_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_BREAKS = re.compile(
    "[\x7f-\x9f\u2028\u2029\ufeff]"
)  # what ends a line in YAML, or may not stand in it at all
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlNode:
    """A value and the line, from 1, that it or its key stands on."""

    line: int
    text: str | None = None
    items: tuple[YamlNode, ...] | None = None
    entries: tuple[tuple[str, YamlNode], ...] | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether it says nothing at all."""
        return self.text is None and self.items is None and self.entries is None

    def plain(self) -> object:
        """The same without the lines; of a key given twice the last counts."""
        if self.entries is not None:
            return {key: node.plain() for key, node in self.entries}
        return [node.plain() for node in self.items] if self.items is not None else self.text


class DocumentRefusedError(ValueError):
    """It cannot be read at all; the message says why, and where."""


def read_document(text: str) -> YamlNode | None:
    """What the text says; None when it says nothing. Raises DocumentRefusedError."""
    try:
        events = read_events(_as_yaml(text))
    except YamlRefusedError as error:
        raise DocumentRefusedError(
            f"{f'line {error.line}: ' if error.line else ''}{error.says}"
        ) from error
    return _Builder(events).take() if events else None


def _as_yaml(text: str) -> str:
    """JSON as YAML, line by line: tabs are space there, and a string may hold signs that YAML
    spells otherwise.
    """
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return text
    try:
        json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return text  # braces are YAML too
    return _STRING.sub(_respelled, text).replace("\t", " ")


def _respelled(found: re.Match[str]) -> str:
    spelled = json.dumps(json.loads(found[0]), ensure_ascii=False)
    return _BREAKS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", spelled)


class _Builder:
    """Walks the events once. Recursion is safe: the depth is bounded already."""

    def __init__(self, events: list[yaml.Event]) -> None:
        self._events = events
        self._at = 0

    def take(self) -> YamlNode:
        event = self._next()
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.MappingStartEvent):
            return YamlNode(line=line, entries=self._entries())
        if isinstance(event, yaml.SequenceStartEvent):
            return YamlNode(line=line, items=self._items())
        return YamlNode(
            line=line,
            text=None if plain_text(event) in _NOTHING else str(getattr(event, "value", "")),
        )

    def _next(self) -> yaml.Event:
        self._at += 1
        return self._events[self._at - 1]

    def _items(self) -> tuple[YamlNode, ...]:
        items: list[YamlNode] = []
        while not isinstance(self._events[self._at], yaml.SequenceEndEvent):
            items.append(self.take())
        self._at += 1
        return tuple(items)

    def _entries(self) -> tuple[tuple[str, YamlNode], ...]:
        entries: list[tuple[str, YamlNode]] = []
        while not isinstance(self._events[self._at], yaml.MappingEndEvent):
            key, value = self.take(), self.take()
            if key.text is None:
                raise DocumentRefusedError(f"line {key.line}: a key should be a word")
            entries.append(
                (
                    key.text,
                    YamlNode(
                        line=key.line, text=value.text, items=value.items, entries=value.entries
                    ),
                )
            )
        self._at += 1
        return tuple(entries)
