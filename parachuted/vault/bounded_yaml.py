"""Bounded YAML: text from a note read as events and strings, never as objects, within limits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import yaml

from parachuted.errors import EditRefusedError
from parachuted.texts.yaml_events import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_EVENTS,
    YamlRefusal,
    parse_events,
    too_deep,
)

TextStyle: TypeAlias = Literal["plain", "single", "double", "block", "flow"]
YamlValue: TypeAlias = "str | list[YamlValue] | dict[str, YamlValue]"

_STYLES: dict[str, TextStyle] = {
    "'": "single",
    '"': "double",
    "|": "block",
    ">": "block",
}
_STARTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteProblem:
    """An oddity found while reading: `code` is for programs, `message` a sentence for people."""

    code: str
    message: str


class YamlRefusedError(Exception):
    """The text is not YAML, or is more of it than is read."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.problem = NoteProblem(code=code, message=message)


def read_events(text: str, *, has_aliases: bool = False) -> list[yaml.Event]:
    try:
        return parse_events(text, has_aliases=has_aliases)
    except YamlRefusal as refusal:
        raise _refused(refusal) from refusal


def _refused(refusal: YamlRefusal) -> YamlRefusedError:
    """Lines count from the one that opens the frontmatter."""
    where = f" (line {refusal.line + 1})" if refusal.kind == "malformed" and refusal.line else ""
    is_limit = refusal.kind.startswith("too-")
    message = f"the frontmatter {refusal.reason}{where}{' and was not read' * is_limit}"
    return YamlRefusedError(f"frontmatter-{refusal.kind}", message)


def expand_aliases(events: list[yaml.Event]) -> list[yaml.Event]:
    """The events of the anchored node in place of each alias. Raises YamlRefusedError."""
    if not any(isinstance(event, yaml.AliasEvent) for event in events):
        return events
    found: list[yaml.Event] = []
    anchored: dict[str, list[yaml.Event]] = {}
    opened: list[tuple[str | None, int]] = []
    size = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchored:
                name = str(event.anchor)[:80]
                message = (
                    f"'*{name}' has no '&{name}' before it: put a text that begins with * in quotes"
                )
                raise YamlRefusedError("frontmatter-alias", message)
            found += anchored[event.anchor]
            size += sum(
                len(node.value)
                for node in anchored[event.anchor]
                if isinstance(node, yaml.ScalarEvent)
            )
            if len(found) > MAX_EVENTS or size > MAX_BYTES:
                raise YamlRefusedError(
                    "frontmatter-alias",
                    "the aliases of the frontmatter multiply its values, so it was not read",
                )
            continue
        found.append(event)
        if isinstance(event, _STARTS):
            opened.append((event.anchor, len(found) - 1))
            continue
        anchor, start = (
            opened.pop()
            if isinstance(event, _ENDS)
            else (getattr(event, "anchor", None), len(found) - 1)
        )
        if anchor is not None:
            anchored[anchor] = found[start:]
    _check_depth(found)
    return found


def read_value(
    events: list[yaml.Event], *, convert: Callable[[str], Any] = str
) -> tuple[YamlValue, tuple[NoteProblem, ...]]:
    """What the events spell, and what is odd in it; `convert` applies to unquoted values alone."""
    builder = _Builder(events, convert)
    return builder.take(), tuple(builder.problems.values())


class YamlText(NamedTuple):
    """A key or value and where it stands, in characters; `flow` is `[[words]]` without quotes."""

    style: TextStyle
    start: int
    stop: int
    value: str


def read_texts(text: str) -> Iterator[YamlText]:
    """Every text of the document, in order. Raises YamlRefusedError."""
    events = read_events(text, has_aliases=True)
    at = 0
    while at < len(events):
        event, stop = events[at], at + 1
        if isinstance(event, yaml.ScalarEvent):
            style = _STYLES.get(event.style or "", "plain")
            yield YamlText(style, start_of(event), stop_of(event), event.value)
        elif isinstance(event, yaml.SequenceStartEvent) and _is_list_in_list(events, at):
            stop = node_stop(events, at)
            yield YamlText("flow", start_of(event), stop_of(events[stop - 1]), "")
        at = stop


def _is_list_in_list(events: list[yaml.Event], at: int) -> bool:
    if start_of(events[at + 1]) != start_of(events[at]) + 1 or not isinstance(
        events[at + 1], yaml.SequenceStartEvent
    ):
        return False
    inner_stop = node_stop(events, at + 1)
    return isinstance(events[inner_stop], yaml.SequenceEndEvent) and all(
        plain_text(event) is not None
        or isinstance(event, yaml.MappingStartEvent | yaml.MappingEndEvent)
        for event in events[at + 2 : inner_stop - 1]
    )


def plain_text(event: yaml.Event) -> str | None:
    """A scalar's text that has no quotes, tag or block style; None for any other event."""
    return (
        str(event.value)
        if isinstance(event, yaml.ScalarEvent) and not event.style and event.tag is None
        else None
    )


def start_of(event: yaml.Event) -> int:
    return event.start_mark.index if event.start_mark else 0


def stop_of(event: yaml.Event) -> int:
    return event.end_mark.index if event.end_mark else 0


def node_stop(events: list[yaml.Event], start: int) -> int:
    depth = 0
    for index in range(start, len(events)):
        if isinstance(events[index], _STARTS):
            depth += 1
        elif isinstance(events[index], _ENDS):
            depth -= 1
        if depth == 0:
            return index + 1
    return len(events)


