"""Document: YAML as texts, lists and mappings that know their lines, within fixed limits.

Only the stream of events is read, so no object is built, no alias is followed, and a date, a
number or `no` stays the text it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import yaml

PlainValue: TypeAlias = "str | list[PlainValue] | dict[str, PlainValue] | None"

MAX_BYTES = 64 * 1024
MAX_DEPTH = 64
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TAB_IN_BLOCK_TEXT = "found a tab character where an indentation space is expected"
_TOO_DEEP_FOR_LIBYAML = "exceeded maximum nesting depth"  # 1,000 levels, as PyYAML 6.0.4 bundles it
_BOM = "\ufeff"


class YamlRejectedError(ValueError):
    """The text is not YAML, or more of it than is read. `line` is from 1; None: no single one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlNode:
    """A value. All places are in characters of the whole text.

    `line`, from 1, and `begin` are those of its key, where it has one; `key_stop` is where that
    ends. `word` is a scalar as it is written without quotes. `is_flow`: in brackets or braces;
    `in_flow`: inside of some.
    """

    line: int
    begin: int
    start: int
    stop: int
    column: int
    key_stop: int | None = None
    text: str | None = None
    word: str | None = None
    items: tuple[YamlNode, ...] | None = None
    entries: tuple[tuple[str, YamlNode], ...] | None = None
    is_flow: bool = False
    in_flow: bool = False

    @property
    def is_nothing(self) -> bool:
        return self.text is None and self.items is None and self.entries is None

    @property
    def children(self) -> Mapping[str | int, YamlNode]:
        """Its entries by key, the last of each, or its items by number."""
        return dict(self.entries or ()) if self.items is None else dict(enumerate(self.items))

    def plain(self) -> PlainValue:
        """The same without the places; of a repeated key the last counts."""
        if self.entries is not None:
            return {key: node.plain() for key, node in self.entries}
        return [node.plain() for node in self.items] if self.items is not None else self.text


def read_document(text: str, *, limit: int = MAX_BYTES, is_strict: bool = False) -> YamlNode | None:
    """What the text says; None when it says nothing. Raises YamlRejectedError.

    `is_strict` refuses a repeated key, and what may have been cut off, which could lack what
    narrows a right: the last line needs its end, and a text that begins with `---` needs `...`.
    """
    if len(text) > limit:
        raise YamlRejectedError(f"it is larger than {limit // 1024} KB")
    if is_strict and not text.endswith("\n"):
        raise YamlRejectedError("it is cut off: its last line has no end")
    if is_strict and text.startswith("---") and not text.rstrip().endswith("\n..."):
        raise YamlRejectedError("it is cut off: no `...` ends it")
    events = _parse(text.removeprefix(_BOM))
    return _Builder(events, text, is_strict=is_strict).take() if events else None