def _check_depth(events: list[yaml.Event]) -> None:
    depth = 0
    for event in events:
        depth += isinstance(event, _STARTS) - isinstance(event, _ENDS)
        if depth > MAX_DEPTH:
            raise _refused(too_deep())


class _Builder:
    """Recursion is safe: the depth is bounded already."""

    def __init__(self, events: list[yaml.Event], convert: Callable[[str], Any]) -> None:
        self.problems: dict[str, NoteProblem] = {}
        self._convert = convert
        self._events = events
        self._at = 0

    def take(self) -> YamlValue:
        event = self._events[self._at]
        self._at += 1
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping()
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence()
        if not isinstance(event, yaml.ScalarEvent):
            return ""
        bare = plain_text(event)
        return str(event.value) if bare is None else cast("YamlValue", self._convert(bare))

    def _sequence(self) -> YamlValue:
        items: list[YamlValue] = []
        while not isinstance(self._events[self._at], yaml.SequenceEndEvent):
            items.append(self.take())
        self._at += 1
        return items

    def _mapping(self) -> YamlValue:
        pairs: dict[str, YamlValue] = {}
        merged: dict[str, YamlValue] = {}
        while not isinstance(self._events[self._at], yaml.MappingEndEvent):
            is_merge = plain_text(self._events[self._at]) == "<<"
            key, value = self._key(), self.take()
            maps = [
                one
                for one in (value if isinstance(value, list) else [value])
                if isinstance(one, dict)
            ]
            if is_merge and maps:
                merged = {
                    name: text for one in (merged, *reversed(maps)) for name, text in one.items()
                }
                continue
            if not isinstance(key, str):
                self._report(
                    "frontmatter-complex-key",
                    "a key in the frontmatter is not text (a {{template}}, perhaps); it was "
                    "left out",
                )
                continue
            if key in pairs:
                self._report(
                    "frontmatter-duplicate-key",
                    f"the key {key[:80]!r} stands more than once in the frontmatter; the last "
                    "counts",
                )
            pairs[key] = value
        self._at += 1
        return merged | pairs

    def _key(self) -> YamlValue:
        event = self._events[self._at]
        if not isinstance(event, yaml.ScalarEvent):
            return self.take()
        self._at += 1
        return str(event.value)

    def _report(self, code: str, message: str) -> None:
        self.problems.setdefault(message, NoteProblem(code=code, message=message))


ScalarKind = Literal["text", "boolean", "number", "null", "date"]

_KINDS: dict[str, ScalarKind] = {
    "tag:yaml.org,2002:bool": "boolean",
    "tag:yaml.org,2002:int": "number",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:timestamp": "date",
}
_NUMBER_12 = re.compile(
    r"0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_TYPED = frozenset(["", *"tTfFnN~-.0123456789"])
_LARGEST_NUMBER = 2**63
_LONGEST_NUMBER = 30
_RESERVED = frozenset({"y", "Y", "n", "N", "=", "<<"})
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPED = re.compile(f'["\\\\]|{UNPRINTABLE.pattern}')


def kind_of(word: str) -> ScalarKind:
    """What a YAML 1.1 or 1.2 reader takes the unquoted word for."""
    for tag, pattern in yaml.SafeLoader.yaml_implicit_resolvers.get(word[:1], ()):
        if tag in _KINDS and pattern.match(word):
            return _KINDS[tag]
    return "number" if _NUMBER_12.fullmatch(word) else "text"


def json_scalar(word: str) -> str | float | bool | None:
    """What the unquoted word means as JSON; `1.10`, `007` and numbers beyond 64 bits stay words."""
    if word[:1] not in _TYPED:
        return word
    if (found := _WORDS.get(word, word)) is not word or len(word) > _LONGEST_NUMBER:
        return found
    for kind in (int, float):
        with suppress(ValueError, OverflowError):
            number = kind(word)
            if math.isfinite(number) and str(number) == word and abs(number) < _LARGEST_NUMBER:
                return number
    return word


def write_scalar(value: str | float) -> str:
    """The value as YAML on one line, quoted only where it must be. Raises EditRefusedError."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _write_integer(value)
    if isinstance(value, float):
        return _write_float(value)
    return value if is_bare(value) else _quote(value)


def write_key(name: str) -> str:
    if not name:
        raise EditRefusedError("a frontmatter key cannot be empty")
    return name if is_bare(name) else _quote(name)


def is_bare(text: str) -> bool:
    if UNPRINTABLE.search(text) or "---" in text or text in _RESERVED or kind_of(text) != "text":
        return False
    try:
        events = read_events(f"k: {text}\n")
    except YamlRefusedError:
        return False
    return len(events) == len(("start", "key", "value", "end")) and plain_text(events[2]) == text


def _write_integer(value: int) -> str:
    try:
        return str(value)
    except ValueError as error:
        raise EditRefusedError("the number has too many digits to be written") from error


def _write_float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _quote(text: str) -> str:
    if "\0" in text:
        raise EditRefusedError("a frontmatter value cannot hold NUL")
    if re.search("[\ud800-\udfff]", text):
        raise EditRefusedError("a frontmatter value cannot hold text that is not Unicode")
    if _ESCAPED.search(text) and not UNPRINTABLE.search(text) and "---" not in text:
        return "'" + text.replace("'", "''") + "'"
    return '"' + _ESCAPED.sub(_escape, text).replace("---", "--\\x2D") + '"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    return _ESCAPES.get(char) or (f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}")  # noqa: PLR2004 - \x holds two digits