def _parse(text: str) -> list[yaml.Event]:
    try:
        try:
            return _within_limits(yaml.parse(text, Loader=_LOADER))
        except yaml.scanner.ScannerError as error:
            if error.problem != _TAB_IN_BLOCK_TEXT:
                raise
            # libyaml refuses a block text whose first line begins with a tab after its indentation;
            # PyYAML's own parser reads it.
            return _within_limits(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        if error.problem == _TOO_DEEP_FOR_LIBYAML:
            raise _too_deep(line) from error
        hint = (
            "; put a text that begins with * in quotes"
            if error.context == "while scanning an alias"
            else ""
        )
        raise YamlRejectedError(
            f"it is not YAML: {error.problem or error.context}{hint}", line
        ) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        if isinstance(error, YamlRejectedError):
            raise
        raise YamlRejectedError(f"it is not YAML: {str(error).splitlines()[0]}") from error


def _too_deep(line: int | None) -> YamlRejectedError:
    return YamlRejectedError(f"it is nested more than {MAX_DEPTH} levels deep", line)


def _within_limits(events: Iterable[yaml.Event]) -> list[yaml.Event]:
    found: list[yaml.Event] = []
    depth = documents = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        line = event.start_mark.line + 1 if event.start_mark else None
        if depth > MAX_DEPTH:
            raise _too_deep(line)
        if documents > 1:
            raise YamlRejectedError("it holds more than one YAML document", line)
        if isinstance(event, yaml.AliasEvent):
            name = f"*{event.anchor}"[:80]
            raise YamlRejectedError(f"it uses an alias: put {name!r} in quotes", line)
        if isinstance(
            event, yaml.ScalarEvent | yaml.CollectionStartEvent | yaml.CollectionEndEvent
        ):
            found.append(event)
    return found


class _Builder:
    """Walks the events once. Recursion is safe: the depth is bounded already."""

    def __init__(self, events: list[yaml.Event], text: str, *, is_strict: bool) -> None:
        self._events, self._text, self._is_strict = iter(events), text, is_strict
        self._shift = len(_BOM) if text.startswith(_BOM) else 0

    def take(self) -> YamlNode:
        return self._node(next(self._events), in_flow=False)

    def _node(self, event: yaml.Event, *, in_flow: bool) -> YamlNode:
        mark, stop = event.start_mark, self._stop(event)
        start = mark.index + self._shift if mark else 0
        node = YamlNode(
            line=mark.line + 1 if mark else 1,
            begin=start,
            start=start,
            stop=stop,
            column=mark.column if mark else 0,
            in_flow=in_flow,
        )
        if isinstance(event, yaml.ScalarEvent):
            is_word = not event.style and event.tag is None
            text = str(event.value)
            return replace(
                node,
                text=None if is_word and text in _NULLS else text,
                word=text if is_word else None,
                stop=self._block_stop(start, stop) if event.style in {"|", ">"} else stop,
            )
        is_flow = isinstance(event, yaml.CollectionStartEvent) and bool(event.flow_style)
        if isinstance(event, yaml.SequenceStartEvent):
            items, end = self._items(in_flow=is_flow)
            inner = [item.stop for item in items]
            node = replace(node, items=tuple(items))
        else:
            entries, end = self._entries(in_flow=is_flow)
            inner = [value.stop for _, value in entries]
            node = replace(node, entries=tuple(entries))
        # The parser gives the end of a block as the place of the next token, which is too late.
        stop = self._stop(end) if is_flow else max(inner, default=stop)
        return replace(node, is_flow=is_flow, stop=stop)

    def _stop(self, event: yaml.Event) -> int:
        return event.end_mark.index + self._shift if event.end_mark else 0

    def _block_stop(self, start: int, stop: int) -> int:
        """Where a block text ends, without the empty lines that follow and do not count."""
        body = self._text[start:stop]
        if "+" in body.partition("\n")[0]:
            return stop
        return start + (body.find("\n", len(body.rstrip(" \t\r\n"))) + 1 or len(body))

    def _items(self, *, in_flow: bool) -> tuple[list[YamlNode], yaml.Event]:
        items: list[YamlNode] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, in_flow=in_flow))
        return items, event

    def _entries(self, *, in_flow: bool) -> tuple[list[tuple[str, YamlNode]], yaml.Event]:
        entries: list[tuple[str, YamlNode]] = []
        names: set[str] = set()
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, in_flow=in_flow)
            name = key.word if key.text is None else key.text
            if name is None:
                raise YamlRejectedError("a key should be a word", key.line)
            if key.word == "<<":
                raise YamlRejectedError("it merges mappings with <<, which is not read", key.line)
            if self._is_strict and name in names:
                raise YamlRejectedError(f"the key {name[:80]!r} is repeated", key.line)
            names.add(name)
            value = self._node(next(self._events), in_flow=in_flow)
            value = replace(value, line=key.line, begin=key.begin, key_stop=key.stop)
            entries.append((name, value))
        return entries, event
